"""Progress of a long analysis, on a terminal and nowhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from scalana import console

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_SHOW_AFTER_S = 0.5


class Progress:
    """A bar on ``stream`` that appears when the work takes longer than half a second, and leaves no trace.

    Call it with what is being done and, where known, how much of it is done: ``progress("reading", 3, 16)``.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._enabled = console.is_terminal(stream)
        self._since_s = time.monotonic()
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, what: str, done: float = 0, total: float = 0) -> None:
        """Say what is being done, and how much of it (``total`` 0: not known)."""
        if not self._enabled or (self._bar is None and time.monotonic() - self._since_s < _SHOW_AFTER_S):
            return
        if self._bar is None:
            self._bar = self._start()
            self._task = self._bar.add_task(what, total=None)
        assert self._task is not None
        self._bar.update(self._task, description=what, completed=done, total=total or None)

    def _start(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        bar = RichProgress(
            TextColumn("scalana: {task.description}"),
            BarColumn(bar_width=30),
            console=Console(file=self._stream),
            transient=True,
        )
        bar.start()
        return bar
