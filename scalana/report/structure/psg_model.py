"""The graph of a model, as a tree for people and as JSON for programs."""

from __future__ import annotations

from typing import Any

from scalana.frontend.models.build import ModelGraph
from scalana.report import names
from scalana.report.structure import psg_json, psg_text

WAYS = {
    "export": "captured by torch.export",
    "fx": "captured by symbolic tracing (torch.fx)",
    "modules": "not captured as a whole: its modules, one by one",
}
"""By :attr:`ModelGraph.way`."""


def as_text(graph: ModelGraph, *, width: int = 0, color: bool = False) -> str:
    """The tree, with FLOPs and parameters of modules, and shapes, FLOPs and bytes of operators."""
    tree = psg_text.render_psg(graph.psg, width=width, color=color, more_of=lambda vertex: _more_of(graph, vertex))
    operators, placed = _operators(graph)
    numbers = [f"{operators} operators, {placed} with a line", _counted(graph.parameters[0], "parameters")]
    flops = _flops(graph, 0)
    numbers.append(f"{flops} in a forward pass" if graph.flops[0] > 0 else flops)
    return f"{tree}{WAYS[graph.way]}: {'; '.join(filter(None, numbers))}\n"


def as_json(graph: ModelGraph, cwd: str = "") -> str:
    """:func:`document` as text; files below ``cwd`` are relative to it."""
    return psg_json.as_text(document(graph, cwd))


def document(graph: ModelGraph, cwd: str = "") -> dict[str, Any]:
    """The document of any graph (:func:`.psg_json.document`), with more.

    Each vertex has ``class``, ``called`` (``[file, line]`` of the call of a module, or null), ``shape``, ``dtype``,
    ``flops`` and ``bytes`` (null where unknown), ``uncounted`` and ``parameters``. ``model`` says how it was captured.
    """
    whole = psg_json.document(graph.psg, cwd)
    for vertex, values in zip(graph.psg.vertices, whole["vertices"], strict=True):
        index = vertex.index
        shape = graph.shapes[index]
        site = vertex.site
        values.update(
            {
                "class": graph.classes[index],
                "called": None if site is None else [names.relative(site.file, cwd), site.line],
                "shape": None if shape is None else list(shape),
                "dtype": graph.dtypes[index],
                "flops": _known(graph.flops[index]),
                "bytes": _known(graph.bytes[index]),
                "uncounted": int(graph.uncounted[index]),
                "parameters": int(graph.parameters[index]),
            }
        )
    operators, placed = _operators(graph)
    whole["model"] = {"captured_by": graph.way, "operators": operators, "operators_with_line": placed}
    return whole


def _known(number: Any) -> int | None:
    return int(number) if number >= 0 else None


def _operators(graph: ModelGraph) -> tuple[int, int]:
    """How many operators there are, and how many of them have a line."""
    own = [vertex for vertex in graph.psg.vertices if vertex.kind.value == "op" and not vertex.children]
    return len(own), sum(vertex.place.line > 0 for vertex in own)


def _more_of(graph: ModelGraph, vertex: int) -> str:
    if graph.psg[vertex].kind.value == "op":
        shape = graph.shapes[vertex]
        size = "" if shape is None else f"{graph.dtypes[vertex]}[{', '.join(map(str, shape))}]"
        parts = [size, _flops(graph, vertex) if graph.flops[vertex] else "", _counted(graph.bytes[vertex], "B")]
    else:
        name = graph.classes[vertex].rpartition(".")[2]
        shown = name if name != graph.psg[vertex].place.name else ""
        parts = [shown, _flops(graph, vertex), _counted(graph.parameters[vertex], "parameters")]
    return "  ".join(part for part in parts if part)


def _flops(graph: ModelGraph, vertex: int) -> str:
    """FLOPs; "at least" where some operators inside could not be counted."""
    count, missing = graph.flops[vertex], graph.uncounted[vertex]
    if count <= 0:
        return "FLOPs unknown" if missing else ""
    return f"{'at least ' if missing else ''}{_counted(count, 'FLOP')}"


def _counted(count: Any, unit: str) -> str:
    """``1.25 MFLOP``, ``3.1 M parameters``, ``512 B``; nothing for none."""
    number, scale = float(count), ""
    if number <= 0:
        return ""
    for larger in ("k", "M", "G", "T", "P"):
        if number < 1000:
            break
        number, scale = number / 1000, larger
    space = " " if scale and len(unit) > 4 else ""
    return f"{number:.3g} {scale}{space}{unit}" if number < 999.5 else f"{number:.0f} {scale}{space}{unit}"
