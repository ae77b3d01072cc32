"""What a recorded job is started with: the folder of its run, and the environment that says that it is recorded."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence

from scalana.runtime.record import launchers, layout

LAUNCHERS = ("torchrun", "torch.distributed", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun")
"""Programs, and a module, that start the ranks of a job."""
_LAUNCHES = "|".join(map(re.escape, LAUNCHERS))


def environment(folder: str, rate_hz: float, environ: Mapping[str, str], job: str = "") -> dict[str, str]:
    """The environment of a job that is to be recorded into ``folder``; ``job`` tells it from all others.

    Python processes find the recorder by ``PYTHONPATH``: a ``sitecustomize`` before the user's own, which runs too.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    import scalana.runtime as runtime

    bootstrap = os.path.join(os.path.dirname(os.path.abspath(runtime.__file__)), "bootstrap")
    before = environ.get("PYTHONPATH")
    return {
        **environ,
        "PYTHONPATH": f"{bootstrap}{os.pathsep}{before}" if before else bootstrap,
        layout.RUN_VARIABLE: os.path.abspath(folder),
        layout.JOB_VARIABLE: job,
        layout.RATE_VARIABLE: f"{rate_hz:g}",
        layout.BUDGET_VARIABLE: environ.get(layout.BUDGET_VARIABLE, str(layout.DEFAULT_BUDGET_BYTES)),
        "SCALANA_PACKAGE": os.path.dirname(package),
    }


def mpi_environment(
    command: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], None] = lambda _: None,
    *,
    expected: bool = False,
) -> tuple[dict[str, str], list[str]]:
    """The environment of a job, with what the native recorder needs, if the job uses MPI, and what has launchers hand
    it on to other hosts; and what is missing, if any.

    The first time that an MPI is used, the recorder for it is compiled; ``tell`` is given a line about that.
    ``expected`` says that the job uses MPI, whether the command shows it or not.
    """
    from scalana.job.handing_on import handed_on
    from scalana.runtime.mpi.prepare import prepare

    prepared = prepare(command, environ, tell, expected=expected)
    recorded = {**environ, **prepared.environment}
    return {**recorded, **handed_on(command, recorded)}, prepared.notes


def note_allocation(folder: str, environ: Mapping[str, str]) -> None:
    """Leave in a run folder on which other hosts of a job of Slurm ranks may be started: their records may be there."""
    from scalana.job import parts

    here = os.uname().nodename
    hosts = parts.hosts_listed(environ.get("SLURM_JOB_NODELIST", ""))
    others = [host for host in hosts if host != here.partition(".")[0]]
    with contextlib.suppress(OSError):
        if others:
            layout.note_launch(folder, layout.process_name(here, os.getpid()), others)


def started(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The words that a job is started with.

    A launcher of MPI that is linked statically preloads nothing. ``env``, which starts it, does so in its place
    (``runtime/mpi/agent/hosts.c``).
    """
    from scalana.runtime.mpi import forwarding, job

    path = command[0] if os.sep in command[0] else job.in_path(command[0], environ)
    is_ours = "SCALANA_MPI_WRAPPERS" in environ and forwarding.launcher_at(command) == 0 and job.is_static(path)
    return ["/usr/bin/env", path, *command[1:]] if is_ours else list(command)


def stands_behind_the_launcher(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether this process is the first of several that a launcher has started, and each would record itself alone.

    A command that starts ranks of its own is none of these: ``mpirun`` may start a ``torchrun`` on each host.
    """
    known = ((environ.get(size, ""), environ.get(rank, "")) for rank, size, _ in launchers.MPI_VARIABLES)
    first = any(size.isdecimal() and int(size) > 1 and rank == "0" for size, rank in known)
    return first and not any(re.search(_LAUNCHES, word) for word in command)
