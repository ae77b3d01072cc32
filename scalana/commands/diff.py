"""``scalana diff``: what changed between two runs."""

from __future__ import annotations

import argparse
import sys

from scalana import console
from scalana.commands.arguments import add_scheduler, add_source, rendered, sources, told


class DiffCommand:
    """Compare two runs: what became slower or faster, and which root causes are new or gone."""

    example = """\
examples:
  scalana diff before after
  scalana diff --format json -o changes.json scalana-20250131-142233 scalana-20250131-150102

The code may change between the runs: places are matched by structure, not by line number.
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("before", metavar="BEFORE", help="run folder, made by scalana run")
        parser.add_argument("after", metavar="AFTER", help="run folder to compare with it")
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
        add_source(parser)
        add_scheduler(parser)
        parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")

    def run(self, args: argparse.Namespace) -> int:
        """Analyse both runs, compare them, and print or write the result."""
        from scalana import comparison, memory
        from scalana.progress import Progress

        memory.keep_freed()
        with told("the runs", "compare"), Progress(sys.stderr) as progress:
            report = comparison.diff(
                args.before, args.after, source=sources(args), scheduler=args.scheduler, progress=progress
            )
            text = rendered(report, args.format, args.output)
        console.deliver(text, args.output)
        return 0
