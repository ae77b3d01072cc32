"""What a recorded job is started with: the folder of its run, and the environment that says that it is recorded."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence

_RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
)
"""By which launchers of MPI tell a process of how many it is which."""
_LAUNCHES = r"torchrun|torch\.distributed|accelerate|deepspeed|mpirun|mpiexec|srun"

DEFAULT_RATE_HZ = 200.0
DEFAULT_BUDGET_BYTES = 64 << 20


def create_run_folder(wanted: str | None) -> str:
    """Create the folder of a new run, and return its absolute path.

    Args:
        wanted: The folder asked for; it must not exist, or be empty. None takes ``scalana-<date>-<time>`` here.

    Raises:
        FileExistsError: ``wanted`` holds something already.
        OSError: it cannot be created.
    """
    if wanted is not None:
        os.makedirs(wanted, exist_ok=True)
        if os.listdir(wanted):
            raise FileExistsError(wanted)
        return os.path.abspath(wanted)
    stem = time.strftime("scalana-%Y%m%d-%H%M%S")
    for attempt in range(1, 1000):
        name = stem if attempt == 1 else f"{stem}-{attempt}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(name)
            return os.path.abspath(name)
    raise FileExistsError(stem)


def write_run_info(folder: str | os.PathLike[str], info: Mapping[str, object]) -> None:
    """Writes ``run.json``, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    import json  # here: a job waits for all that is loaded before it

    target = os.path.join(folder, "run.json")
    temporary = f"{target}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(dict(info), file, indent=1)
            file.write("\n")
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def environment(folder: str, rate_hz: float, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job that is to be recorded into ``folder``.

    Python processes find the recorder by ``PYTHONPATH``: a ``sitecustomize`` before the user's own, which runs too.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    import scalana.runtime as runtime

    bootstrap = os.path.join(os.path.dirname(os.path.abspath(runtime.__file__)), "bootstrap")
    before = environ.get("PYTHONPATH")
    return {
        **environ,
        "PYTHONPATH": f"{bootstrap}{os.pathsep}{before}" if before else bootstrap,
        "SCALANA_RUN_DIR": os.path.abspath(folder),
        "SCALANA_RATE_HZ": f"{rate_hz:g}",
        "SCALANA_BUDGET_BYTES": environ.get("SCALANA_BUDGET_BYTES", str(DEFAULT_BUDGET_BYTES)),
        "SCALANA_PACKAGE": os.path.dirname(package),
    }


def mpi_environment(
    command: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], None] = lambda _: None,
    *,
    expected: bool = False,
) -> tuple[dict[str, str], list[str]]:
    """The environment of a job with what the native recorder needs, if the job uses MPI; and what is missing, if any.

    The first time that an MPI is used, the recorder for it is compiled; ``tell`` is given a line about that.
    ``expected`` says that the job uses MPI, whether the command shows it or not.
    """
    from scalana.runtime.mpi.prepare import prepare

    prepared = prepare(command, environ, tell, expected=expected)
    return {**environ, **prepared.environment}, prepared.notes


def stands_behind_the_launcher(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether this process is the first of several that a launcher has started, and each would record itself alone.

    A command that starts ranks of its own is none of these: ``mpirun`` may start a ``torchrun`` on each host.
    """
    known = ((environ.get(size, ""), environ.get(rank, "")) for size, rank in _RANK_VARIABLES)
    first = any(size.isdecimal() and int(size) > 1 and rank == "0" for size, rank in known)
    return first and not any(re.search(_LAUNCHES, word) for word in command)
