"""``scalana export``: a recorded run for the viewers of others."""

from __future__ import annotations

import argparse
import sys

from scalana.commands.arguments import add_source, sources, told

NAMES = ("chrome", "speedscope", "hatchet")
"""Of the formats; a test compares them with :data:`scalana.export.registry.FORMATS`, which takes long to import."""


class ExportCommand:
    """Export a recorded run to the viewer of another tool."""

    example = """\
examples:
  scalana export scalana-20250131-142233 --to chrome -o run.json.gz          open it in ui.perfetto.dev
  scalana export scalana-20250131-142233 --to speedscope -o run.speedscope.json
  scalana export scalana-20250131-142233 --to hatchet -o run.hatchet.json
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("folder", metavar="DIR", help="run folder, made by scalana run")
        parser.add_argument(
            "--to",
            choices=NAMES,
            required=True,
            help="chrome: timeline for Perfetto; speedscope: flame graphs of ranks, and of delays by cause; hatchet: "
            "call tree and metrics of every rank, for GraphFrame",
        )
        parser.add_argument("--launch", metavar="N", type=int, help="launch to export, as for scalana report")
        add_source(parser)
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help="write to FILE (compressed if it ends in .gz), not standard output",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Analyse the run, and write it."""
        from scalana import api
        from scalana.export import files
        from scalana.export.registry import FORMATS
        from scalana.progress import Progress

        with told(args.folder), Progress(sys.stderr) as progress:
            analysis = api.analyze(args.folder, launch=args.launch, source=sources(args), progress=progress).analysis
        files.write(FORMATS[args.to].pieces(analysis), args.output)
        return 0
