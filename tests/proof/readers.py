"""Takes a value out of what a command prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .rows import Reader


def numbers(pattern: str, output: str) -> list[float]:
    """What the first group of a pattern matches, at every place, as numbers.

    Raises:
        ValueError: the pattern matches nowhere.
    """
    found = [float(text.replace(",", "")) for text in re.findall(pattern, output, re.MULTILINE)]
    if not found:
        raise ValueError(f"nothing matches {pattern!r} in the output:\n{output[-500:]}")
    return found


def number(pattern: str, scale: float = 1.0) -> Reader:
    """The number in the first group of the first match."""
    return lambda output: numbers(pattern, output)[0] * scale


def farthest(pattern: str, scale: float = 1.0) -> Reader:
    """The largest magnitude of the numbers in the first group of all matches."""
    return lambda output: max(map(abs, numbers(pattern, output))) * scale


def share(pattern: str, of: str) -> Reader:
    """The quotient of two numbers."""
    return lambda output: numbers(pattern, output)[0] / numbers(of, output)[0]


def matches(pattern: str, of: str) -> Reader:
    """How many places a pattern matches, in an output in which ``of`` matches somewhere (the table was printed)."""

    def read(output: str) -> float:
        if not re.search(of, output, re.MULTILINE):
            raise ValueError(f"nothing matches {of!r} in the output:\n{output[-500:]}")
        return float(len(re.findall(pattern, output, re.MULTILINE)))

    return read


def column(output: str, head: str, title: int) -> list[str]:
    """The cells of a column of the Markdown table whose first line begins with ``head``.

    Raises:
        ValueError: no such table was printed.
    """
    lines = output.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith(head)), None)
    if begin is None:
        raise ValueError(f"no table begins with {head!r} in the output:\n{output[-500:]}")
    cells = []
    for line in lines[begin + 1 :]:
        if not line.startswith("|"):
            break
        if not line.startswith("|---"):
            cells.append(line.split("|")[title].strip())
    return cells


def in_column(head: str, title: int, choose: Callable[[list[float]], float] = max) -> Reader:
    """What is chosen of the magnitudes of a column's first numbers: the largest, unless told; empty cells count not."""

    def read(output: str) -> float:
        found = (re.search(r"-?\d[\d,]*(?:\.\d+)?", cell) for cell in column(output, head, title))
        values = [abs(float(one[0].replace(",", ""))) for one in found if one]
        if not values:
            raise ValueError(f"column {title} of the table {head!r} has no number")
        return choose(values)

    return read


def cells_where(head: str, title: int, keep: Callable[[str], bool]) -> Reader:
    """In how many rows a cell of a column is as asked for."""
    return lambda output: float(sum(keep(cell) for cell in column(output, head, title)))


def document(output: str) -> Any:
    """The JSON document that the last line of an output begins or ends.

    Raises:
        ValueError: there is none.
    """
    lines = output.strip().splitlines()
    begins = [number for number, line in enumerate(lines) if line[:1] in ("{", "[")]
    for begin in begins:
        try:
            return json.loads("\n".join(lines[begin:]))
        except json.JSONDecodeError:
            continue
    raise ValueError(f"no JSON in the output:\n{output[-500:]}")


def at(*path: str | int, scale: float = 1.0) -> Reader:
    """The number at a path of a JSON document."""

    def read(output: str) -> float:
        value = document(output)
        for step in path:
            value = value[step]
        return float(value) * scale

    return read


def derived(function: Callable[[Any], float]) -> Reader:
    """What a function makes of a JSON document."""
    return lambda output: float(function(document(output)))
