"""What has launchers hand recorders' variables on to ranks on other hosts, where they do not hand on all by themselves.

A launcher is a row of :data:`_ROWS`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence

from scalana.runtime.mpi import forwarding
from scalana.runtime.mpi.job import programs, texts
from scalana.runtime.record import layout

_DEEPSPEED_FILE = "DS_ENV_FILE"
_DEEPSPEED_DEFAULT = ".deepspeed_env"


def handed_on(command: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Further variables of a job, whose environment names its run folder. Files for launchers are written there."""
    found: dict[str, str] = {}
    for row in _ROWS:
        found |= row(command, environ)
    return found


def forget(folder: str) -> None:
    """Remove files for launchers from a run folder: they may hold what a user keeps secret."""
    with contextlib.suppress(OSError):
        os.unlink(layout.launcher_file(folder))


def _deepspeed(command: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The launcher of DeepSpeed sets on other hosts what a file says, and else no more than ``PYTHON*`` and the like.

    The file is the user's, if there is one, with our variables behind it.
    """
    words = programs(command, environ)
    named = any(os.path.basename(word) == "deepspeed" for word in words)
    if not named and not any(re.search(rb"\bdeepspeed\b", text) for text in texts(words, environ)):
        return {}
    name = environ.get(_DEEPSPEED_FILE, _DEEPSPEED_DEFAULT)
    paths = [os.path.join(folder, name) for folder in (os.path.expanduser("~"), ".")]
    path = layout.launcher_file(environ[layout.RUN_VARIABLE])
    ours = [f"{key}={value}" for key, value in sorted(environ.items()) if key.startswith("SCALANA_")]
    try:
        theirs = [line for own in dict.fromkeys(paths) if os.path.isfile(own) for line in _lines(own)]
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in [*theirs, *ours])
    except (OSError, ValueError):
        return {}
    return {_DEEPSPEED_FILE: path}


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


_ROWS: tuple[Callable[[Sequence[str], Mapping[str, str]], dict[str, str]], ...] = (forwarding.forwarding, _deepspeed)
