"""Jobs that hang or are slow, in the kinds of the programs in ``programs``, followed by ``scalana run``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scalana.runtime.record import layout

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 5
HANGS = (
    "absent", "circle", "endless", "file-lock", "holds-gil", "in-c", "loader", "lock", "other-call", "pipe", "pool",
    "server", "stopped", "threads", "mpi-absent", "mpi-circle", "ray-circle", "ray-stands", "ray-unscheduled",
)  # fmt: skip
SLOW = (
    "checkpoint", "compilation", "evaluation", "first-batch", "other-program", "trajectory", "verifiers",
    "mpi-checkpoint", "mpi-farm", "ray-trajectory",
)  # fmt: skip
_SEEN = {
    "file-lock": "waiting for the lock of", "server": "receiving from 127.0.0.1:", "stopped": "by a signal",
    "threads": "deadlock: the main thread waits for thread ", "lock": "for a lock that it holds itself, taken at ",
    "pool": "for a lock that it holds itself, taken at ", "loader": "for a lock that it holds itself, taken at ",
}  # fmt: skip
"""What the kernel, and the memory of a process, say of some."""
_WITHOUT_LINE = ("stopped",)
"""A process that is stopped writes nothing."""
_CONCERNED = {
    "circle": "All 2 ranks", "other-call": "Rank", "mpi-circle": "All 2 ranks", "ray-circle": "All 2 Worker processes",
    "ray-stands": "Worker 1", "ray-unscheduled": "Worker 1",
}  # fmt: skip
"""The ranks that are named, where that is not rank 1. Of two calls that differ, either may be."""


@dataclass(frozen=True)
class Watched:
    """What became of a job."""

    code: int
    said: list[str]
    """Of a hang, a line each; nothing where there was none."""
    printed: str
    """On the standard error."""
    after_s: float = 0.0
    """Seconds from the limit until the hang was explained."""


def program_of(kind: str) -> Path:
    """The program that has a kind."""
    return PROGRAMS / {"mpi": "mpi_hangs.py", "ray": "ray_hangs.py"}.get(kind.partition("-")[0], "hangs.py")


def needs(kind: str) -> str:
    """What a kind needs: ``torch``, ``mpi`` or ``ray``."""
    return {"mpi_hangs.py": "mpi", "ray_hangs.py": "ray"}.get(program_of(kind).name, "torch")


def _job(kind: str, file: Path) -> Sequence[object]:
    """The command of a job of two ranks, or of a driver and two actors."""
    if needs(kind) == "ray":
        return sys.executable, program_of(kind), kind
    if needs(kind) == "mpi":
        folder = ROOT / "build" / "mpi" / "openmpi" / "bin"
        options = "--oversubscribe", "--allow-run-as-root", "-n", "2"
        return folder / "mpirun", *options, folder / "python", program_of(kind), kind, file
    torch = "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2"
    return sys.executable, *torch, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", program_of(kind), kind, file


def watched(kind: str, folder: Path, timeout_s: float = 300) -> Watched:
    """Run a kind, and end it where it hangs."""
    own = [sys.executable, "-m", "scalana", "run", "-o", folder / "run", "--no-report"]
    own += ["--hang-after", str(LIMIT_S), "--on-hang", "abort", "--"]
    words = [str(word) for word in (*own, *_job(kind, folder / "file"))]
    environment = dict(os.environ)
    if needs(kind) == "ray":
        environment["PYTHONPATH"] = str(ROOT / "build" / "ray" / "site-packages")
    process = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, printed = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    said = folder / "run" / "hang-1.txt"
    if not said.exists():
        return Watched(process.returncode, [], printed)
    return Watched(process.returncode, said.read_text().splitlines(), printed, _after_s(folder / "run", said))


def _after_s(run: Path, said: Path) -> float:
    """Seconds from the limit until the explanation was written."""
    (hang,) = json.loads(Path(layout.hangs_file(str(run))).read_text())["hangs"]
    return said.stat().st_mtime - float(hang["since_unix_s"]) - LIMIT_S


def wrong_with(kind: str, done: Watched) -> str:
    """What is wrong with the explanation of a hang; empty if it is right."""
    if not done.said:
        return f"no hang was reported:\n{done.printed}"
    explained = done.said[: done.said.index("")]
    program = program_of(kind)
    lines = [
        n for n, line in enumerate(program.read_text().splitlines(), 1) if kind in line.partition("# <- ")[2].split()
    ]
    right = f": {_CONCERNED.get(kind, 'Rank 1')} " in explained[1]
    right &= kind in _WITHOUT_LINE or any(f"{program.name}:{line} " in explained[1] for line in lines)
    right &= any(_SEEN.get(kind, "") in line for line in explained)
    return "" if right else "\n".join(explained)
