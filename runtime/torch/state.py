"""What the pieces that record torch share."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.torch.groups import Groups
from scalana.runtime.typed import Any


class Recording:
    """Everything that the kernels share."""

    def __init__(self) -> None:
        self.core: Any = None
        """The extension; while nothing is recorded its functions do nothing."""
        self.groups = Groups()
        self.noted: set[str] = set()

    def failed(self, what: str, failure: BaseException) -> None:
        """Note, once for each kind, that something could not be recorded."""
        if what not in self.noted:
            self.noted.add(what)
            session.note(f"torch: {what}: {type(failure).__name__}: {failure}")

    def restart(self) -> None:
        """A new record began in this process (at start, or after a fork)."""
        self.noted.clear()
        self.groups.new_record(session.core)
        self.core = session.core


recording = Recording()
