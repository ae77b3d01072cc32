"""Runs programs under the recorder's start-up hook, with or without it, and reads what was recorded."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.operations import BY_CODE
from scalana.runtime.record.format import ProcessRecord
from tests.installed import PACKAGE, RUNTIME, SITE
from tests.tools.fork_server import alone, launcher

ROOT = Path(__file__).resolve().parents[2]
BOOTSTRAP = RUNTIME / "bootstrap"
PROGRAMS = Path(__file__).resolve().parent / "programs"
RECORDER = tuple(f"{folder}{os.sep}" for folder in (RUNTIME, PACKAGE))
"""Beginnings of the names of all files that a recorded process may run of ours."""
_NAMED = re.compile(r"(?<![\w/-])scalana\b")
"""Our name where it is no part of a path: the checkout may lie in a folder of that name."""

_OURS = ("SCALANA_", "PYTHONPATH", "RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_", "PMI_", "SLURM_")


def environment(record: Path | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a job; of a recorded one if ``record`` is given."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
    env["OMP_NUM_THREADS"] = "1"
    if record is not None:
        env["SCALANA_RUN_DIR"] = str(record)
        env["SCALANA_PACKAGE"] = str(SITE)
        env["PYTHONPATH"] = str(BOOTSTRAP)
        if "SCALANA_CACHE" not in (extra or {}):  # what a job would find compiled depends on whose home this is
            env["SCALANA_TORCH_KERNELS"] = "0"
    for key, value in (extra or {}).items():
        if key == "PYTHONPATH" and "PYTHONPATH" in env:
            value = env["PYTHONPATH"] + os.pathsep + value
        env[key] = value
    return env


def run(
    command: Sequence[str | Path],
    record: Path | None = None,
    extra: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. A job that takes too long is killed with all of its processes."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(record, extra),
        cwd=cwd or PROGRAMS,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{command} took more than {timeout_s} s\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def python(code: str, record: Path | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python code."""
    return run([sys.executable, "-c", code], record, **options)  # type: ignore[arg-type]


def torchrun(
    ranks: int, program: str, *arguments: str | Path, record: Path | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run one of the programs on some ranks."""
    words = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc-per-node={ranks}"]
    words += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    return run([*words, PROGRAMS / program, *arguments], record, **options)  # type: ignore[arg-type]


def forked(
    ranks: int, program: str, *arguments: str | Path, record: Path | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    """The same with ranks that are forked from a process which has imported torch: for a third of the CPU time."""
    return run([*launcher(ranks), PROGRAMS / program, *arguments], record, **options)  # type: ignore[arg-type]


def with_torch(*words: str | Path, record: Path | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    """``python WORDS``, a file or ``-c`` and code, in a process that is forked from one which has imported torch."""
    return run([*alone(), *words], record, **options)  # type: ignore[arg-type]


def shows_recorder(text: str) -> list[str]:
    """Lines of a text, such as one with tracebacks, that show a file of the recorder, or its name."""
    return [line for line in text.splitlines() if any(folder in line for folder in RECORDER) or _NAMED.search(line)]


def records(folder: Path) -> list[ProcessRecord]:
    """Everything recorded; an error if a recorder has noted a failure of its own, or a file has damage."""
    found = RunFolder(folder).processes()
    for record in found:
        assert record.notes == [], record.notes
        assert record.troubles == [], record.troubles
    return found


def ranks(folder: Path) -> list[ProcessRecord]:
    """Records of ranks, in order."""
    return [record for record in records(folder) if record.role == "rank"]


class Call:
    """One row of the communication calls of a record."""

    def __init__(self, record: ProcessRecord, row: int) -> None:
        events = record.events
        self.id = events.id[row]
        self.operation = BY_CODE[events.operation[row]].name
        group = record.groups.get(events.group[row])
        self.group = group.name if group else ""
        self.members = list(group.ranks) if group else []
        self.seq = events.seq[row]
        self.peer = events.peer[row]
        self.tag = events.tag[row]
        self.nbytes = events.nbytes[row]
        self.flags = events.flags[row]
        self.enter_ns = events.enter_ns[row]
        self.exit_ns = events.enter_ns[row] + events.duration_ns[row]
        self.completes = events.completes[row]
        self.path = events.path[row]

    @property
    def seconds(self) -> float:
        return (self.exit_ns - self.enter_ns) * 1e-9

    def __repr__(self) -> str:
        return f"<{self.operation} {self.group} #{self.seq} peer {self.peer} {self.nbytes} B flags {self.flags}>"


def calls(record: ProcessRecord) -> list[Call]:
    """Communication calls in the order in which they began."""
    return sorted((Call(record, row) for row in range(len(record.events))), key=lambda call: call.id)


def sources(record: ProcessRecord) -> dict[int, int]:
    """Source ranks of receives from anybody, by event."""
    done = record.done
    return {event: source for event, source in zip(done.event, done.source, strict=True) if source >= 0}
