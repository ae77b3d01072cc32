"""The command line: parses it, and hands over to the one command that was asked for.

Exit codes: 0 done, 1 data that cannot be used, 2 a usage error; ``scalana run`` exits with the code of its job.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence

from scalana import console
from scalana.commands import COMMANDS, WITHOUT_ANALYSIS, CommandError, command
from scalana.version import __version__

_DESCRIPTION = """\
Which line, on which rank, makes all others wait, and how much time does a fix save?

examples:
  scalana run -- torchrun --standalone --nproc-per-node 4 train.py
  scalana run -- mpirun -n 8 ./solver
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Is told its width: to find it out, :mod:`argparse` loads what every job would have to wait for."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=console.columns() - 2)


def parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line, one subparser for each of some commands."""
    top = argparse.ArgumentParser(prog="scalana", description=_DESCRIPTION, formatter_class=_Help)
    top.add_argument("--version", action="version", version=f"scalana {__version__}")
    commands = top.add_subparsers(dest="command_name", metavar="COMMAND", required=True)
    for name in names:
        asked = command(name)
        summary = (asked.__doc__ or "").strip().splitlines()[0]
        sub = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            epilog=asked.example,
            formatter_class=_Help,
        )
        asked.configure(sub)
        sub.set_defaults(entry=asked.run, parser=sub)
    return top


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; what follows the first ``--`` is left alone, in ``rest`` (None without a ``--``)."""
    own = list(argv)
    rest: list[str] | None = None
    if "--" in own:
        at = own.index("--")
        own, rest = own[:at], own[at + 1 :]
    named = own[:1] if own and own[0] in COMMANDS else COMMANDS
    args, unknown = parser(named).parse_known_args(own)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    args.rest = rest
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Entry of the ``scalana`` program. Returns the exit code."""
    console.open_streams()
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments:
        parser().print_help(sys.stderr)
        return 2
    args = parse(arguments)
    code: int | None
    try:
        code = _elsewhere(args.command_name, arguments)
        if code is None:
            code = args.entry(args)
        sys.stdout.flush()
        return code
    except CommandError as error:
        console.complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        console.complain("interrupted")
        return 130
    except BrokenPipeError:
        # Whoever read our output went away (`scalana report DIR | head`). Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _elsewhere(name: str, arguments: Sequence[str]) -> int | None:
    """Have an environment with the analysis do it, where this one has none; None if it is to be done here.

    Raises:
        CommandError: there is no such environment.
    """
    if name in WITHOUT_ANALYSIS:
        return None
    from scalana import analysis_home

    if not analysis_home.missing():
        return None
    python = analysis_home.elsewhere(None, os.environ)
    return None if python is None else analysis_home.run_there(python, arguments)
