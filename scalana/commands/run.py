"""``scalana run``: record a job, and say at its end who made whom wait."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time

from scalana import console
from scalana.commands.arguments import within
from scalana.commands.following import NEVER, add_following, following_words
from scalana.errors import CommandError, UsageError
from scalana.runtime.record import layout
from scalana.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scalana.job.meeting import Place
    from scalana.job.parts import Part

_FOLLOWED_AFTER_S = 30.0
"""A job that is shorter is not followed, unless the user asks for something."""
_FOLLOWED_SOON_S = 2.0


class RunCommand:
    """Run a job, record it, and print the report when it ends."""

    example = """\
examples:
  scalana run -- torchrun --standalone --nproc-per-node 4 train.py
  scalana run -o first-try --rate 500 -- mpirun -n 8 python solve.py

The report goes to standard error and leaves the output of the job unchanged. With --format json, it goes to standard
output, after that of the job. The run folder keeps both (report.txt, report.json). The exit code is that of the job.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.usage = (
            "scalana run [-o DIR | --resume DIR] [--rate HZ] [--format text|json] [--mpi] [--job ID] "
            "[--collect HOST:PORT|no] [--no-report] [--report-with PYTHON] [--verdict-after N] "
            "[--hang-after SECONDS] [--on-hang report|abort] -- COMMAND ..."
        )
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="run folder to create (default: scalana-<date>-<time>)"
        )
        parser.add_argument(
            "--resume",
            metavar="DIR",
            help="continue the run in this folder, into which an earlier job of the same chain recorded; the first job "
            "makes it",
        )
        parser.add_argument(
            "--rate",
            metavar="HZ",
            type=within(1, 10_000, "samples per second"),
            default=layout.DEFAULT_RATE_HZ,
            help="samples per second (default: 200)",
        )
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="format of the report (default: text)"
        )
        parser.add_argument(
            "--mpi", action="store_true", help="the job uses MPI, although its command and scripts do not show it"
        )
        parser.add_argument(
            "--job",
            metavar="ID",
            help="of a job that is started on several hosts: the same name on each (default: what its launcher says)",
        )
        parser.add_argument(
            "--collect",
            metavar="HOST:PORT",
            default=os.environ.get("SCALANA_COLLECT", ""),
            help="where the first start of a job takes the records of the others, if they share no file system "
            "(default: its host, and a port that the job determines); no: records stay where they are",
        )
        parser.add_argument("--no-report", action="store_true", help="record, but write no report")
        add_following(parser)
        parser.add_argument(
            "--report-with",
            metavar="PYTHON",
            help="the Python, or the folder of an environment, that analyses the run (default: $SCALANA_REPORT, this "
            "Python, or that of scalana setup-report)",
        )
        parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)

    def run(self, args: argparse.Namespace) -> int:
        """Run the job to its end, report, and leave as the job left."""
        if not sys.platform.startswith("linux"):
            raise CommandError("scalana run records on Linux only; here, use scalana report for runs of other machines")
        from scalana.job import launch, parts, supervise

        command = _command(args)
        if args.resume and args.output:
            raise UsageError("-o and --resume both name a run folder: leave out one of them")
        if args.report_with:
            from scalana import analysis_home

            args.report_with = analysis_home.python_of(args.report_with, "--report-with")
        part = parts.part_of(command, os.environ)
        if args.job:
            part = parts.named_job(args.job, part)
        place, before = _take_place(args, part, command)
        folder = place.folder
        info: dict[str, object] = {
            "command": command,
            "cwd": os.getcwd(),
            "start_unix_s": time.time(),
            "rate_hz": args.rate,
            "version": __version__,
            "job_id": place.token,
            **({"before": before} if before else {}),
            **({"slurm_job": job} if (job := os.environ.get("SLURM_JOB_ID", "")) else {}),
        }
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write to the run folder {console.shown(folder)}: check its permissions")
        if place.instead_of:
            console.complain(f"{place.instead_of} is another run's folder: recording into {console.shown(folder)}")
        if part.is_whole and launch.stands_behind_the_launcher(command, os.environ):
            console.complain("each rank is recorded as a separate job: put scalana run before the launcher instead")
        begin = time.monotonic()
        came: list[int] = []
        try:
            env = launch.environment(folder, args.rate, os.environ, place.token)
            with supervise.raised():
                env, missing = launch.mpi_environment(command, env, console.complain, expected=args.mpi)
            for note in missing:
                console.complain(note)
            begin = time.monotonic()
            with _followed(folder, part, args) as is_to_end:
                words = launch.started(command, env)
                returncode = supervise.execute(words, env, lambda: _begun(place, info, part), is_to_end, came.append)
        except supervise.Signalled as signalled:
            _remove_unused(place)
            return supervise.exit_like(-signalled.number)
        except OSError as error:
            _remove_unused(place)
            return _not_started(command[0], error)
        info["seconds"] = time.monotonic() - begin
        info["exit_code"] = exit_code = supervise.shell_code(returncode)
        if os.path.isdir(folder):
            _write_info(place, info)
        from scalana.job import gathering  # here: a job waits for all that is loaded before it

        ended = gathering.Ended(
            place,
            part,
            time.monotonic() - begin,
            exit_code,
            wants_report=not args.no_report,
            collect=args.collect,
            is_to_leave=signal.SIGTERM in came,
        )
        if gathering.reports(ended, console.complain):
            _finish(folder, command, args, missing, mpi="SCALANA_MPI_WRAPPERS" in env)
        return supervise.exit_like(returncode)


