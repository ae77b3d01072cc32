"""Tells whether a signal was sent to our whole process group, or to us alone.

The job is in our process group. What is sent to the group (Ctrl-C, ``kill -- -PGID``, a batch system) has reached the
job already and must not be sent on: it would arrive twice. What is sent to us alone must be. A signal does not say
which it was, so a small process in the group has the same signals sent to it, blocks them, and never takes them: those
of the group are pending there, those meant for us alone are not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable

_SETTLE_S = 0.02
"""The kernel signals the members of a group one after the other; this is a thousand times what it takes."""


class Witness:
    """The process in the group. It ends with :meth:`close`, or with us.

    Args:
        watched: signals to ask about.

    Raises:
        OSError: no process can be made.
    """

    def __init__(self, watched: Iterable[int]) -> None:
        self._watched = set(watched)
        self._pid, self._ours = 0, -1
        self._start()

    def saw(self, number: int) -> bool:
        """Whether signal ``number``, which has just reached us, was sent to the whole group."""
        time.sleep(_SETTLE_S)
        pending = bool(self._pending() >> (number - 1) & 1)
        if pending:
            # Pending signals do not count up: the next one needs a new witness.
            self.close()
            with contextlib.suppress(OSError):
                self._start()
        return pending

    def close(self) -> None:
        """End the process."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)

    def _start(self) -> None:
        theirs, ours = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        try:
            pid = os.fork()
            if pid == 0:
                try:
                    os.close(ours)
                    os.read(theirs, 1)  # returns when the other end is closed, at the latest by our end
                finally:
                    os._exit(0)
            self._pid, self._ours = pid, ours
        except OSError:
            os.close(ours)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(theirs)

    def _pending(self) -> int:
        """Signals that wait in the process, bit n - 1 for signal n; 0 if it is gone."""
        try:
            with open(f"/proc/{self._pid}/status", encoding="ascii", errors="replace") as status:
                for line in status:
                    if line.startswith("ShdPnd:"):
                        return int(line.split()[1], 16)
        except OSError:
            pass
        return 0
