"""Which Python analyses a run: this one, or another that has what the analysis needs.

The recorder needs nothing but the standard library, so that an environment stays as it is when scalana is installed
into it. The analysis needs the packages of :data:`REQUIREMENTS`, which may be in an environment of their own. There,
this very package is loaded by :mod:`scalana.job.analysis_entry`, so that both are of one version.

The wheels that are published have the analysis's sources in a distribution of its own (:data:`REPORT`), which depends
on these packages. Where only the recorder's is installed, the other environment needs both.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util

from scalana.errors import AnalysisMissing, UsageError
from scalana.runtime import user_cache
from scalana.version import __version__

VARIABLE = "SCALANA_REPORT"
"""In the environment: the Python, or the folder of the environment, that analyses runs."""
OF_RUN = "--of-run"
"""Asks :mod:`scalana.job.analysis_entry` for what follows a job."""
FRAMES = "--frames"
"""Likewise for what is kept of native code where no report is wanted."""
REPORT = "scalana-report"
"""The distribution that has the sources of the analysis, where that of the recorder does not."""
_ROOM = "scalana.graphs"
"""One of the packages in it."""
_KEPT_FROM_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__", VARIABLE)
"""Variables that lead the Python of one environment to the packages of another one."""
_COMPLETE = "complete"
"""Name of a file that is in an environment as soon as all packages are."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that the analysis needs."""

    module: str
    """What it is imported as."""
    package: str
    least: str
    """The oldest version that will do."""
    marker: str = ""
    """Where it is needed, as pip understands it; where it cannot be had, the analysis does without it."""

    def __str__(self) -> str:
        return f"{self.package}>={self.least}" + (f"; {self.marker}" if self.marker else "")


REQUIREMENTS = (
    # For programs in C and C++, which any job of MPI may be; no wheel of it is known for other machines.
    Requirement("clang", "libclang", "16", "platform_machine == 'x86_64' or platform_machine == 'aarch64'"),
    Requirement("networkx", "networkx", "2.8"),
    Requirement("numba", "numba", "0.59"),
    Requirement("numpy", "numpy", "1.24"),
    Requirement("pandas", "pandas", "1.5"),
    Requirement("elftools", "pyelftools", "0.30"),
    Requirement("rich", "rich", "13"),
)
"""The same as the extra ``report`` of pyproject.toml; a test compares them."""


def missing() -> list[str]:
    """Packages that the analysis needs and this Python lacks, or has in a version that is too old."""
    if not _has_sources():
        return packages()
    found = []
    for need in REQUIREMENTS:
        if need.marker:
            continue
        if util.find_spec(need.module) is None:
            found.append(need.package)
        elif (version := _installed(need.package)) and _numbers(version) < _numbers(need.least):
            found.append(f"{need.package} {need.least} or newer")
    return found


def _has_sources() -> bool:
    """Whether the analysis's own sources are there, and of the recorder's version where an installation says one."""
    room = util.find_spec(_ROOM)
    places = None if room is None else room.submodule_search_locations
    if not places:
        return False
    site = os.path.dirname(os.path.dirname(next(iter(places))))
    found = [one for name in ("scalana", REPORT) for one in metadata.distributions(name=name, path=[site])]
    return all(one.version == __version__ for one in found)


def packages() -> list[str]:
    """What an environment has to have that analyses for this scalana, as pip understands it."""
    return list(map(str, REQUIREMENTS)) if _has_sources() else [f"{REPORT}=={__version__}"]


def find_sources() -> None:
    """Have the sources of the analysis loaded from where this Python has them, if this scalana lacks them."""
    if _has_sources():
        return
    for entry in sys.path:
        folder = os.path.join(entry, "scalana")
        if os.path.isdir(os.path.join(folder, _ROOM.rpartition(".")[2])):
            sys.modules[__package__].__path__.insert(0, folder)
            return