@contextlib.contextmanager
def _followed(folder: str, part: Part, args: argparse.Namespace) -> Iterator[Callable[[], bool]]:
    """Have the run followed while it goes on; gives what says that the job is to be ended, once a second."""
    if not part.is_head() or (args.hang_after == NEVER and args.verdict_after is None):
        yield lambda: False
        return
    from scalana.job.follower import Follower

    words = ["watch", "--log", *following_words(args), folder]
    after_s = _FOLLOWED_AFTER_S if args.verdict_after is None and args.hang_after is None else _FOLLOWED_SOON_S
    follower = Follower(lambda: _analysing_python(args.report_with), words, after_s)
    try:
        yield follower.asks_for_the_end
    finally:
        follower.stop()


def _analysing_python(wanted: str | None) -> str | None:
    """The Python that analyses, None for this one.

    Raises:
        CommandError: there is none.
    """
    from scalana import analysis_home

    return analysis_home.elsewhere(wanted, os.environ)


def _finish(folder: str, command: list[str], args: argparse.Namespace, missing: list[str], mpi: bool) -> None:
    """What follows the job. Whatever goes wrong here is one line for the user: the job itself has ended as it has.

    Args:
        missing: what the native recorder lacked, if the job uses MPI.
        mpi: whether there was a native recorder.
    """
    try:
        if not os.path.isdir(folder):
            console.complain(f"the run folder {console.shown(folder)} was removed while the job ran: no report")
            return
        if reason := _nothing_recorded(folder, command, missing, mpi):
            console.complain(f"nothing was recorded: {reason} (run folder: {console.shown(folder)})")
        elif args.no_report:
            if mpi:
                _keep_frames(folder, args)
            console.complain(f"recorded; for the report: scalana report {console.shown(folder)}")
        else:
            _report(folder, args)
        _compile_for_the_next_run()
    except KeyboardInterrupt:
        console.complain(
            f"report interrupted; the records are in {console.shown(folder)} (scalana report {console.shown(folder)})"
        )
    except Exception as error:
        if os.environ.get("SCALANA_DEBUG"):
            raise
        reason = str(error) or type(error).__name__
        console.complain(f"could not analyse the run: {reason} (records are in {console.shown(folder)})")


def _report(folder: str, args: argparse.Namespace) -> None:
    """Report, here or by the Python that analyses; without any, say how to."""
    from scalana import analysis_home

    try:
        python = analysis_home.elsewhere(args.report_with, os.environ)
    except CommandError as error:
        where = console.shown(folder)
        console.complain(f"recorded in {where}, without a report: {error}; then scalana report {where}")
        return
    if python is None:
        from scalana.job import reporting

        reporting.report_of_run(folder, args.format)
        return
    code = analysis_home.run_there(python, [analysis_home.OF_RUN, folder, args.format])
    if code < 0:
        console.complain(
            f"the analysis by {python} was ended by signal {-code} (records are in {console.shown(folder)})"
        )


