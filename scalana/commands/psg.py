"""``scalana psg``: the structure of a program, from its source alone."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from scalana import console
from scalana.errors import CommandError, UsageError

if TYPE_CHECKING:
    from scalana.graphs.structure.psg import PSG


class PsgCommand:
    """Show the structure of a program, from its source or its binary, without running it."""

    example = """\
examples:
  scalana psg train.py
  scalana psg src/ --format json -o structure.json
  scalana psg ./solver                       (a program compiled with -g)
  scalana psg solver.cpp mesh.cpp -- -Iinclude -DUSE_MPI
  scalana psg coupler.py ./solver            (a job of both, in one graph)
  scalana psg --model nets:make_decoder --inputs 4x128:int64
  scalana psg --model nets:make_decoder --inputs nets:example_batch --format json
"""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "paths", metavar="PATH", nargs="*", help="Python, C or C++ file, folder with such files, or program"
        )
        parser.add_argument(
            "--model",
            metavar="MODULE:FACTORY",
            help="show a PyTorch model: a module, its class, or a function that returns it",
        )
        parser.add_argument(
            "--inputs",
            metavar="INPUT",
            nargs="+",
            default=[],
            help="inputs of the model: shapes such as 4x128:int64, or MODULE:FUNCTION that returns them",
        )
        parser.add_argument(
            "--full", action="store_true", help="show every vertex, not only those that matter for communication"
        )
        parser.add_argument(
            "--query-driver",
            metavar="GLOB",
            action="append",
            default=[],
            help="compilers that may be started if a compile_commands.json names them; others only if they are on PATH",
        )
        parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
        parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")

    def run(self, args: argparse.Namespace) -> int:
        """Build the graph and show it. What could not be read is told on the standard error, and the rest is shown."""
        from scalana.report.structure import psg_json, psg_text

        if args.model is not None:
            return _show_model(args)
        if not args.paths or args.inputs:
            raise UsageError("--inputs needs a --model" if args.inputs else "give a PATH or a --model")
        psg = _build(args.paths, args.rest, args.query_driver)
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


def _build(paths: list[str], flags: list[str] | None, drivers: list[str]) -> PSG:
    """The graph of sources, folders and programs."""
    from scalana.frontend.build import build_psg
    from scalana.frontend.cpp.build import Cpp
    from scalana.frontend.front_end import Options

    if flags is not None and not any(map(Cpp().takes, paths)):
        raise UsageError("compiler flags (after --) need C or C++ sources, but there are none")
    return build_psg(paths, Options(flags=flags, drivers=drivers))


def _show_model(args: argparse.Namespace) -> int:
    """The graph of a model of torch."""
    from scalana.frontend.models.build import model_graph
    from scalana.frontend.models.operators import ModelError
    from scalana.report.structure import psg_model

    if args.paths or args.rest is not None:
        raise UsageError("--model excludes PATH and compiler flags: remove them")
    try:
        graph = model_graph(args.model, args.inputs)
    except ModelError as error:
        raise CommandError(str(error)) from error
    for warning in graph.psg.warnings:
        console.complain(warning)
    if args.format == "json":
        text = psg_model.as_json(graph, os.getcwd())
    else:
        page = 0 if args.output or not console.is_terminal(sys.stdout) else console.width(sys.stdout)
        text = psg_model.as_text(graph, width=page, color=not args.output and console.wants_color(sys.stdout))
    console.deliver(text, args.output)
    return 0
