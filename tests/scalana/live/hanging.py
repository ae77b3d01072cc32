"""Jobs that hang or are slow, in the kinds of ``programs/hangs.py``, followed by ``scalana run``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "hangs.py"
LIMIT_S = 5
HANGS = (
    "absent", "circle", "endless", "file-lock", "holds-gil", "in-c", "loader", "lock", "other-call", "pipe", "pool",
    "server", "stopped",
)  # fmt: skip
SLOW = ("checkpoint", "evaluation", "other-program", "trajectory")
_KERNEL = {"file-lock": "waiting for the lock of", "server": "receiving from 127.0.0.1:", "stopped": "by a signal"}
"""What the kernel says of some."""
_WITHOUT_LINE = ("other-call", "stopped")
"""Of two calls that differ either may be named; a process that is stopped writes nothing."""
_RANKS = {"circle": "All 2 ranks", "other-call": "Rank 0"}


@dataclass(frozen=True)
class Watched:
    """What became of a job."""

    code: int
    said: list[str]
    """Of a hang, a line each; nothing where there was none."""
    printed: str
    """On the standard error."""


def watched(kind: str, folder: Path, timeout_s: float = 300) -> Watched:
    """Run a kind on two ranks, and end it where it hangs."""
    own = [sys.executable, "-m", "scalana", "run", "-o", folder / "run", "--no-report"]
    own += ["--hang-after", str(LIMIT_S), "--on-hang", "abort", "--"]
    job = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2"]
    job += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", PROGRAM, kind, folder / "file"]
    words = [str(word) for word in (*own, *job)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, printed = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    said = folder / "run" / "hang-1.txt"
    return Watched(process.returncode, said.read_text().splitlines() if said.exists() else [], printed)


def wrong_with(kind: str, done: Watched) -> str:
    """What is wrong with the explanation of a hang; empty if it is right."""
    if not done.said:
        return f"no hang was reported:\n{done.printed}"
    explained = done.said[: done.said.index("")]
    lines = [
        n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if kind in line.partition("# <- ")[2].split()
    ]
    right = f": {_RANKS.get(kind, 'Rank 1')} " in explained[1]
    right &= kind in _WITHOUT_LINE or any(f"{PROGRAM.name}:{line} " in explained[1] for line in lines)
    right &= any(_KERNEL.get(kind, "") in line for line in explained)
    return "" if right else "\n".join(explained)
