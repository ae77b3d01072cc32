"""``scalana psg``: the structure of a program, from its source alone."""

from __future__ import annotations

import argparse
import os
import sys

from scalana import console
from scalana.errors import CommandError, UsageError


class PsgCommand:
    """Show the structure graph of source files, without running them."""

    example = """\
examples:
  scalana psg train.py
  scalana psg src/ --format json -o structure.json
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("paths", metavar="PATH", nargs="+", help="Python file, or folder with Python files")
        parser.add_argument(
            "--full", action="store_true", help="show every vertex, not only what matters for communication"
        )
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
        parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the standard output")

    def run(self, args: argparse.Namespace) -> int:
        """Build the graph and show it. What could not be read is told on the standard error, and the rest is shown."""
        from scalana.frontend.build import build_psg
        from scalana.report import psg_json, psg_text

        if args.rest is not None:
            raise UsageError("compiler flags (after --) are for C and C++ sources, which this version does not read")
        psg = build_psg(args.paths)
        for warning in psg.warnings:
            console.complain(warning)
        if len(psg) <= 1:
            raise CommandError(f"no structure found in {', '.join(args.paths)}")
        if args.format == "json":
            text = psg_json.render(psg, os.getcwd())
        else:
            render = psg_text.render_psg if args.full else psg_text.render
            page = 0 if args.output or not console.is_terminal(sys.stdout) else console.width(sys.stdout)
            text = render(psg, width=page, color=not args.output and console.wants_color(sys.stdout))
        console.deliver(text, args.output)
        return 0
