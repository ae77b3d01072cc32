"""The static graph for people and for programs: ``scalana psg``."""

from __future__ import annotations

import os
from typing import Any

from scalana.graphs.psg import PSG, Vertex, VertexKind, attributes

_COLORS = {
    VertexKind.COMM: "\x1b[1;31m",
    VertexKind.FUNCTION: "\x1b[1m",
    VertexKind.LOOP: "\x1b[36m",
    VertexKind.BRANCH: "\x1b[33m",
    VertexKind.CALL: "\x1b[35m",
    VertexKind.REGION: "\x1b[32m",
    VertexKind.COMP: "\x1b[2m",
}
_RESET = "\x1b[0m"


def render_psg(psg: PSG, *, color: bool = False, root: str | os.PathLike[str] = "") -> str:
    """The graph as an indented tree, one vertex a line, with the lines of its source.

    Args:
        psg: the graph, contracted or not.
        color: whether to use the terminal's colours.
        root: folder to which the names of files are relative; by default the working directory.
    """
    folder = os.path.abspath(root or os.getcwd())
    lines: list[str] = []
    stack: list[tuple[int, str, str, str]] = [(child, "", "", "") for child in reversed(psg[0].children)]
    while stack:
        index, lead, below, file = stack.pop()
        vertex = psg[index]
        lines.append(lead + _describe(psg, vertex, file, folder, color))
        children = vertex.children
        for position in range(len(children) - 1, -1, -1):
            is_last = position == len(children) - 1
            branch, rest = ("`- ", "   ") if is_last else ("|- ", "|  ")
            inside = vertex.place.file or file
            stack.append((children[position], below + branch, below + rest, inside))
    lines.append("")
    lines.append(_summary(psg))
    lines.extend(f"warning: {warning}" for warning in psg.warnings)
    return "\n".join(lines) + "\n"


def psg_json(psg: PSG) -> dict[str, Any]:
    """The graph as plain values: ``vertices`` (each with its index, parent and place), ``edges`` and ``warnings``.

    Edges of control and order follow from the vertices; only those of data and recursion are listed.
    """
    return {
        "schema": "scalana.psg/1",
        "vertices": [
            {
                "vertex": vertex.index,
                "parent": vertex.parent,
                **attributes(vertex),
                **({"call_line": vertex.site.line} if vertex.site is not None else {}),
            }
            for vertex in psg.vertices
        ],
        "edges": [
            {"from": source, "to": target, "type": kind}
            for source, target, kind in psg.edges()
            if kind in ("data", "recursion")
        ],
        "warnings": list(psg.warnings),
    }


def _describe(psg: PSG, vertex: Vertex, file: str, folder: str, color: bool) -> str:
    place = vertex.place
    operation = attributes(vertex)["operation"]
    word = operation if vertex.kind is VertexKind.COMM else ""
    span = "" if place.line <= 0 else str(place.line)
    if place.end_line > place.line:
        span += f"-{place.end_line}"
    where = f"{_relative(place.file, folder)}:{span}" if place.file != file else f":{span}"
    head = f"{vertex.kind.value} {word}".rstrip()
    if color and vertex.kind in _COLORS:
        head = f"{_COLORS[vertex.kind]}{head}{_RESET}"
    parts = [head, place.name if vertex.kind is not VertexKind.COMP else "", where]
    if vertex.site is not None:
        parts.append(f"(called in line {vertex.site.line})")
    if vertex.recursion >= 0:
        parts.append(f"(back to {psg[vertex.recursion].place.name})")
    return "  ".join(part for part in parts if part)


def _relative(file: str, folder: str) -> str:
    return os.path.relpath(file, folder) if file.startswith(folder.rstrip(os.sep) + os.sep) else file


def _summary(psg: PSG) -> str:
    counts: dict[str, int] = {}
    for vertex in psg.vertices[1:]:
        counts[vertex.kind.value] = counts.get(vertex.kind.value, 0) + 1
    parts = [f"{counts[kind.value]} {kind.value}" for kind in VertexKind if kind.value in counts]
    return f"{len(psg)} vertices: " + ", ".join(parts)
