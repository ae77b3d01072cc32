"""``scalana attach``: where the processes of a job are that was started without scalana."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from scalana import console
from scalana.commands.arguments import whole, within
from scalana.errors import CommandError
from scalana.runtime.record import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.attach.comparison import LineShare
    from scalana.attach.processes import Job
    from scalana.live.now import Moment
    from scalana.report.text.paint import Paint

SCHEMA = "scalana.attach/1"
_MOST_LINES = 20
_RATE_HZ = 50


class AttachCommand:
    """Show where the processes of a job are that was started without scalana."""

    example = """\
examples:
  scalana attach 4711
  scalana attach --seconds 10 4711 4712
  scalana attach --record DIR 4711

PID is a process of the job, or its launcher: all Python processes below it are read, by py-spy, which stops each for
some milliseconds at a look. With --seconds they are sampled, and ranks are compared line by line. With --record they
record themselves from now on, as under scalana run, which needs Python 3.14 on both sides; the report follows when they
end, after --seconds, or at Ctrl-C, after which they go on without a record.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("pids", metavar="PID", type=int, nargs="+", help="process of the job, or its launcher")
        parser.add_argument(
            "--seconds", metavar="N", type=within(1, 3600, "seconds"), help="also sample, or record, for so long"
        )
        parser.add_argument("--record", metavar="DIR", help="record into this new run folder, and report (Python 3.14)")
        parser.add_argument(
            "--rate", metavar="HZ", type=whole(1, 1000), help="samples a second (default: 50, or 200 with --record)"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, args: argparse.Namespace) -> int:
        """Read all stacks at once, and then sample."""
        from scalana.attach import spy
        from scalana.attach.comparison import compared
        from scalana.attach.processes import ancestors, job_of
        from scalana.attach.stacks import moment_of, names_of

        if gone := [pid for pid in args.pids if not os.path.exists(f"/proc/{pid}")]:
            raise CommandError(f"{gone[0]}: no such process on this host")
        if mine := [pid for pid in args.pids if pid in ancestors(os.getpid())]:
            raise CommandError(
                f"{mine[0]}: this command runs below that process, and so may others that are no part of the job; give "
                "the PID of the job's launcher"
            )
        if args.record:
            from scalana.commands.attach_recording import record_job

            form = "json" if args.json else "text"
            rate_hz = args.rate or layout.DEFAULT_RATE_HZ
            return record_job(args.pids, args.record, args.seconds, rate_hz, form)
        program = spy.program()
        job = job_of(args.pids)
        if not job.ranks:
            raise CommandError(f"{args.pids[0]}: no Python process there or below it, or none that this user may read")
        pids = [process.pid for process in (*job.ranks, *(helper for _, helper in job.helpers))]
        read = spy.of_each(pids, lambda pid: spy.look(program, pid), False)
        looks = {pid: one for pid, one in read.items() if isinstance(one, spy.Look)}
        _complain([one for one in read.values() if isinstance(one, spy.SpyError)], bool(looks))
        moment = moment_of(job, looks)
        rows: list[LineShare] = []
        if args.seconds:
            numbers, _ = names_of(job.ranks)
            wanted = [pid for pid in numbers if pid in looks]
            found = spy.of_each(
                wanted, lambda pid: spy.sampled(program, pid, args.seconds, args.rate or _RATE_HZ), True
            )
            _complain([one for one in found.values() if isinstance(one, spy.SpyError)], True)
            rows = compared({numbers[pid]: one for pid, one in found.items() if not isinstance(one, spy.SpyError)})
        if args.json:
            console.write(json.dumps(_document(moment, rows), indent=1) + "\n", sys.stdout)
        else:
            _print(job, moment, rows, args.seconds)
        return 0


def _complain(errors: Sequence[Exception], others: bool) -> None:
    """Say which processes cannot be read.

    Raises:
        CommandError: no ``others`` can.
    """
    if errors and not others:
        raise CommandError(str(errors[0]))
    for error in errors:
        console.complain(str(error))


def _print(job: Job, moment: Moment, rows: Sequence[LineShare], seconds: float | None) -> None:
    from scalana.live.stacks import groups_of, stack_lines
    from scalana.report.text.paint import Paint

    paint, width = Paint(console.wants_color(sys.stdout)), console.width(sys.stdout)
    count, noun = len(moment.ranks), "process" if moment.names.several else "rank"
    head = f"{count} {noun}{'es' if noun == 'process' else 's'}" if count != 1 else f"1 {noun}"
    head += f" at {time.strftime('%H:%M:%S')}"
    if len(job.launchers) == 1:
        head += f", started by process {job.launchers[0].pid}"
    lines = [head, "", *stack_lines(groups_of(moment), width, paint)]
    if seconds:
        lines += _profile_lines(moment, rows, seconds, job.ranks[0].cwd, (width, paint))
    console.write("\n".join(lines) + "\n", sys.stdout)


def _profile_lines(
    moment: Moment, rows: Sequence[LineShare], seconds: float, cwd: str, drawn: tuple[int, Paint]
) -> list[str]:
    """Each line with its share of the time of the ranks, those first in which ranks differ."""
    from scalana.attach.comparison import ranks_of
    from scalana.report import names
    from scalana.report.text.paint import clip, clip_left

    width, paint = drawn
    if not rows:
        return [f"In {seconds:.0f} s no process was sampled."]
    lines = [paint(f"in {seconds:.0f} s, parts of the time of each main thread, running or not:", "bold")]
    for row in rows[:_MOST_LINES]:
        file, line, function = row.place
        different = row.different()
        others = [rank for rank in ranks_of(rows) if rank not in different]
        who = [f"{moment.names.many([rank])} {names.percent(row.shares[rank])}" for rank in different[:8]]
        who += [f"{len(different) - 8} more ranks"] if len(different) > 8 else []
        who += [_share(moment, row, others, bool(different))] if others else []
        place = f"{names.place(names.relative(file, cwd), line)} {function}"
        lines += [f"  {clip_left(place, width - 2)}", clip(f"      {', '.join(who)}", width)]
    return lines


def _share(moment: Moment, row: LineShare, ranks: Sequence[int], are_others: bool) -> str:
    from scalana.report import names

    least, most = (extreme(row.shares[rank] for rank in ranks) for extreme in (min, max))
    who = "the others" if are_others else moment.names.many(ranks, moment.world_size)
    low, high = names.percent(least), names.percent(most)
    return f"{who} {low if low == high else f'{low} to {high}'}"


def _document(moment: Moment, rows: Sequence[LineShare]) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "schema": SCHEMA,
        "processes": [
            {
                "rank": one.rank,
                "name": one.name,
                "pid": one.pid,
                "state": one.state,
                "stack": [{"file": file, "line": line, "function": name} for file, line, name in one.stack.frames],
            }
            for one in (*moment.ranks, *moment.helpers)
        ],
        "lines": [
            {
                "file": row.place[0],
                "line": row.place[1],
                "function": row.place[2],
                "shares": {str(rank): round(share, 4) for rank, share in sorted(row.shares.items())},
                "different": row.different(),
            }
            for row in rows
        ],
    }
