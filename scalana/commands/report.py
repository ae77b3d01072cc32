"""``scalana report``: the report of a run that was recorded before."""

from __future__ import annotations

import argparse
import sys

from scalana import console
from scalana.commands.arguments import add_scheduler, add_source, rendered, sources, told
from scalana.errors import CommandError


def step_range(text: str) -> tuple[int, int]:
    """First and last of ``A:B``.

    Raises:
        argparse.ArgumentTypeError: it is something else.

    >>> step_range("20:29")
    (20, 29)
    """
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal()) or int(last) < int(first):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a range of steps: give the first and the last, such as 20:29"
        )
    return int(first), int(last)


class ReportCommand:
    """Print the report of a recorded run."""

    example = """\
examples:
  scalana report scalana-20250131-142233
  scalana report --format json -o report.json scalana-20250131-142233
  scalana report --format html -o report.html scalana-20250131-142233
  scalana report --launch 2 scalana-20250131-142233
  scalana report run-node0 run-node1
  scalana report --steps 20:29 scalana-20250131-142233
  scalana report --scheduler tcp://head:8786 scalana-20250131-142233
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "folders", metavar="DIR", nargs="+", help="run folder, made by scalana run; several with parts of one job"
        )
        parser.add_argument(
            "--format",
            choices=("text", "json", "html", "sarif"),
            default="text",
            help="format of the report (default: text)",
        )
        parser.add_argument(
            "--launch",
            metavar="N",
            type=int,
            help="launch to analyse, from 1 on, if the job started its ranks several times (default: the longest)",
        )
        steps = parser.add_mutually_exclusive_group()
        steps.add_argument("--step", metavar="N", type=int, help="analyse only step N (the report lists the steps)")
        steps.add_argument("--steps", metavar="A:B", type=step_range, help="analyse only steps A to B, inclusive")
        add_source(parser)
        add_scheduler(parser)
        parser.add_argument("--timeline", metavar="FILE", help="write a step of the run's pipeline to FILE, as SVG")
        parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")

    def run(self, args: argparse.Namespace) -> int:
        """Analyse the run, and print or write its report."""
        from scalana import api, memory
        from scalana.progress import Progress

        memory.keep_freed()
        with told(args.folders[0]), Progress(sys.stderr) as progress:
            report = api.analyze(
                args.folders,
                launch=args.launch,
                steps=args.steps if args.step is None else (args.step, args.step),
                source=sources(args),
                scheduler=args.scheduler,
                progress=progress,
            )
            drawing = report.to_timeline() if args.timeline else None
            text = rendered(report, args.format, args.output)
        if args.timeline:
            if drawing is None:
                raise CommandError(f"{args.folders[0]}: no pipeline was recorded, so there is no timeline to write")
            console.deliver(drawing, args.timeline)
        console.deliver(text, args.output)
        return 0
