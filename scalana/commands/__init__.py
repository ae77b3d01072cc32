"""The commands, one file each. A new command is a file with a class, and a line in :data:`COMMANDS`."""

from __future__ import annotations

import argparse
from importlib import import_module

from scalana.errors import CommandError

TYPE_CHECKING = False  # of typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Protocol

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


__all__ = ["COMMANDS", "WITHOUT_ANALYSIS", "CommandError", "command"]

COMMANDS = {
    "run": "RunCommand",
    "report": "ReportCommand",
    "watch": "WatchCommand",
    "stacks": "StacksCommand",
    "attach": "AttachCommand",
    "scaling": "ScalingCommand",
    "diff": "DiffCommand",
    "psg": "PsgCommand",
    "calibrate": "CalibrateCommand",
    "import": "ImportCommand",
    "export": "ExportCommand",
    "rl": "RlCommand",
    "pipeline": "PipelineCommand",
    "setup-report": "SetupReportCommand",
}
"""Their names, which are those of their modules too, and their classes. A module is loaded when its command is named:
a job waits for what ``scalana run`` loads."""

WITHOUT_ANALYSIS = ("run", "setup-report")
"""Commands that work where the analysis is not installed; all others are handed to an environment that has it."""


def command(name: str) -> Command:
    """A command by its name."""
    made: Command = getattr(import_module(f"{__name__}.{name.replace('-', '_')}"), COMMANDS[name])()
    return made
