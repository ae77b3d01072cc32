"""``scalana scaling``: what a program loses as it runs on more ranks."""

from __future__ import annotations

import argparse
import sys

from scalana import console
from scalana.commands.arguments import add_scheduler, add_source, rendered, sources, told, whole
from scalana.errors import UsageError


class ScalingCommand:
    """Find what a program loses on more ranks, from runs of different sizes."""

    example = """\
examples:
  scalana scaling run-2 run-4 run-8
  scalana scaling run-*/ --at 1024
  scalana scaling --scaling weak --format json -o scaling.json run-2 run-4 run-8 run-8-again

Two sizes show the loss at the larger one. With three or more, every place gets a model of its growth, and --at
predicts the loss. Several runs of one size show how much times vary.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("folders", metavar="DIR", nargs="+", help="run folders, made by scalana run")
        parser.add_argument("--at", metavar="RANKS", type=whole(1), help="predict the loss at this number of ranks")
        parser.add_argument(
            "--scaling",
            choices=("auto", "weak", "strong"),
            default="auto",
            help="strong: equal total work; weak: equal work per rank (default: detected)",
        )
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
        add_source(parser)
        add_scheduler(parser)
        parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")

    def run(self, args: argparse.Namespace) -> int:
        """Analyse all runs, compare them, and print or write the result."""
        from scalana import comparison, memory
        from scalana.progress import Progress

        if len(args.folders) < 2:
            raise UsageError("give at least two runs with different numbers of ranks")
        stated = None if args.scaling == "auto" else args.scaling
        memory.keep_freed()
        with told("the runs", "compare"), Progress(sys.stderr) as progress:
            report = comparison.scaling(
                args.folders,
                stated=stated,
                at=args.at,
                source=sources(args),
                scheduler=args.scheduler,
                progress=progress,
            )
            text = rendered(report, args.format, args.output)
        console.deliver(text, args.output)
        return 0
