"""What goes wrong, for users of the library, and how a command gives up."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot go on: ``str(error)`` is for the user.

    ``exit_code`` is 1 for data that cannot be used and 2 for a usage error.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CommandError):
    """The command line asks for something that does not make sense."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)


class RunDataError(ValueError):
    """A run folder cannot be used; the message names the file and says why."""


class ClusterError(ValueError):
    """A Dask cluster cannot be used; the message names the option and says why."""


class AnalysisMissing(CommandError, ImportError):
    """This Python lacks packages that the analysis needs; the message says what to install."""
