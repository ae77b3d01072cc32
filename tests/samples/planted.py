"""The samples and what their headers say about them.

A sample is one program with a comment block of TOML between ``# /// scalana`` and ``# ///`` that says how it is
launched and what is planted in it. The planted lines are marked by comments, so that a header needs no line numbers: a
fault with the marker ``fault`` begins at the line that ends in ``# <- fault`` and goes on to the one that ends in
``# <- end of fault``, or is that one line.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


@dataclass(frozen=True)
class Fault:
    """One planted root cause."""

    function: str
    ranks: tuple[int, ...]
    """World ranks on which it is planted."""
    kind: str
    """``sleep`` (off the CPU), ``busy`` (on it), ``gil`` (on it, in another thread, with the interpreter's lock) or
    ``data`` (more data in the same code)."""
    seconds: float
    """Wall seconds of one occurrence."""
    occurrences: int
    """In all, over the planted ranks."""
    lost_s: float
    """Rank-seconds of waiting that it causes."""
    saving_s: float
    """Wall seconds that the training loop is shorter without it."""
    line: int
    """First planted line."""
    end_line: int
    """Last planted line."""
    waiting_ranks: int | None = None
    """How many ranks wait for all of each occurrence; None where ``lost_s`` follows from something else."""


@dataclass(frozen=True)
class Sample:
    """One program."""

    path: Path
    launch: tuple[str, ...]
    """Command before the program's name."""
    ranks: int
    planted: str
    symptom: str
    balanced: bool
    faults: tuple[Fault, ...]
    measured: str = ""
    """What the program prints before the seconds of what is planted, where these depend on the machine."""

    @property
    def name(self) -> str:
        return self.path.stem


def header(text: str, path: Path) -> dict[str, Any]:
    """The header of a program. Raises ValueError where there is none, or one that is no TOML."""
    block = re.search(r"^# /// scalana\n((?:#.*\n)*?)# ///$", text, re.MULTILINE)
    if block is None:
        raise ValueError(f"{path}: no header between '# /// scalana' and '# ///'")
    body = "\n".join(line[1:].removeprefix(" ") for line in block[1].splitlines())
    try:
        return tomllib.loads(body)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: header: {error}") from error


def marked_line(text: str, marker: str) -> int | None:
    """The line (from 1) that ends in ``# <- MARKER``, or None. Raises ValueError if there are several."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"# <- {marker}")]
    if len(lines) > 1:
        raise ValueError(f"marker {marker!r} stands on lines {lines}")
    return lines[0] if lines else None


def read_fault(entry: dict[str, Any], text: str, path: Path) -> Fault:
    values = dict(entry)
    marker = values.pop("marker")
    line = marked_line(text, marker)
    if line is None:
        raise ValueError(f"{path}: no line ends in '# <- {marker}'")
    end_line = marked_line(text, f"end of {marker}") or line
    return Fault(**{**values, "ranks": tuple(values["ranks"])}, line=line, end_line=end_line)


def read_sample(path: Path) -> Sample:
    """Reads a program's header and finds its markers. Raises ValueError, naming the file, for a mistake in them."""
    text = path.read_text(encoding="utf-8")
    values = header(text, path)
    return Sample(
        path=path,
        launch=tuple(values["launch"].split()),
        ranks=values["ranks"],
        planted=values["planted"],
        symptom=values["symptom"],
        balanced=values.get("balanced", False),
        measured=values.get("measured", ""),
        faults=tuple(read_fault(entry, text, path) for entry in values.get("faults", [])),
    )


def read_samples(folder: Path = SAMPLES) -> list[Sample]:
    return [read_sample(path) for path in sorted(folder.glob("*.py"))]