def _keep_frames(folder: str, args: argparse.Namespace) -> None:
    """Keep what binaries say of native code, if there is an analysis: the report may be made on another machine."""
    from scalana import analysis_home

    try:
        python = analysis_home.elsewhere(args.report_with, os.environ)
    except CommandError:
        return
    if python is None:
        from scalana.job import reporting

        reporting.keep_frames(folder)
    else:
        analysis_home.run_there(python, [analysis_home.FRAMES, folder])


def _compile_for_the_next_run() -> None:
    from scalana.runtime import user_cache

    if user_cache.wanted(user_cache.TORCH, os.environ):
        from scalana.runtime.torch import build as torch_build

        torch_build.start(os.environ)


def _nothing_recorded(folder: str, command: list[str], missing: list[str], mpi: bool) -> str:
    """Why there are no records; empty if there are some."""
    if layout.record_files(folder):
        return ""
    from scalana.job import nothing_recorded

    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        if (disk.f_blocks and not disk.f_bavail) or (disk.f_files and not disk.f_favail):
            return "the disk of the run folder is full"
    return nothing_recorded.explain(command, [*missing, *layout.notes(folder)], mpi)


def _command(args: argparse.Namespace) -> list[str]:
    """The job: what followed ``--``, or the words after the options where there was no ``--``."""
    command = list(args.command)
    if args.rest is not None:
        # A second kind of `--` is one of the job's own: scalana run prog a -- b
        command = [*command, "--", *args.rest] if command else list(args.rest)
    if not command or not command[0]:
        raise UsageError("no command to run; example: scalana run -- torchrun --nproc-per-node 4 train.py")
    return command


def _take_place(args: argparse.Namespace, part: Part, command: list[str]) -> tuple[Place, list[dict[str, object]]]:
    """Where the job records, and what is known of the jobs that it continues there."""
    from scalana.job import meeting, resuming

    earlier = args.resume or resuming.requeued(args.output, os.environ)
    wanted, is_taken = earlier or args.output, False
    if earlier and part.is_whole and os.path.isdir(earlier) and os.listdir(earlier):
        found = resuming.resume(earlier, command)
        if isinstance(found, resuming.Resumed):
            number = len(found.before) + 1
            console.complain(f"continuing the run in {console.shown(earlier)}: job {number} of its chain")
            return found.place, list(found.before)
        console.complain(f"cannot continue {console.shown(earlier)}: it {found}")
        is_taken = True
    try:
        return meeting.take_next_place(str(earlier), part) if is_taken else meeting.take_place(wanted, part), []
    except FileExistsError as error:
        raise UsageError(f"{error} exists and is not empty: choose another folder with -o") from None
    except OSError as error:
        raise UsageError(f"cannot create the run folder {wanted or 'here'}: {error.strerror or error}") from None


def _begun(place: Place, info: dict[str, object], part: Part) -> None:
    """Leave in the run folder what is known when the job has begun."""
    from scalana.job import launch

    _write_info(place, info)
    if part.is_whole:
        launch.note_allocation(place.folder, os.environ)


def _write_info(place: Place, info: dict[str, object]) -> None:
    from scalana.job import meeting

    console.or_complain(layout.info_file(place.folder), lambda _: meeting.say_start(place, info))


def _remove_unused(place: Place) -> None:
    """Remove the folder of a run that never started; of several starts, what this one left in it."""
    with contextlib.suppress(OSError):
        if layout.record_files(place.folder):  # of an earlier job
            return
        if place.name:
            os.unlink(layout.start_file(place.folder, place.name))
            return
        for entry in os.scandir(place.folder):
            os.rmdir(entry.path) if entry.is_dir() else os.unlink(entry.path)
        os.rmdir(place.folder)


def _not_started(program: str, error: OSError) -> int:
    """Say why the job could not be started. Returns the code that a shell gives: 127 not found, 126 not executable."""
    hint = f" (python {program}?)" if program.endswith(".py") else ""
    if isinstance(error, FileNotFoundError):
        raise CommandError(f"{program}: command not found{hint}", exit_code=127)
    raise CommandError(f"{program}: {error.strerror or error}{hint}", exit_code=126)
