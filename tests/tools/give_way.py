"""Runs a command with what others leave of the cores: ``python tests/tools/give_way.py COMMAND``.

Linux divides cores among sessions first (autogroups, see sched(7)), and by niceness within a session only. So the
command runs in a session of its own, and both are lowered. It ends with the process that has started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")
PR_SET_PDEATHSIG = 1
LAST = 19
"""The niceness of what comes last."""


def lower_session(niceness: int) -> None:
    """Begins a session with this process, which gives way to other sessions.

    Where sessions have no niceness, or a session cannot begin here, nothing changes.
    """
    with contextlib.suppress(OSError):
        os.setsid()
        AUTOGROUP.write_text(str(niceness))


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    lower_session(LAST)
    os.nice(LAST)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
