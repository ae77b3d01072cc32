"""A process beside the job that follows its records, from some time on; it lowers its priority by itself.

What it finds out it prints on the standard error by itself. It ends with us.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

from scalana import console
from scalana.errors import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

ABORT = 86
"""Exit code of one that asks for the end of the job."""
_END_S = 5.0


class Follower:
    """Follows a run.

    Args:
        find_python: gives the Python that analyses, None for this one. Called when the follower starts.
        words: the command of scalana that follows.
        after_s: so long after the job it starts: a job that is short is not followed.
    """

    def __init__(self, find_python: Callable[[], str | None], words: Sequence[str], after_s: float) -> None:
        self._find_python = find_python
        self._words = list(words)
        self._due_s = time.monotonic() + after_s
        self._process: subprocess.Popen[bytes] | None = None

    def asks_for_the_end(self) -> bool:
        """Start it when it is time to; whether it has ended and asks for the end of the job. Called now and then."""
        if self._process is None:
            if time.monotonic() >= self._due_s:
                self._due_s = float("inf")
                self._start()
            return False
        return self._process.poll() == ABORT

    def stop(self) -> None:
        """End it, if it still runs."""
        import subprocess

        self._due_s = float("inf")
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        import subprocess  # a job waits for all that is loaded before it

        from scalana import analysis_home

        entry = os.path.join(os.path.dirname(os.path.abspath(__file__)), "analysis_entry.py")
        try:
            python = self._find_python()
            self._process = subprocess.Popen(
                [python or sys.executable, entry, *self._words],
                env=dict(os.environ) if python is None else analysis_home.plain_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                preexec_fn=_leave_interrupts,
            )
        except (OSError, CommandError) as error:
            console.complain(f"the run is not followed while it goes on: {error}")


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the job: we end the follower when the job has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
