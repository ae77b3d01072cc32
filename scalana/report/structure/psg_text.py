"""The structure graph as a tree, for people."""

from __future__ import annotations

import os
from collections.abc import Callable

from scalana.graphs.structure.psg import PSG, Vertex, VertexKind, attributes

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


def render(psg: PSG, *, width: int = 0, color: bool = False, root: str | os.PathLike[str] = "") -> str:
    """The graph contracted to what matters for communication and loops, as :func:`render_psg` shows it."""
    from scalana.graphs.structure.contraction import contract

    small = contract(psg).psg
    text = render_psg(small, width=width, color=color, root=root)
    return f"{text}(contracted from {len(psg)} vertices)\n" if len(small) < len(psg) else text


def render_psg(
    psg: PSG,
    *,
    width: int = 0,
    color: bool = False,
    root: str | os.PathLike[str] = "",
    more_of: Callable[[int], str] | None = None,
) -> str:
    """The graph as an indented tree, one vertex a line, with the lines of its source.

    Args:
        psg: the graph, contracted or not.
        width: columns to which lines are cut; 0 for none.
        color: whether to use the terminal's colours.
        root: folder to which the names of files are relative; by default the working directory.
        more_of: more to say of a vertex, by its index, at the end of its line.
    """
    folder = os.path.abspath(root or os.getcwd())
    lines: list[str] = []
    stack: list[tuple[int, str, str, str]] = [(child, "", "", "") for child in reversed(psg[0].children)]
    while stack:
        index, lead, below, file = stack.pop()
        vertex = psg[index]
        text = lead + _describe(psg, vertex, file, folder)
        more = more_of(index) if more_of is not None else ""
        text += f"  {more}" if more else ""
        text = text if not width or len(text) <= width else text[: max(width - 3, 8)] + "..."
        if color and vertex.kind in _COLORS:
            head = lead + vertex.kind.value
            text = f"{lead}{_COLORS[vertex.kind]}{vertex.kind.value}{_RESET}{text[len(head) :]}"
        lines.append(text)
        children = vertex.children
        for position in range(len(children) - 1, -1, -1):
            is_last = position == len(children) - 1
            branch, rest = ("`- ", "   ") if is_last else ("|- ", "|  ")
            inside = vertex.place.file or file
            stack.append((children[position], below + branch, below + rest, inside))
    lines.append("")
    lines.append(_summary(psg))
    return "\n".join(lines) + "\n"


def _describe(psg: PSG, vertex: Vertex, file: str, folder: str) -> str:
    place = vertex.place
    operation = attributes(vertex)["operation"]
    word = operation if vertex.kind is VertexKind.COMM else ""
    span = "" if place.line <= 0 else str(place.line)
    if place.end_line > place.line:
        span += f"-{place.end_line}"
    where = f"{_relative(place.file, folder)}:{span}" if place.file != file else f":{span}"
    head = f"{vertex.kind.value} {word}".rstrip()
    parts = [head, place.name if vertex.kind is not VertexKind.COMP else "", where]
    if vertex.site is not None:
        parts.append(f"(called in line {vertex.site.line})")
    if vertex.recursion >= 0:
        parts.append(f"(back to {psg[vertex.recursion].place.name})")
    return "  ".join(part for part in parts if part)


def _relative(file: str, folder: str) -> str:
    """A file relative to the folder, or, of an installed package, to where packages are installed."""
    installed = file.rpartition(f"{os.sep}site-packages{os.sep}")[2]
    if installed != file:
        return installed
    return os.path.relpath(file, folder) if file.startswith(folder.rstrip(os.sep) + os.sep) else file


def _summary(psg: PSG) -> str:
    counts: dict[str, int] = {}
    for vertex in psg.vertices[1:]:
        counts[vertex.kind.value] = counts.get(vertex.kind.value, 0) + 1
    parts = [f"{counts[kind.value]} {kind.value}" for kind in VertexKind if kind.value in counts]
    return f"{len(psg)} vertices: " + ", ".join(parts)
