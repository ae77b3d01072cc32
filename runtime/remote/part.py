"""Whether this process is one of those that call each other, and what it is to them.

Who hands something over, or takes it, is told apart in the report. That a process starts another one, and waits for its
end, is not enough where it has a rank, or descends from one: its helpers count for the rank. What is known of starts is
kept there until one of them takes part otherwise.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.typed import Any

_MOST_STARTS = 1000
"""Starts of processes that are kept until it is known whether they matter."""

member_of = [""]
"""The record in which this process has said that it takes part."""
_starting_in = [""]
"""The record in which it has said that it starts or is started."""
_name = [""]
"""What it was called that this process was started as."""
_asks: list[tuple[str, bool]] = []
"""The record in which it has said that it sends requests, and whether it only serves."""
_starts: list[tuple[Any, ...]] = []
"""Arguments of ``core.event_at`` of what is kept."""


def take() -> None:
    """Say in the record that this process takes part."""
    if member_of[0] == session.record_path:
        return
    member_of[0] = session.record_path
    try:
        _become("calls")
        for event in _starts:
            session.core.event_at(*event)
    except Exception as failure:
        session.note(f"remote calls: {failure!r}")
    _starts.clear()


def is_told_apart() -> bool:
    """Whether this process has a row of its own in the report, or has one for its starts alone."""
    return member_of[0] == session.record_path or session.process_role in ("process", "member")


def start(event: tuple[Any, ...], name: str = "") -> None:
    """This process starts another one, or was started by one, as a process of some name; the event has the arguments
    of ``core.event_at``."""
    _name[0] = name or _name[0]
    if not is_told_apart():
        if len(_starts) < _MOST_STARTS:
            _starts.append(event)
        return
    if member_of[0] != session.record_path and _starting_in[0] != session.record_path:
        _starting_in[0] = session.record_path
        _become("starts")
    session.core.event_at(*event)


def ask(serves: bool) -> None:
    """Say in the record that this process sends requests to servers, or answers them (``serves``: and does nothing else
    in its main thread). It takes part if who is at their other end does, which is known afterwards."""
    known = session.record_path, serves
    if known not in _asks:
        _asks.clear()
        _asks.append(known)
        session.core.meta("asks", "server" if serves else _own_role())


def _become(by: str) -> None:
    session.become_member(_own_role())
    session.core.meta("takes_part_by", by)


def _own_role() -> str:
    return _role(_name[0] or ("worker" if session.process_role == "child" else ""))


def _role(name: str) -> str:
    """What a process is to others: ``main process``, ``worker``, or the name that somebody gave it."""
    if not name:
        return "main process"
    name = name.rstrip("0123456789:-_ ")
    return "worker" if not name or name.endswith(("Process", "PoolWorker")) else name


def _forget() -> None:
    """A process was forked: what is kept is of another one."""
    _starts.clear()
    _name[0] = ""


session.when_started(_forget)
