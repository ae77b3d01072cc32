"""``scalana import``: the run folder and the report of what another tool recorded."""

from __future__ import annotations

import argparse
import os
import sys
import time

from scalana import console
from scalana.commands.arguments import rendered
from scalana.errors import CommandError, RunDataError


class ImportCommand:
    """Import traces of other tools (one file per rank) as a run folder, and print its report."""

    example = """\
examples:
  scalana import trace/rank*.json.gz -o run
  scalana import traces/ -o run --source ~/project
  scalana import traces.tar -o run --format json

  scalana import /tmp/nccl_trace_rank_* -o run
  scalana import operations.csv -o run

formats: kineto (Chrome traces of torch.profiler), dumps of PyTorch's flight recorder (pickles or JSON), and tables of
operations (CSV, JSON lines or parquet, with the columns rank, kind, begin_s, duration_s, step, stage, microbatch ...),
plain or .gz, in folders or in a .tar
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "traces", metavar="TRACE", nargs="+", help="trace file of a rank, folder with such files, or .tar"
        )
        parser.add_argument(
            "-o", "--output", metavar="DIR", help="run folder to create (default: scalana-<date>-<time>)"
        )
        parser.add_argument(
            "--source", metavar="DIR", default=".", help="folder of the program's source (default: this one)"
        )
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="format of the report (default: text)"
        )

    def run(self, args: argparse.Namespace) -> int:
        """Write the run folder, analyse it, and print its report."""
        from scalana import api, memory
        from scalana.importers.errors import TraceError
        from scalana.importers.registry import import_traces
        from scalana.progress import Progress

        memory.keep_freed()
        folder = args.output or time.strftime("scalana-%Y%m%d-%H%M%S")
        source = os.path.abspath(args.source)
        if not os.path.isdir(source):
            raise CommandError(f"--source {args.source}: no such folder", 2)
        try:
            import_traces(args.traces, folder, source)
        except TraceError as error:
            raise CommandError(str(error)) from error
        except FileExistsError as error:
            raise CommandError(f"{error}; choose another folder with -o") from error
        except OSError as error:
            raise CommandError(f"{error.filename or folder}: {error.strerror or error}") from error
        try:
            with Progress(sys.stderr) as progress:
                report = api.analyze(folder, progress=progress)
        except RunDataError as error:
            raise CommandError(str(error)) from error
        console.deliver(rendered(report, args.format, None), None)
        return 0
