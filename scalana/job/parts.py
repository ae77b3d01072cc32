"""Which part of a job one ``scalana run`` starts: a job on several hosts is often started on each of them.

What the starts of one job have in common, and which of them this one is, stands in the options and the variables of
its launcher. A launcher is a row of :data:`_ROWS`.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

UNKNOWN = -1
_TORCHRUN_FLAGS = frozenset(
    "--standalone --no-python --no_python -m --module --run-path --run_path --use-env --use_env --virtual-local-rank "
    "--virtual_local_rank".split()
)
"""Options of torchrun that take no value."""
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_PYTHON = re.compile(r"(python|pypy)[\d.]*[tw]?$")
_FOR_ALL_HOSTS = frozenset("srun mpirun mpiexec orterun prterun aprun jsrun ibrun pdsh".split())
"""Programs that start what stands behind them on every host."""
_PLAIN = re.compile(r"[^\w.-]+")
_LONGEST_LABEL = 60


@dataclass(frozen=True)
class Part:
    """What one ``scalana run`` starts of a job.

    Without anything, it starts all of the job.
    """

    job: str = ""
    """What all starts of the job have in common, and other jobs do not; empty where this is the only start."""
    label: str = ""
    """The job in a few letters, for the name of its run folder."""
    index: int = UNKNOWN
    """Which of the starts this is, from 0 on; -1 where only the launcher will know."""
    count: int = 1
    """How many starts there are at least, 0 where that is unknown."""
    most: int = 1
    """How many there may be, 0 where that is unknown."""
    head: str = ""
    """Address of the host of the first start, empty where unknown."""

    @property
    def is_whole(self) -> bool:
        """Whether there is no other start of the job."""
        return not self.job

    def is_head(self) -> bool | None:
        """Whether the report is the task of this start; None where neither an index nor an address tells."""
        if self.is_whole:
            return True
        if self.index != UNKNOWN:
            return self.index == 0
        return is_here(self.head) if self.head else None


def part_of(command: Sequence[str], environ: Mapping[str, str]) -> Part:
    """What ``command`` is of a job, by the first launcher that says so."""
    for row in _ROWS:
        part = row(_before_others(command), environ)
        if part is not None:
            return part
    return Part()


def _before_others(command: Sequence[str]) -> Sequence[str]:
    """The words that say what is started here: a launcher for all hosts starts what follows it on each of them."""
    at = next((n for n, word in enumerate(command) if os.path.basename(word) in _FOR_ALL_HOSTS), len(command))
    return command[: at + 1]


def is_here(address: str) -> bool:
    """Whether an address, or the host of a name, is this host: a socket can be bound to it."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(place)
            return True
        except OSError:
            continue
    return False


def _torchrun(command: Sequence[str], environ: Mapping[str, str]) -> Part | None:
    """``torchrun``, by its options, or ``PET_*`` for those that are not given."""
    words = _words_of_torchrun(command)
    if words is None:
        return None
    given = _options(words, _TORCHRUN_FLAGS)

    def option(name: str, default: str = "") -> str:
        return given.get(name) or environ.get(f"PET_{name.upper()}", "") or default

    least, most = _range(option("nnodes", "1"))
    if "standalone" in given or most < 2:
        return Part()
    static = option("rdzv_backend", "static") == "static"
    head, _, port = option("rdzv_endpoint").rpartition(":") if option("rdzv_endpoint") else ("", "", "")
    head, port = head or (port if not port.isdecimal() else ""), port if port.isdecimal() else ""
    if static and not head:
        head, port = option("master_addr", "127.0.0.1"), option("master_port", "29500")
    name = option("rdzv_id", "none")
    rank = option("node_rank", "0" if static else "")
    label = f"torchrun-{name}" if name != "none" else f"torchrun-{_named(head)}-{port or 29400}"
    return _started(
        f"torchrun {name} {_named(head)}:{port}", label, index=_number(rank), least=least, most=most, head=head
    )


def _accelerate(command: Sequence[str], environ: Mapping[str, str]) -> Part | None:
    """``accelerate launch``, by its options."""
    at = next((n for n, word in enumerate(command) if os.path.basename(word) == "accelerate"), None)
    if at is None or list(command[at + 1 : at + 2]) != ["launch"]:
        return None
    given: dict[str, str] = {}
    for word, value in zip(command[at:], [*command[at + 1 :], ""], strict=True):
        name, equals, own = word.removeprefix("--").partition("=")
        if word.startswith("--"):
            given.setdefault(name.replace("-", "_"), own if equals else value)
    count = _number(given.get("num_machines", "1"))
    if count < 2:
        return None
    head, port = given.get("main_process_ip", ""), given.get("main_process_port", "29500")
    key, label = f"accelerate {_named(head)}:{port}", f"accelerate-{_named(head)}-{port}"
    return _started(key, label, index=_number(given.get("machine_rank", "")), least=count, most=count, head=head)


