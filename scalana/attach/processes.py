"""The Python processes below some process, and which rank each is, as the kernel says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scalana.live.kernel_files import text_of
from scalana.live.processes import below
from scalana.runtime.record.launchers import RANK_VARIABLES, rank_of


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a job."""

    pid: int
    parent: int
    given: tuple[str, ...]
    """What its launcher gave it: the name of the variable, rank, size of the job, rank on this host. What a rank starts
    inherits that; a launcher that another one has started has something else. Empty where nothing was given."""
    cwd: str

    @property
    def rank(self) -> int | None:
        """None where it has none."""
        return int(self.given[1]) if self.given else None

    @property
    def world_size(self) -> int:
        """0 where it has no rank."""
        return int(self.given[2]) if self.given else 0


@dataclass(frozen=True, slots=True)
class Job:
    """Processes, sorted out."""

    ranks: tuple[Process, ...]
    """Those that no other process of the same rank has started, by rank; all outermost ones where none has a rank."""
    helpers: tuple[tuple[Process, Process], ...]
    """Each further process, behind the one of ``ranks`` that it belongs to."""
    launchers: tuple[Process, ...]
    """Those that have started ranks, and are none."""


def job_of(pids: Iterable[int]) -> Job:
    """The Python processes among some processes and all that these started."""
    found = dict.fromkeys(pid for given in pids for pid in (given, *below(given)))
    return sorted_out([_process(pid) for pid in found if _runs_python(pid)])


def ancestors(pid: int) -> set[int]:
    """A process, and all that it was started by."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        words = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
        pid = int(words[1]) if len(words) > 1 else 0
    return found


def sorted_out(processes: list[Process]) -> Job:
    """What the processes of a job are to each other."""
    by_pid = {process.pid: process for process in processes}
    above = {process.pid: _above(process, by_pid) for process in processes}
    numbered = any(process.given for process in processes)
    owners = {process.pid: _owner(process, above[process.pid], numbered) for process in processes}
    first = [one for one in processes if owners[one.pid] is None and (one.given or not numbered)]
    starting = {outer.pid for one in first for outer in above[one.pid]}
    ranks = [one for one in first if one.pid not in starting]
    launchers = [one for one in processes if owners[one.pid] is None and one not in ranks]
    helpers = [(owner, one) for one in processes if (owner := owners[one.pid]) is not None]
    ranks.sort(key=lambda one: (one.rank if one.rank is not None else -1, one.pid))
    return Job(tuple(ranks), tuple(helpers), tuple(launchers))


def _owner(process: Process, above: list[Process], numbered: bool) -> Process | None:
    """The outermost process that one belongs to: of the same rank, or of any where it has none."""
    if not numbered:
        return above[-1] if above else None
    of = process.given or next((one.given for one in above if one.given), ())
    return next((one for one in reversed(above) if one.given and one.given == of), None)


def _above(process: Process, by_pid: Mapping[int, Process]) -> list[Process]:
    """The processes above one, the innermost first. What is no Python between them ends the way."""
    found = []
    while (above := by_pid.get(process.parent)) is not None and above not in found:
        found.append(above)
        process = above
    return found


def _process(pid: int) -> Process:
    words = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    pairs = (pair.partition("=") for pair in text_of(f"/proc/{pid}/environ").split("\0"))
    given = given_by({name: value for name, _, value in pairs})
    return Process(pid, int(words[1]) if len(words) > 1 else 0, given, _link(f"/proc/{pid}/cwd"))


def given_by(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What a launcher gave a process with these variables; empty for nothing.

    >>> given_by({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
    ('RANK', '3', '4', '1')
    """
    numbers = rank_of(environ)
    if numbers is None:
        return ()
    name = next(name for name, *_ in RANK_VARIABLES if environ.get(name) == numbers[0])
    return (name, *numbers)


def _runs_python(pid: int) -> bool:
    """Whether a process is an interpreter, or has loaded one."""
    if os.path.basename(_link(f"/proc/{pid}/exe")).startswith("python"):
        return True
    return "libpython" in text_of(f"/proc/{pid}/maps")


def _link(file: str) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""
