"""What ranks on other hosts have of the environment.

Open MPI starts them, by ``ssh``, with what a login there has, and hands on only what it is told to; other launchers of
MPI hand on everything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from scalana.runtime.mpi.job import in_path, programs, texts

_LIST = "OMPI_MCA_mca_base_env_list"
_OURS = ("LD_PRELOAD", "PYTHONPATH")
_LAUNCHERS = ("mpirun", "mpiexec", "orterun")
_AROUND = frozenset("timeout nice ionice time stdbuf numactl taskset setsid nohup".split())
"""Programs that start others in their own environment."""
_NAMED = rb"\b(mpirun|mpiexec|orterun)\b"
_IS_PYTHON = rb"(?m)^(import|from)\s"
_CHANGES_IN_PYTHON = rb"\b(environ|putenv|env)\b"
_CHANGES = rb"(?m)\b(LD_PRELOAD|PYTHONPATH|SCALANA_\w+|module|ml|source|activate|conda|spack|env|unset)\b|^\s*\.\s"
"""What of a script may change the environment that its launcher is to hand on."""


def forwarding(command: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that tells Open MPI to hand on to other hosts what recorders go by; none for other MPIs.

    It ends a job in whose environment one of the variables is missing by then, so a script that leaves the environment
    alone has them with their values, and others have none. Before version 5 it refuses a job that has the option ``-x``
    as well, which a script may hide. Where a file sets the same, the variable would hide that.

    Args:
        command: what starts the job, in the user's own words.
        environ: its environment, with all that recorders go by.
    """
    direct = command[launcher_at(command)] if launcher_at(command) >= 0 else ""
    paths = [_path(direct, environ)] if direct else _launchers_in_scripts(command, environ)
    folders = {folder for path in paths for folder in _folders(path)}
    open_mpi = [folder for folder in folders if os.path.exists(os.path.join(folder, "ompi_info"))]
    if not open_mpi or _is_set_in_files(open_mpi, environ):
        return {}
    is_older = any(not os.path.exists(os.path.join(folder, "prterun")) for folder in open_mpi)
    if is_older and ("-x" in command or not direct):
        return {}
    delimiter = environ.get(f"{_LIST}_delimiter", ";")
    ours = sorted(name for name in environ if name in _OURS or name.startswith("SCALANA_"))
    named = ours if direct else [f"{name}={environ[name]}" for name in ours if delimiter not in environ[name]]
    before = [environ[_LIST]] if environ.get(_LIST) else []
    return {_LIST: delimiter.join([*before, *named])}


def launcher_at(command: Sequence[str]) -> int:
    """Where in a command the launcher of MPI stands that it starts, perhaps through ``timeout`` or the like; -1 where
    it is another program."""
    if os.path.basename(command[0]) in _LAUNCHERS:
        return 0
    around = os.path.basename(command[0]) in _AROUND
    return next((at for at, word in enumerate(command) if around and os.path.basename(word) in _LAUNCHERS), -1)


def _launchers_in_scripts(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The launchers that scripts of a command start; none where a script may change the environment before."""
    words = programs(command, environ)
    scripts = texts(words, environ)
    named = {os.fsdecode(name) for text in scripts for name in re.findall(_NAMED, text)}
    whole = [word for word in words if os.sep in word and os.path.basename(word) in _LAUNCHERS]
    found = [*whole, *filter(None, (in_path(name, environ) for name in named))]
    return [] if found and any(map(_may_change, scripts)) else found


def _may_change(script: bytes) -> bool:
    """Whether a script may change the environment of what it starts."""
    pattern = _CHANGES_IN_PYTHON if re.search(_IS_PYTHON, script) else _CHANGES
    return re.search(pattern, script) is not None


def _path(word: str, environ: Mapping[str, str]) -> str:
    return word if os.sep in word else in_path(word, environ)


def _folders(path: str) -> list[str]:
    """The folder of a launcher, and that of the file behind a link."""
    return [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))] if path else []


def _is_set_in_files(folders: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a user's or an installation's own file sets the parameter, which the variable would hide."""
    files = [os.path.join(environ.get("HOME", ""), ".openmpi", "mca-params.conf")]
    files += [os.path.join(os.path.dirname(folder), "etc", "openmpi-mca-params.conf") for folder in folders]
    return any("mca_base_env_list" in _text(file) for file in files)


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
