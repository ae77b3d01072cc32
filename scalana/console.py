"""What scalana says on the terminal: streams, colour, width. No command writes to a stream in another way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from scalana.errors import CommandError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

MAX_WIDTH = 100
"""Reports are set for reading; a wider terminal does not make them wider."""
MIN_WIDTH = 60
"""On a narrower terminal lines are broken by the terminal."""

_ASCII = str.maketrans(
    {"·": "-", "…": "...", "─": "-", "│": "|", "└": "`", "├": "+", "█": "#", "▓": "%", "▒": "=", "░": ":", "→": "->"}
    | {"×": "x", "–": "-", "▸": ">", "●": "*", "↳": "`->", "≥": ">=", "▏": "|", "┄": "-"}
)


def open_streams() -> None:
    """Have streams to write to where we were started without (``>&-``). Jobs that we start have none, as before."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), "w"))


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody is looking at ``stream``; False for a closed or replaced one."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def wants_color(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what is written to ``stream``: only on a terminal, and never under ``NO_COLOR``."""
    environ = os.environ if environ is None else environ
    if environ.get("NO_COLOR"):
        return False
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def width(stream: TextIO) -> int:
    """Columns for a report on ``stream``: those of the terminal, between :data:`MIN_WIDTH` and :data:`MAX_WIDTH`."""
    if not is_terminal(stream):
        return MAX_WIDTH
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        found = MAX_WIDTH
    return max(MIN_WIDTH, min(MAX_WIDTH, found or MAX_WIDTH))


def columns() -> int:
    """Columns that help may take: those that ``COLUMNS`` asks for, those of the terminal, or 80."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return 80


def encodable(text: str, encoding: str | None) -> str:
    """``text``, with what ``encoding`` cannot show replaced by the nearest ASCII."""
    encoding = encoding or "ascii"
    try:
        text.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    return text


def write(text: str, stream: TextIO) -> None:
    """Write ``text`` in whatever encoding the stream has.

    Raises:
        BrokenPipeError: when the reader of ``stream`` went away.
    """
    stream.write(encodable(text, getattr(stream, "encoding", None)))
    stream.flush()


def deliver(text: str, path: str | None) -> None:
    """Write a command's result to the file ``path``, or to the standard output where there is none.

    Raises:
        CommandError: the file cannot be written.
    """
    if path is None:
        write(text, sys.stdout)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def complain(message: str) -> None:
    """One line for the user, on the standard error; lost silently when nobody can read it."""
    try:
        write(f"scalana: {message}\n", sys.stderr)
    except (OSError, ValueError):
        pass


def or_complain(path: str, write: Callable[[str], None]) -> None:
    """Write a file of the run folder; where that fails (a full disk), say so, and go on."""
    try:
        write(path)
    except OSError as error:
        complain(f"cannot write {shown(path)}: {error.strerror or error}")


def shown(path: str) -> str:
    """``path`` as the user would type it: relative where that is shorter."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # no working directory any more, or another drive
        return path
    return relative if len(relative) < len(path) else path