def _tasks_of_slurm(command: Sequence[str], environ: Mapping[str, str]) -> Part | None:
    """Tasks of a step of Slurm. A batch script has no step: what it starts is all of its job."""
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")
    count = _number(environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS", ""))
    if not job or not step.isdecimal() or count < 2:
        return None
    again = environ.get("SLURM_RESTART_COUNT", "0")
    hosts = hosts_listed(environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", ""))
    head = hosts[0] if hosts else ""
    key, label = f"slurm {job}.{step} {again}", f"slurm-{job}.{step}" + (f"-restart{again}" if again != "0" else "")
    return _started(key, label, index=_number(environ.get("SLURM_PROCID", "")), least=count, most=count, head=head)


def _ranks_of_mpi(command: Sequence[str], environ: Mapping[str, str]) -> Part | None:
    """``mpirun scalana run``: a start of each rank. Only an MPI that names its jobs tells them apart."""
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid") or environ.get("PMI_JOBID", "")
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")):
        index, count = _number(environ.get(rank, "")), _number(environ.get(size, ""))
        if job and index >= 0 and count > 1:
            return _started(f"mpi {job}", f"mpi-{job}", index=index, least=count, most=count, head="")
    return None


def _starts_by_variables(command: Sequence[str], environ: Mapping[str, str]) -> Part | None:
    """A start of each rank by hand, or of each pod (PyTorchJob of Kubernetes), with the variables of ``env://``."""
    head, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    index, count = _number(environ.get("RANK", "")), _number(environ.get("WORLD_SIZE", ""))
    if not head or index < 0 or count < 2:
        return None
    key, label = f"env {_named(head)}:{port}", f"{_named(head)}-{port}"
    return _started(key, label, index=index, least=count, most=count, head=head)


def _indexed_job(command: Sequence[str], environ: Mapping[str, str]) -> Part | None:
    """Pods of an Indexed Job of Kubernetes, alone or in a JobSet: they are called after the job and their index."""
    index = _number(environ.get("JOB_COMPLETION_INDEX", ""))
    name, dash, own = environ.get("HOSTNAME", "").rpartition("-")
    if index < 0 or not dash or own != str(index):
        return None
    return _started(f"job {name}", name, index=index, least=0, most=0, head=environ.get("MASTER_ADDR", ""))


_ROWS: tuple[Callable[[Sequence[str], Mapping[str, str]], Part | None], ...] = (
    _torchrun,
    _accelerate,
    _tasks_of_slurm,
    _ranks_of_mpi,
    _starts_by_variables,
    _indexed_job,
)
"""Launchers, the one nearest to the ranks first."""


def named_job(name: str, part: Part) -> Part:
    """A part of the job of a name that the user gives, with what is known besides."""
    label = _PLAIN.sub("-", name)[:_LONGEST_LABEL]
    if part.is_whole:
        return Part(f"job {name}", label, UNKNOWN, 0, 0)
    return Part(f"job {name}", label, part.index, part.count, part.most, part.head)


def hosts_listed(nodes: str) -> list[str]:
    """The hosts of a list as Slurm writes it.

    >>> hosts_listed("node[03-05,11],login"), hosts_listed("r[0-1]n[1-2]"), hosts_listed("")
    (['node03', 'node04', 'node05', 'node11', 'login'], ['r0n1', 'r0n2', 'r1n1', 'r1n2'], [])
    """
    found = []
    for host in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodes):
        names = [""]
        for number, text in enumerate(re.split(r"\[([^\]]*)\]", host)):  # what is in brackets is every other one
            ends = _numbered(text) if number % 2 else [text]
            names = [name + end for name in names for end in ends]
        found += names
    return found


def _numbered(ranges: str) -> list[str]:
    parts = [(first, last or first) for first, _, last in (part.partition("-") for part in ranges.split(","))]
    known = [(first, last) for first, last in parts if first.isdecimal() and last.isdecimal()]
    return [f"{number:0{len(first)}d}" for first, last in known for number in range(int(first), int(last) + 1)]


def _started(key: str, label: str, *, index: int, least: int, most: int, head: str) -> Part:
    return Part(key, _PLAIN.sub("-", label)[:_LONGEST_LABEL], index, least, most, head)


def _named(host: str) -> str:
    """A host for all: on the first one it may be called ``localhost``."""
    return socket.gethostname() if host in ("", "localhost", "127.0.0.1", "::1") else host


def _words_of_torchrun(command: Sequence[str]) -> Sequence[str] | None:
    """The words after ``torchrun``, or ``python -m torch.distributed.run``; None for other commands.

    It may stand behind programs that start others (``env``, ``numactl``), not behind a script.
    """
    for at, word in enumerate(command):
        if os.path.basename(word) == "torchrun":
            return command[at + 1 :]
        if _PYTHON.match(os.path.basename(word)):
            own = list(command[at + 1 : at + 3])
            return command[at + 3 :] if own[:1] == ["-m"] and own[1:2] and own[1] in _TORCH_MODULES else None
    return None


def _options(words: Sequence[str], flags: frozenset[str]) -> dict[str, str]:
    """Long options before the first other word, with underscores in their names."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word, equals, value = rest.pop(0).partition("=")
        if not equals and word not in flags and rest:
            value = rest.pop(0)
        found[word.lstrip("-").replace("-", "_")] = value
    return found


def _range(text: str) -> tuple[int, int]:
    """``2``, or ``1:4`` of a job that may go on with fewer hosts."""
    least, colon, most = text.partition(":")
    return max(_number(least), 1), max(_number(most if colon else least), 1)


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() else UNKNOWN
