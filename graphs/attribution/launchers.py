"""Code of libraries that starts the processes and threads of a program, or hands calls to them: none of it is named."""

from __future__ import annotations

STARTED = "python -c"
"""Stands for the file of a line of code by which a library starts its processes."""
STARTERS = {
    "runpy.py": "",
    "threading.py": "thread",
    "thread.py": "thread",
    "process.py": "process",
    "spawn.py": "process",
    "popen_fork.py": "process",
    "forkserver.py": "process",
    "popen_loky_posix.py": "process",
    f"{STARTED}.py": "",
}
"""Modules of the standard library that start programs, threads and processes; what they call is what counts."""
LOOPS = {
    ("default_worker.py", "<module>"),
    ("pool.py", "worker"),
    ("process.py", "_process_worker"),
    ("process_executor.py", "_process_worker"),
}
"""Modules and functions of libraries in which their workers wait for calls, and make them."""
BETWEEN_CALLS = "<between calls>"
"""Stands for the file of these loops, which are nothing that a user could change."""
NEXT_CALL = "waits for the next call"
