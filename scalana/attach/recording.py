"""Records processes that run already: has the interpreter of each begin a record, and end it later.

Python 3.14 lets another process have a file run by the main thread, between two instructions of the program (PEP 768).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scalana.attach.processes import Job
from scalana.attach.spy import FORBIDDEN
from scalana.errors import CommandError
from scalana.live.kernel_files import text_of
from scalana.runtime import attached, bookkeeping
from scalana.runtime.record import layout

_LOOK_S = 0.05
_SEVERAL = 2
BEGIN, END = "begin", "end"
"""Functions of :mod:`scalana.runtime.attached`."""


class RemoteError(Exception):
    """A process that does not begin to record; says which and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A process that is to be recorded."""

    pid: int
    born: int
    """When it began, in ticks of the kernel: another process that has its number later began at another time."""
    parent: str = ""
    """For one that a rank has started: what it has to know of the rank. Empty for others."""
    role: str = ""
    """What it is to the others in a job without ranks. Empty where it is alone, and in jobs that have some."""


@dataclass(frozen=True, slots=True)
class Scripts:
    """What the processes of a run are given to do."""

    folder: str
    """The run folder, absolute."""
    variables: Mapping[str, str]
    """In the environment of a recorded job."""

    def file(self, pid: int, function: str) -> str:
        """The script for a process."""
        return os.path.join(layout.made_folder(self.folder, "attach"), f"{pid}-{function}.py")

    def note(self, pid: int, function: str) -> str:
        """Where the process says why it is not recorded, or that it has ended its record."""
        if function == BEGIN:
            return layout.note_file(self.folder, os.uname().nodename, pid)
        return self.file(pid, function).removesuffix(".py")

    def text(self, target: Target, function: str) -> str:
        """A script, which neither raises anything nor needs anything of ours to be installed there."""
        arguments: dict[str, object] = {"variables": dict(self.variables)}
        if function == BEGIN:
            arguments |= {"parent": target.parent, "role": target.role}
        home = os.path.abspath(attached.__file__)
        return (
            "space = {'__name__': 'scalana_attached'}\n"
            "try:\n"
            f"    with open({home!r}, encoding='utf-8') as file:\n"
            f"        exec(compile(file.read(), {home!r}, 'exec', dont_inherit=True), space)\n"
            "    before = space['held']()\n"
            f"    space['run']({function!r}, {self.note(target.pid, function)!r}, {arguments!r})\n"
            "    space['release'](before)\n"
            "except Exception:\n"
            "    pass\n"
        )


def require() -> None:
    """Make sure that this Python can have others run something.

    Raises:
        CommandError: it cannot.
    """
    if not hasattr(sys, "remote_exec"):
        version = ".".join(map(str, sys.version_info[:2]))
        raise CommandError(
            f"--record needs Python 3.14 or newer, for the job and for scalana, which runs on Python {version} here: "
            "leave out --record to sample the processes from outside (scalana attach --seconds 10 PID), or start the "
            "job with scalana run"
        )


def targets_of(job: Job) -> list[Target]:
    """All processes of a job, those first that others descend from."""
    host = os.uname().nodename
    parents: dict[int, str] = {}
    for owner, process in job.helpers:
        if owner.given:
            record = f"{layout.process_name(host, owner.pid)}-0{layout.RECORD}"
            parents[process.pid] = f"{owner.pid}:{record}:1"
    ordered = [*job.launchers, *job.ranks, *(process for _, process in job.helpers)]
    roles = roles_of(job)
    found = [Target(one.pid, born(one.pid), parents.get(one.pid, ""), roles.get(one.pid, "")) for one in ordered]
    return [target for target in found if target.born and not bookkeeping.is_bookkeeping(command_of(target.pid))]


def command_of(pid: int) -> list[str]:
    """The command line of a process."""
    return text_of(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")


def roles_of(job: Job) -> dict[int, str]:
    """What the processes of a job without ranks are to each other, by their pids."""
    processes = [*job.ranks, *(process for _, process in job.helpers)]
    if len(processes) < _SEVERAL or any(process.given for process in processes):
        return {}
    owners = {owner.pid for owner, _ in job.helpers}
    outermost = {one.pid: "main process" if one.pid in owners else "process" for one in job.ranks}
    return {**{process.pid: "worker" for _, process in job.helpers}, **outermost}


def born(pid: int) -> int:
    """When a process began, in ticks of the kernel; 0 where it has ended."""
    words = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(words[19]) if len(words) > 19 and words[0] not in "ZX" else 0


def lives(target: Target) -> bool:
    """Whether a process still runs."""
    return born(target.pid) == target.born


def have_run(scripts: Scripts, target: Target, function: str) -> None:
    """Have the main thread of a process call :func:`.attached.begin` or ``end``, when it is in Python code next.

    Raises:
        RemoteError: it will not.
    """
    file = scripts.file(target.pid, function)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    layout.write_text(file, scripts.text(target, function))
    if not os.path.exists(f"/proc/{target.pid}/root{file}") and os.access(f"/proc/{target.pid}/root", os.X_OK):
        raise RemoteError(
            f"process {target.pid}: it does not see {scripts.folder}, as it runs in a container: attach from there, or "
            "record into a folder that both see"
        )
    remote_exec: Callable[[int, str], None] = sys.remote_exec  # type: ignore[attr-defined]
    try:
        remote_exec(target.pid, file)
    except PermissionError as error:
        raise RemoteError(f"process {target.pid}: {FORBIDDEN}") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise RemoteError(f"process {target.pid}: {why_not(str(error))}") from error


def why_not(said: str) -> str:
    """Why an interpreter runs nothing for us, by what Python says.

    >>> why_not("Remote debugging is not enabled in the remote process")
    'its interpreter forbids this (PYTHON_DISABLE_REMOTE_DEBUG, or -X disable-remote-debug)'
    """
    if "not enabled" in said:
        return "its interpreter forbids this (PYTHON_DISABLE_REMOTE_DEBUG, or -X disable-remote-debug)"
    version = ".".join(map(str, sys.version_info[:2]))
    return f"it cannot be recorded; both sides need the same Python, which is {version} here ({said})"


def waiting(scripts: Scripts, targets: Iterable[Target], function: str, patience_s: float) -> list[Target]:
    """Wait until processes have done what they were given, or have ended. Returns those that have not so far: their
    main thread is in a call that does not return."""
    left, until = list(targets), time.monotonic() + patience_s
    while True:
        left = [one for one in left if lives(one) and not is_done(scripts, one.pid, function)]
        if not left or time.monotonic() >= until:
            return left
        time.sleep(_LOOK_S)


def is_done(scripts: Scripts, pid: int, function: str) -> bool:
    """Whether a process has done what it was given."""
    record = f"{layout.process_name(os.uname().nodename, pid)}-0{layout.RECORD}"
    return os.path.exists(scripts.note(pid, function)) or (
        function == BEGIN and os.path.exists(os.path.join(scripts.folder, layout.RECORDS, record))
    )


def tried(scripts: Scripts, targets: Sequence[Target], function: str) -> tuple[list[Target], list[RemoteError]]:
    """Give processes something to do. Returns those that will do it, and why others will not."""
    given, errors = [], []
    for target in targets:
        try:
            have_run(scripts, target, function)
            given.append(target)
        except RemoteError as error:
            if lives(target):
                errors.append(error)
    return given, errors


def belong_to_user_of(folder: str, pid: int) -> None:
    """Let the user of a process write into a run folder that root has made."""
    with contextlib.suppress(OSError):
        found = os.stat(f"/proc/{pid}")
        if os.geteuid() == 0 and found.st_uid:
            for path in (folder, os.path.join(folder, layout.RECORDS), layout.made_folder(folder, "attach")):
                os.chown(path, found.st_uid, found.st_gid)
