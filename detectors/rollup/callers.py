"""The calls that lead to a place."""

from __future__ import annotations

from scalana.graphs.structure.psg import PSG, VertexKind


def callers(vertex: int, psg: PSG) -> list[str]:
    """Call sites above a vertex, innermost first, as ``file:line function``.

    Where a library calls the user's function back, the site is the line of the user's that enters the library.
    """
    result = []
    current = vertex
    while current > 0:
        function = psg.enclosing(current, VertexKind.FUNCTION)
        if function < 0:
            break
        parent = psg[function].parent
        site = psg[function].site
        if site is None and psg[parent].kind is VertexKind.CALL and psg[parent].parent > 0:  # else a thread's start
            site = psg[parent].place
        if parent > 0 and site is not None and site.line > 0:
            result.append(f"{site.file}:{site.line} {psg.function_of(parent)}")
        current = parent
    return result
