"""The functions that the header of an MPI declares."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Prototype:
    """A function as a header declares it."""

    name: str
    types: tuple[str, ...]
    """``const int %s[]``: with a place for the name."""

    def parameters(self) -> str:
        return ", ".join(text % f"a{number}" for number, text in enumerate(self.types)) or "void"


_DECLARATION = re.compile(r"\bint\s+P(MPI_\w+)\s*\(([^;{]*?)\)\s*(?:__attribute__[^;]*)?;", re.S)


def prototypes(header: str) -> dict[str, Prototype]:
    """The functions that a preprocessed header declares."""
    found = {}
    for match in _DECLARATION.finditer(re.sub(r"__attribute__\s*\(\(.*?\)\)\s*(?=[;,])", "", header)):
        text = " ".join(match.group(2).split())
        words = [] if text in ("", "void") else [word.strip() for word in text.split(",")]
        found[match.group(1)] = Prototype(match.group(1), tuple(_with_place(word) for word in words))
    return found


def _with_place(declaration: str) -> str:
    """``const void *buf`` to ``const void *%s``."""
    match = re.fullmatch(r"(.*?[\s*])?(\w+)((?:\[[^]]*\])*)", declaration)
    if match is None or not match.group(1):
        return declaration + " %s"
    return f"{match.group(1)}%s{match.group(3)}"
