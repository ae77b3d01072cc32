"""One run with and without scalana, and what was different."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.record.format import RecordError

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).resolve().parent / "program.py"
_MARK = "FAULT_TRIAL"
"""Variable by which the processes of a trial are found."""
LIMIT_S = 120.0
"""A run that takes longer hangs."""
LOST_S = 1.0
"""So much of a record may be missing before a process is killed."""
_FLUSHED_LATE_S = 0.5
"""On a machine that has other things to do, a thread may come later to what it does once a second."""
_UNRECORDED = frozenset(
    ("run folder removed", "run folder not writable", "records truncated", "full disk", "files closed", "few files",
     "little memory")
)  # fmt: skip
"""Faults after which a record cannot be complete."""
_NEVER_END = frozenset((("mpi", "fork, sys.exit"), ("mpi", "files closed")))
"""Jobs that hang without scalana: a child ends what its parent is in, or files of the library are closed."""
_ADDED = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
_NAMES = ("SCALANA_", "PYTHONPATH", "LD_PRELOAD", "RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_", "PMI")


@dataclass(frozen=True)
class Trial:
    """What is run."""

    job: str
    fault: str
    tick: int
    around: str = ""
    """What else is there: ``clock``, ``sitecustomize``, ``pdb`` or ``gdb``."""

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.fault}{f' + {self.around}' if self.around else ''}"


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int | None
    """None where it hung."""
    out: list[str]
    seconds: float
    err: str


@dataclass(frozen=True)
class Judged:
    """What a trial showed."""

    trial: Trial
    wrong: tuple[str, ...]
    """Empty where the run was as it is without scalana."""
    lost_s: float | None
    """What is missing of the record before the fault; None where that says nothing."""
    seconds: float
    hangs_alone: bool = False
    """Whether it does not end without scalana either: then it is not run with it."""
    tries: int = 1
    """How often it was run, until it was as it is without."""


@dataclass(frozen=True)
class Tools:
    """What trials need that is not there everywhere; "" for what is missing."""

    mpirun: str = ""
    ray: str = ""
    """The folder of its packages."""
    shim: str = ""
    """The compiled library."""
    gdb: str = ""
    has_torch: bool = False


def run_trial(trial: Trial, tools: Tools) -> Judged:
    """Run it twice, and compare."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scalana-faults-") as work:
        plain = _run(trial, tools, Path(work), None)
        if plain.code is None:
            return Judged(trial, (), None, time.monotonic() - begin, hangs_alone=True)
        folder = Path(work) / "run"
        recorded = _run(trial, tools, Path(work), folder)
        wrong = tuple(_differences(plain, recorded))
        lost_s = _lost_s(trial, folder, Path(work) / "moment")
        if lost_s is not None and lost_s > LOST_S + _FLUSHED_LATE_S:
            wrong = (*wrong, f"{lost_s:.2f} s of the record are missing")
    return Judged(trial, wrong, lost_s, time.monotonic() - begin)


def _differences(plain: Ended, recorded: Ended) -> list[str]:
    if recorded.code is None:
        return ["hangs"]
    wrong = []
    if plain.code != recorded.code:
        wrong.append(f"exit code {recorded.code}, not {plain.code}: {recorded.err[-400:]}")
    if plain.out != recorded.out:
        new = [line for line in recorded.out if line not in plain.out][:3]
        gone = [line for line in plain.out if line not in recorded.out][:3]
        wrong.append(f"output differs: {new} for {gone} ({len(recorded.out)} lines for {len(plain.out)})")
    return wrong


def _command(trial: Trial, tools: Tools) -> list[str]:
    program = [str(PROGRAM), trial.job, trial.fault, str(trial.tick)]
    python = [sys.executable]
    if trial.around == "pdb":
        python += ["-m", "pdb", "-c", "continue", "-c", "quit"]
    if trial.job == "mpi":
        options = ["--oversubscribe", "--allow-run-as-root"]
        python = [str(Path(tools.mpirun).with_name("python")), "-m", "mpi4py"]  # which ends all ranks where one raises
        return [tools.mpirun, *options, "-n", "2", *python, *program]
    if trial.job == "torch":
        return [*python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *program]
    if trial.around == "gdb":
        return [tools.gdb, "-q", "-nx", "-batch", "-ex", "run", "--args", *python, *program]
    return [*python, *program]


def _environment(trial: Trial, tools: Tools, work: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NAMES)}
    more: dict[str, str] = {**_ADDED, "FAULT_MOMENT": str(work / "moment")}
    path = [tools.ray] if trial.job == "ray" else []
    if trial.around == "sitecustomize":
        (work / "own").mkdir(exist_ok=True)
        (work / "own" / "sitecustomize.py").write_text("import os\nos.environ['OWN'] = 'seen'\n")
        (work / "own" / "usercustomize.py").write_text("raise RuntimeError('planted')\n")
        path.append(str(work / "own"))
    if path:
        more["PYTHONPATH"] = os.pathsep.join(path)
    if trial.around == "clock":
        more["LD_PRELOAD"] = tools.shim
    return {**kept, **more}


