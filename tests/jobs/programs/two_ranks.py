"""Ranks of one host, forked from a process that imports torch for all of them: a launcher that costs little.

``NODE`` is the number of the host, and ``NODES`` how many there are.
"""

from __future__ import annotations

import os
import signal
import sys

from late_on_a_host import main

RANKS = 2
"""Of a host."""


def start(local: int) -> int:
    """Fork a rank."""
    pid = os.fork()
    if pid == 0:
        os.environ.update(RANK=str(int(os.environ["NODE"]) * RANKS + local))
        os.environ.update(WORLD_SIZE=str(int(os.environ["NODES"]) * RANKS))
        code = 1
        try:
            main()
            code = 0
        finally:
            os._exit(code)
    return pid


pids = [start(local) for local in range(RANKS)]
signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGTERM) for pid in pids])
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in pids))
