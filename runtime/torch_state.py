"""What the pieces that record torch share: posts under way, and what each thread is in the midst of."""

from __future__ import annotations

import threading

from scalana.runtime import recorder
from scalana.runtime.torch_blocked import Post, Scope
from scalana.runtime.torch_groups import Group, Groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCKING, POST, WAIT, FROM_CPP, ANY_SOURCE = 1, 2, 4, 8, 16
"""Flags of an event in the record."""


class Pending:
    """A post whose completion has not been seen by Python."""

    __slots__ = ("event", "group", "nbytes", "peer", "post", "seq", "tag", "any_source")

    def __init__(
        self, event: int, group: Group, seq: int, peer: int, tag: int, nbytes: int, any_source: bool, post: Post | None
    ) -> None:
        self.event = event
        self.group = group
        self.seq = seq
        self.peer = peer
        self.tag = tag
        self.nbytes = nbytes
        self.any_source = any_source
        self.post = post


class _ThreadState(threading.local):
    """What a thread is in the midst of."""

    scope: Scope | None = None
    """The call into C++ whose waits are to be reconstructed."""
    backward: tuple[int, Scope] | None = None
    """Innermost backward pass: id of its graph task, and its posts."""
    any_source: tuple[int, Group] | None = None
    """Event and group of the blocking receive from anybody that is under way."""


class Recording:
    """Everything that the kernels share."""

    def __init__(self) -> None:
        self.core: Any = None
        """The extension; while nothing is recorded its functions do nothing."""
        self.groups = Groups()
        self.thread = _ThreadState()
        self.works: dict[int, Pending] = {}
        """By address of the Work in C++."""
        self.storages: dict[int, Pending] = {}
        """By address of the storage of a result, for the posts of functional collectives."""
        self.no_future: set[tuple[str, str]] = set()
        self.noted: set[str] = set()

    def failed(self, what: str, failure: BaseException) -> None:
        """Note, once for each kind, that something could not be recorded."""
        if what not in self.noted:
            self.noted.add(what)
            recorder.note(f"torch: {what}: {type(failure).__name__}: {failure}")

    def restart(self) -> None:
        """A new record began in this process (at start, or after a fork)."""
        self.works.clear()
        self.storages.clear()
        self.thread = _ThreadState()
        self.noted.clear()
        self.groups.new_record(recorder.core)
        self.core = recorder.core


recording = Recording()