def _installed(package: str) -> str:
    """The version of a package, empty where it does not say one."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def require() -> None:
    """Make sure that this Python can analyse.

    Raises:
        AnalysisMissing: it lacks packages; the message names them, and what to install.
    """
    if lacking := missing():
        raise AnalysisMissing(
            f"the analysis needs {_listed(lacking)}, which this Python lacks: pip install 'scalana[report]', or use "
            "another environment (scalana setup-report, then scalana report DIR)"
        )


def elsewhere(wanted: str | None, environ: Mapping[str, str]) -> str | None:
    """The Python of another environment that is to analyse runs; None for this one.

    One that the user names comes first, then this one, then that of ``scalana setup-report``.

    Raises:
        AnalysisMissing: there is none.
        UsageError: the one that is named does not exist.
    """
    if named := wanted or environ.get(VARIABLE, ""):
        return python_of(named, "--report-with" if wanted else VARIABLE)
    lacking = missing()
    if not lacking:
        return None
    made = environment_folder(environ)
    if is_complete(made):
        return _interpreter(made)
    raise AnalysisMissing(
        f"this Python has no analysis (it lacks {_listed(lacking)}): pip install 'scalana[report]', or scalana "
        "setup-report for an environment of its own"
    )


def python_of(path: str, option: str) -> str:
    """The interpreter that a user names: itself, a command, or the folder of its environment.

    Raises:
        UsageError: there is none.
    """
    path = os.path.expanduser(path)
    python = _interpreter(path) if os.path.isdir(path) else shutil.which(path)
    if python is None or not os.access(python, os.X_OK):
        raise UsageError(f"{option}: {path} is no Python: name an interpreter, or the folder of its environment")
    return os.path.abspath(python)


def _interpreter(folder: str) -> str:
    return os.path.join(folder, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))


def environment_folder(environ: Mapping[str, str]) -> str:
    """Where ``scalana setup-report`` makes its environment: another one where versions need other packages."""
    needs = hashlib.sha256("\n".join(packages()).encode()).hexdigest()[:16]
    return os.path.join(user_cache.folder_of(user_cache.REPORT, environ), needs)


def is_complete(folder: str) -> bool:
    """Whether the environment in a folder has all packages."""
    return os.path.exists(os.path.join(folder, _COMPLETE)) and os.access(_interpreter(folder), os.X_OK)


def make_environment(folder: str, python: str, pip_options: Sequence[str]) -> str:
    """Make an environment with what the analysis needs, anew if need be, and return its Python.

    Raises:
        OSError: the folder or a program cannot be used.
        subprocess.CalledProcessError: venv or pip failed, and said why.
    """
    marker = os.path.join(folder, _COMPLETE)
    user_cache.remove(marker)
    user_cache.make_folder(os.path.dirname(folder))
    environ = plain_environment(os.environ)
    subprocess.run([python, "-m", "venv", "--clear", folder], env=environ, stdin=subprocess.DEVNULL, check=True)
    made = _interpreter(folder)
    install = [made, "-m", "pip", "install", "--disable-pip-version-check", *pip_options, *packages()]
    subprocess.run(install, env=environ, stdin=subprocess.DEVNULL, check=True)
    with open(marker, "w", encoding="utf-8"):
        pass
    return made


def too_old(python: str) -> str:
    """Why a Python cannot analyse, empty if it can."""
    if python == sys.executable:
        return ""
    program = "import sys; print(*sys.version_info[:2])"
    try:
        words = subprocess.run(
            [python, "-I", "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        ).stdout.split()
        version = tuple(map(int, words))
    except (OSError, ValueError, subprocess.SubprocessError):
        return f"{python} is no Python"
    return "" if version >= (3, 10) else f"{python} is Python {'.'.join(words)}, the analysis needs 3.10 or newer"


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for another Python than this one."""
    return {name: value for name, value in environ.items() if name not in _KEPT_FROM_PYTHON}


def run_there(python: str, arguments: Sequence[str]) -> int:
    """Run a command of scalana, or what follows a job (:data:`OF_RUN`), by another Python; returns its exit code.

    Raises:
        OSError: it cannot be started.
    """
    entry = os.path.join(os.path.dirname(os.path.abspath(__file__)), "job", "analysis_entry.py")
    process = subprocess.Popen([python, entry, *arguments], env=plain_environment(os.environ))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # of the terminal: the other process has it, too, and ends
            continue


def lacks_here() -> str:
    """What to say where this Python was named as the one that analyses, and cannot; empty where it can."""
    lacking = missing()
    if not lacking:
        return ""
    needs = " ".join(f"'{need.partition(';')[0]}'" for need in packages())
    return f"{sys.executable} cannot analyse runs, it lacks {_listed(lacking)}: {sys.executable} -m pip install {needs}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
