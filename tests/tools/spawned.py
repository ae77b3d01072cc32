"""Starts a program on several ranks, each a process of its own that imports torch by itself.

Does what ``torchrun --standalone --nproc-per-node RANKS PROGRAM`` does, without the seconds in which torchrun itself
imports torch before any rank begins::

    python tests/tools/spawned.py RANKS PROGRAM [ARGUMENTS]
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(processes: dict[int, subprocess.Popen[bytes]]) -> int:
    """Waits for all ranks, or ends them when one fails. The exit code: that of the first that fails, or 0."""
    failed = 0
    while processes:
        pid, status = os.wait()
        processes.pop(pid).returncode = code = os.waitstatus_to_exitcode(status)
        if code and not failed:
            failed = abs(code)
            for other in processes.values():
                other.terminate()
    return failed


def main() -> None:
    ranks, arguments = int(sys.argv[1]), sys.argv[2:]
    common = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    common["MASTER_PORT"] = str(free_port())
    processes = {}
    for rank in range(ranks):
        environment = {**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        process = subprocess.Popen([sys.executable, *arguments], env=environment)
        processes[process.pid] = process
    sys.exit(wait_for(processes))


if __name__ == "__main__":
    main()
