"""The run folder in which the starts of one job meet.

The first start makes the folder and says there which job it is for; a start of the same job that sees this shares its
file system with the first, and takes part. A folder of another run is left alone: a start never fails because of it,
as the others of its job would wait for it in vain.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scalana.job.parts import UNKNOWN, Part
from scalana.runtime.record import layout

_MOST_FOLDERS = 1000
_SAID_AFTER_S = 2.0
"""How long a file that another host has just made may be empty here."""


@dataclass(frozen=True)
class Place:
    """Where one start of a job records."""

    folder: str
    """The run folder, absolute."""
    name: str
    """What this start is called there; empty where it is the only one."""
    token: str
    """What all that is started here has in common, on whichever host."""
    reports: bool
    """Whether this start writes the report."""
    instead_of: str = ""
    """The folder asked for, where that could not be used."""


def take_place(wanted: str | None, part: Part) -> Place:
    """A place for a start of a job, in a folder that exists then.

    Args:
        wanted: The folder asked for; None takes ``scalana-<date>-<time>`` here, or for a start among others, one that
            is called after the job.
        part: What is started.

    Raises:
        FileExistsError: ``wanted`` holds something that is no run which goes on, and this is the only start.
        OSError: it cannot be created.
    """
    if wanted is not None:
        stem = wanted
    else:
        stem = time.strftime("scalana-%Y%m%d-%H%M%S") if part.is_whole else f"scalana-{part.label}"
    for attempt in range(1, _MOST_FOLDERS):
        folder = stem if attempt == 1 else f"{stem}-{attempt}"
        place = _place_in(folder, part, new=wanted is None)
        if place is not None:
            return place if attempt == 1 or wanted is None else replace(place, instead_of=stem)
        if wanted is not None and attempt == 1 and part.is_whole and not goes_on(folder):
            break
    raise FileExistsError(stem)


def take_next_place(taken: str, part: Part) -> Place:
    """A place for a start of a job in a new folder, which is called after one that cannot be used.

    Raises:
        FileExistsError: there are too many.
        OSError: it cannot be created.
    """
    for attempt in range(2, _MOST_FOLDERS):
        place = _place_in(f"{taken}-{attempt}", part, new=True)
        if place is not None:
            return replace(place, instead_of=taken)
    raise FileExistsError(taken)


def goes_on(folder: str) -> bool:
    """Whether a folder is that of a run that has not ended: another start of the same job may have made it."""
    info = _read(layout.info_file(folder))
    return bool(info or _read(layout.job_file(folder))) and info.get("exit_code") is None


def starts_in(folder: str) -> dict[str, dict[str, Any]]:
    """What the starts that meet in a folder say of themselves, by name."""
    return {name: _read(layout.start_file(folder, name)) for name in layout.start_names(folder)}


def say_start(place: Place, info: Mapping[str, object]) -> None:
    """Write into the run folder how a start goes; the one that reports does so for the run.

    Raises:
        OSError: it cannot be written.
    """
    if place.name:
        said = {**info, "host": os.uname().nodename, "reports": place.reports}
        layout.write_json(layout.start_file(place.folder, place.name), said)
    if place.reports or ("exit_code" in info and not os.path.exists(layout.info_file(place.folder))):
        layout.write_info(place.folder, info)


def _place_in(folder: str, part: Part, new: bool) -> Place | None:
    """A place in a folder; None where it is another run's."""
    if part.is_whole and new:
        try:
            os.mkdir(folder)
        except FileExistsError:
            return None
    else:
        os.makedirs(folder, exist_ok=True)
    others = [name for name in os.listdir(folder) if not name.startswith(os.path.basename(layout.job_file("")))]
    path = os.path.abspath(folder)
    said: dict[str, object] = {
        "job": part.job,
        "token": os.urandom(16).hex(),
        "host": socket.gethostname(),
        "unix_s": time.time(),
    }
    job = layout.job_file(folder)
    if not os.path.exists(job) and others:
        return None
    first = _write_new(job, said)
    if part.is_whole:
        return Place(path, "", str(said["token"]), True) if first else None
    if not first:
        said = _read(job, _SAID_AFTER_S)
    if said.get("job") != part.job:
        return None
    head = part.is_head()
    reports = first if head is None else head
    name = _take_name(folder, part, reports)
    return Place(path, name, str(said["token"]), reports) if name else None


def _take_name(folder: str, part: Part, reports: bool) -> str:
    """A name that no other start has; empty where all starts of the job are there, or have ended: it ran before."""
    there = starts_in(folder)
    if (part.most and len(there) >= part.most) or (there and all("exit_code" in start for start in there.values())):
        return ""
    names = [str(part.index)] if part.index != UNKNOWN else _names_of_host()
    said = {"host": socket.gethostname(), "pid": os.getpid(), "unix_s": time.time(), "reports": reports}
    return next((name for name in names if _write_new(layout.start_file(folder, name), said)), "")


def _names_of_host() -> list[str]:
    """This host's name, and others for hosts that share it."""
    name = socket.gethostname().replace("/", "_") or "host"
    return [name, *(f"{name}-{number}" for number in range(2, _MOST_FOLDERS))]


def _write_new(path: str, content: Mapping[str, object]) -> bool:
    """Write a file that was not there. Returns whether it was not: of several that try, one succeeds."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        with open(path, "x", encoding="utf-8") as file:
            json.dump(dict(content), file)
        return True
    return False


def _read(path: str, patience_s: float = 0.0) -> dict[str, Any]:
    """A JSON object; empty where there is none, waiting so long for one that is being written."""
    until = time.monotonic() + patience_s
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            return found if isinstance(found, dict) else {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            if time.monotonic() > until:
                return {}
            time.sleep(0.02)
