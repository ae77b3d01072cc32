"""``scalana attach --record``: record processes that run already, and report."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

from scalana import console
from scalana.errors import CommandError, UsageError
from scalana.runtime.record import layout
from scalana.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scalana.attach.processes import Job
    from scalana.attach.recording import Scripts, Target
    from scalana.job.meeting import Place

_BEGUN_WITHIN_S = 2.0
_ENDED_WITHIN_S = 3.0
_LOOK_S = 0.2
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_MOST_NAMED = 8
_NOBODY = "no Python process there or below it that could be recorded, or none that this user may read"


def record_job(pids: Sequence[int], folder: str, seconds: float | None, rate_hz: float, form: str) -> int:
    """Record the processes of a job until they end, for some seconds, or until Ctrl-C; print the report.

    Raises:
        CommandError: none of them can be recorded, or the folder cannot be used.
    """
    from scalana.attach import recording
    from scalana.attach.processes import job_of
    from scalana.job import launch, meeting, reporting

    recording.require()
    place = _place(folder)
    if place.instead_of:
        console.complain(f"{place.instead_of} is another run's folder: recording into {console.shown(place.folder)}")
    layout.make_records(place.folder)
    os.makedirs(layout.made_folder(place.folder, "attach"), exist_ok=True)
    recording.belong_to_user_of(place.folder, pids[0])
    variables = launch.environment(place.folder, rate_hz, {}, place.token)
    scripts = recording.Scripts(place.folder, variables)
    info: dict[str, object] = {
        "command": recording.command_of(pids[0]),
        "cwd": _link(f"/proc/{pids[0]}/cwd"),
        "start_unix_s": time.time(),
        "rate_hz": rate_hz,
        "version": __version__,
        "job_id": place.token,
    }
    begun = time.monotonic()
    targets: list[Target] = []
    try:
        with _ended_by_signals():
            targets = _begin(scripts, job_of(pids), targets)
            targets += _begin(scripts, job_of(pids), targets)  # those that were started meanwhile
            meeting.say_start(place, info)
            _say_begun(scripts, targets, seconds)
            _wait(targets, seconds)
    except KeyboardInterrupt:
        pass
    except CommandError:
        shutil.rmtree(place.folder, ignore_errors=True)
        raise
    info["seconds"] = time.monotonic() - begun
    with _ended_by_signals():
        _end(scripts, job_of([pid for pid in pids if os.path.exists(f"/proc/{pid}")]), targets)
    meeting.say_start(place, info)
    if not layout.record_files(place.folder):
        notes = [*layout.notes(place.folder), "no process came back to Python code in this time"]
        raise CommandError(f"nothing was recorded: {notes[0]}")
    return reporting.report_of_run(place.folder, form)


def _place(folder: str) -> Place:
    from scalana.job import meeting
    from scalana.job.parts import Part

    try:
        return meeting.take_place(folder, Part())
    except FileExistsError as error:
        raise UsageError(f"{error} exists and is not empty: choose another folder for --record") from None
    except OSError as error:
        raise UsageError(f"cannot create the run folder {folder}: {error.strerror or error}") from None


def _begin(scripts: Scripts, job: Job, there: Sequence[Target]) -> list[Target]:
    """Have all processes of a job begin to record, but those that are known. Returns those that will.

    Raises:
        CommandError: there is none.
    """
    from scalana.attach import recording

    new = [target for target in recording.targets_of(job) if target not in there]
    new = [target for target in new if not recording.is_done(scripts, target.pid, recording.BEGIN)]
    given, errors = recording.tried(scripts, new, recording.BEGIN)
    if not given and not there:
        raise CommandError(str(errors[0]) if errors else _NOBODY)
    for error in errors:
        console.complain(f"not recorded: {error}")
    recording.waiting(scripts, given, recording.BEGIN, _BEGUN_WITHIN_S)
    return given


def _say_begun(scripts: Scripts, targets: Sequence[Target], seconds: float | None) -> None:
    from scalana.attach import recording

    refused = layout.notes(scripts.folder)
    for note in refused:
        console.complain(note)
    asleep = recording.waiting(scripts, targets, recording.BEGIN, 0.0)
    count = len(layout.record_files(scripts.folder))
    if refused and not count and not asleep:
        raise CommandError("nothing is recorded")
    until = "until they end" if seconds is None else f"for {seconds:g} s"
    noun = "1 process" if count == 1 else f"{count} processes"
    console.complain(f"recording {noun} into {console.shown(scripts.folder)} {until} (Ctrl-C ends the record only)")
    if asleep:
        named = ", ".join(str(one.pid) for one in asleep[:_MOST_NAMED]) + (" ..." if asleep[_MOST_NAMED:] else "")
        console.complain(f"waiting in a call of C, recorded from their next line of Python on: {named}")


def _wait(targets: Sequence[Target], seconds: float | None) -> None:
    """Wait until all processes have ended, or so long."""
    from scalana.attach import recording

    until = None if seconds is None else time.monotonic() + seconds
    while any(recording.lives(one) for one in targets) and (until is None or time.monotonic() < until):
        time.sleep(_LOOK_S)


def _end(scripts: Scripts, job: Job, targets: Sequence[Target]) -> None:
    """End the records of all processes that still run; those that were started meanwhile are among them."""
    from scalana.attach import recording

    known = {target.pid for target in targets}
    later = [target for target in recording.targets_of(job) if target.pid not in known]
    living = [target for target in (*targets, *later) if recording.lives(target)]
    ending, errors = recording.tried(scripts, living, recording.END)
    for error in errors:
        console.complain(f"still recording: {error}")
    recording.waiting(scripts, ending, recording.END, _ENDED_WITHIN_S)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Signals that would end this command end the record, as Ctrl-C does."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _link(file: str) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""
