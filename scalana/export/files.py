"""Where exports are written to: a file, compressed where its name ends in ``.gz``, or the standard output."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterable

from scalana import console
from scalana.errors import CommandError


def write(pieces: Iterable[str], path: str | None) -> None:
    """Write text piece by piece. The same pieces give the same bytes, compressed too.

    Raises:
        CommandError: the file cannot be written.
    """
    if path is None:
        for piece in pieces:
            console.write(piece, sys.stdout)
        return
    try:
        with open(path, "wb") as file:
            if path.endswith(".gz"):
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed, io.TextIOWrapper(packed, "utf-8") as text:
                    text.writelines(pieces)
            else:
                with io.TextIOWrapper(file, "utf-8") as text:
                    text.writelines(pieces)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error
