"""Going on in the run folder of an earlier job: the jobs of a chain, and one that Slurm starts again, are one run."""

from __future__ import annotations

import glob
import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalana.job.launch import LAUNCHERS
from scalana.job.meeting import Place
from scalana.runtime.record import layout

_STARTERS = frozenset((*LAUNCHERS, *"launch prterun env nice numactl stdbuf time timeout".split()))
"""Programs that start what stands behind them."""
_PYTHON = re.compile(r"(python|pypy)[\d.]*[tw]?$")
_GROWS_EVERY_S = 2.5
"""A record grows once a second, and is seen a little later."""
_KEPT = ("start_unix_s", "seconds", "exit_code", "command", "job_id")


@dataclass(frozen=True)
class Resumed:
    """An earlier run that a job continues."""

    place: Place
    before: tuple[dict[str, Any], ...]
    """What is known of its jobs so far, in order."""


def resume(folder: str, command: Sequence[str]) -> Resumed | str:
    """The run in a folder, which a command is to continue; or why it cannot.

    The folder is there.
    """
    if (info := _info(folder)) is None:
        return "is no run folder"
    programs = program_of(info.get("command") or ()), program_of(command)
    if programs[0] != programs[1]:
        return f"is of another program ({programs[0] or 'unknown'}, not {programs[1]})"
    if info.get("exit_code") is None and _grows(folder):
        return "belongs to a run that is going on"
    before = info.get("before")
    jobs = (*(before if isinstance(before, list) else ()), {key: info[key] for key in _KEPT if key in info})
    place = Place(os.path.abspath(folder), "", os.urandom(16).hex(), True)
    return Resumed(place, tuple(job for job in jobs if isinstance(job, dict)))


def requeued(wanted: str | None, environ: Mapping[str, str]) -> str | None:
    """The folder in which an earlier start of this job of Slurm recorded; None where this is its first start."""
    job = environ.get("SLURM_JOB_ID", "")
    if not job or environ.get("SLURM_RESTART_COUNT", "0") in ("", "0"):
        return None
    folders = [wanted] if wanted is not None else sorted(glob.glob("scalana-*"), reverse=True)
    return next((folder for folder in folders if (_info(folder) or {}).get("slurm_job") == job), None)


def program_of(command: Sequence[str]) -> str:
    """The program of a job: its script or module, else the first word that is no launcher.

    >>> program_of(["torchrun", "--nproc-per-node", "4", "src/train.py", "--resume"])
    'train.py'
    >>> program_of(["python", "-m", "torch.distributed.run", "-m", "pkg.train"])
    'pkg.train'
    >>> program_of(["mpirun", "-n", "4", "./solve", "x.in"])
    'solve'
    """
    words = [str(word) for word in command]
    for at, word in enumerate(words):
        if word.endswith(".py") and not word.startswith("-"):
            return os.path.basename(word)
        if word == "-m" and at + 1 < len(words) and not words[at + 1].startswith("torch.distributed"):
            return words[at + 1]
    plain = [os.path.basename(word) for word in words if not word.startswith("-") and not word.isdecimal()]
    return next((word for word in plain if word not in _STARTERS and not _PYTHON.match(word)), "")


def _info(folder: str) -> dict[str, Any] | None:
    """What a run folder says of its run; None where it is none."""
    try:
        with open(layout.info_file(folder), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "command" in found else None


def _grows(folder: str) -> bool:
    """Whether somebody writes to the records of a run."""
    before = _sizes(folder)
    time.sleep(_GROWS_EVERY_S)
    return _sizes(folder) != before


def _sizes(folder: str) -> dict[str, int]:
    sizes = {}
    for file in layout.record_files(folder):
        try:
            sizes[file] = os.stat(file).st_size
        except OSError:
            continue
    return sizes
