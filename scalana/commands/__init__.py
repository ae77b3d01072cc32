"""The commands, one file each. A new command is a file with a class, and a line in :data:`COMMANDS`."""

from __future__ import annotations

import argparse
from typing import Protocol

from scalana.commands.diff import DiffCommand
from scalana.commands.psg import PsgCommand
from scalana.commands.report import ReportCommand
from scalana.commands.run import RunCommand
from scalana.commands.scaling import ScalingCommand
from scalana.errors import CommandError

__all__ = ["COMMANDS", "Command", "CommandError"]


class Command(Protocol):
    """A command. The first line of its docstring is its summary in ``--help``."""

    example: str
    """Shown below ``--help``."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it, and return the exit code. ``args.rest`` is what followed ``--`` (None without one).

        Raises:
            CommandError: with the message for the user and the exit code.
        """


COMMANDS: dict[str, Command] = {
    "run": RunCommand(),
    "report": ReportCommand(),
    "scaling": ScalingCommand(),
    "diff": DiffCommand(),
    "psg": PsgCommand(),
}
