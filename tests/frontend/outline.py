"""Programs in a few lines, and their structure as an indented outline: what the tests of this folder compare."""

from __future__ import annotations

import textwrap
from pathlib import Path

from scalana.frontend.build import build_psg
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.runtime.operations import BY_CODE


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files with dedented content below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content))


def program(folder: Path, main: str, **files: str) -> PSG:
    """The graph of ``main.py``, with other files (by name without ``.py``) beside it; only what is called is in it."""
    write(folder, {"main.py": main, **{name + ".py": text for name, text in files.items()}})
    return build_psg([folder / "main.py"], uncalled=False)


def outline(psg: PSG, start: int | None = None, *, stretches: bool = False) -> str:
    """Vertices below a module's vertex, one a line: kind, operation or name; stretches of code with their lines."""
    lines: list[str] = []

    def show(index: int, depth: int) -> None:
        for child in psg[index].children:
            vertex = psg[child]
            if vertex.kind is VertexKind.COMP and not stretches:
                show(child, depth)
                continue
            name = vertex.place.name
            if vertex.kind is VertexKind.COMM:
                name = BY_CODE[vertex.operation].name
            elif vertex.kind is VertexKind.COMP:
                name = f"{vertex.place.line}-{vertex.place.end_line}"
            if vertex.recursion >= 0:
                name += f" -> {psg[vertex.recursion].place.name}"
            lines.append(f"{'  ' * depth}{vertex.kind.value} {name}")
            show(child, depth + 1)

    show(psg[0].children[0] if start is None else start, 0)
    return "\n".join(lines)


def expect(text: str) -> str:
    """An expected outline, dedented."""
    return textwrap.dedent(text).strip("\n")