def _run(trial: Trial, tools: Tools, work: Path, folder: Path | None) -> Ended:
    command = _command(trial, tools)
    environment = _environment(trial, tools, work)
    if folder is not None:
        command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", *command]
        own = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{own}" if own else str(ROOT)
    (work / "moment").unlink(missing_ok=True)
    environment[_MARK] = mark = f"{os.getpid()}-{time.monotonic_ns()}"
    begin = time.monotonic()
    process = subprocess.Popen(
        command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=LIMIT_S)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        end_all_of(mark)  # ranks have sessions of their own, and hold the pipes
        out, err = process.communicate()
        code = None
    end_all_of(mark)
    shutil.rmtree(work / "gone", ignore_errors=True)
    return Ended(code, _lines(out, trial), time.monotonic() - begin, err.decode(errors="replace"))


def end_all_of(mark: str) -> None:
    """End what a trial left behind: launchers of MPI give ranks groups of their own, and a killed one leaves them."""
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:  # it has ended, or is another user's
            continue


def _lines(out: bytes, trial: Trial) -> list[str]:
    """What a run prints, as far as it does not depend on time, process numbers and addresses."""
    lines = out.decode(errors="replace").splitlines()
    if trial.around == "gdb":  # which says more of threads
        lines = [line for line in lines if re.match(r"tick|end|result|child", line)]
    if trial.job == "ray":  # whose processes print into the output of their driver, at any moment
        lines = [line for line in lines if re.fullmatch(r"result .*|\w+", line)]
    return [re.sub(r"0x[0-9a-f]+|\bpid \d+", "#", line) for line in lines]


def _lost_s(trial: Trial, folder: Path, moment: Path) -> float | None:
    """What is missing at the end of the record of the process in which the fault happened."""
    if trial.fault in _UNRECORDED or trial.around == "gdb" or not moment.exists():
        return None
    pid, at_ns = map(int, moment.read_text().split())
    try:
        records = RunFolder(str(folder)).processes()
    except RecordError:
        return None
    # A process that is killed in its first second may have written nothing but its begin.
    last = [max(record.last_ns, record.number("start_ns", 0)) for record in records if record.number("pid") == pid]
    return max((at_ns - max(last)) * 1e-9, 0.0) if any(last) else None


def tools_here(build: Path, work: Path) -> Tools:
    """What there is on this machine."""
    mpirun, ray = build / "mpi" / "openmpi" / "bin" / "mpirun", build / "ray" / "site-packages"
    shim = work / "shim.so"
    source = Path(__file__).with_name("shim.c")
    made = subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(shim), str(source), "-ldl"], capture_output=True, check=False
    )
    from importlib.util import find_spec

    return Tools(
        mpirun=str(mpirun) if mpirun.exists() else "",
        ray=str(ray) if ray.exists() else "",
        shim=str(shim) if made.returncode == 0 else "",
        gdb=shutil.which("gdb") or "",
        has_torch=find_spec("torch") is not None,
    )


def possible(trial: Trial, tools: Tools) -> bool:
    """Whether there is what it needs, and whether it can show anything."""
    if (trial.job, trial.fault) in _NEVER_END:
        return False
    needs: Mapping[str, object] = {"mpi": tools.mpirun, "ray": tools.ray, "torch": tools.has_torch}
    around: Mapping[str, object] = {"clock": tools.shim, "gdb": tools.gdb}
    return bool(needs.get(trial.job, True)) and bool(around.get(trial.around, True))


def trials(count: int, tools: Tools, tick_of: Sequence[int]) -> list[Trial]:
    """So many, the cheap ones more often."""
    from .program import FAULTS

    found: list[Trial] = []
    turn = 0
    while len(found) < count:
        tick = tick_of[turn % len(tick_of)]
        for number, fault in enumerate(FAULTS):
            cheap = ("plain", "threads", "pool", "executor")
            job = cheap[(turn + number) % len(cheap)]
            around = ("", "clock", "gdb", "sitecustomize", "pdb", "", "clock", "")[(turn + 3 * number) % 8]
            if job != "plain" and around in ("pdb", "gdb"):
                around = ""
            some = [Trial(job, fault, tick, around)]
            if number % 4 == turn % 4:
                some.append(Trial(("mpi", "torch")[(turn + turn // 4) % 2], fault, tick))
            if number % 12 == turn % 12:
                some.append(Trial("ray", fault, tick))
            found += [trial for trial in some if possible(trial, tools)]
        turn += 1
    return found[:count]
