"""The structure graph as JSON, for programs."""

from __future__ import annotations

import json
from typing import Any

from scalana.graphs.structure.psg import PSG
from scalana.report import names

SCHEMA = "scalana.psg/1"


def render(psg: PSG, cwd: str = "") -> str:
    """:func:`document` as text; files below ``cwd`` are relative to it."""
    return as_text(document(psg, cwd))


def as_text(whole: dict[str, Any]) -> str:
    """A document as text."""
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def document(psg: PSG, cwd: str = "") -> dict[str, Any]:
    """The graph as plain data.

    A vertex has ``index``, ``parent`` (-1 for the root), ``kind``, ``file``, ``line``, ``end_line``, ``column``,
    ``name`` and ``operation`` ("" for anything but communication). ``edges`` are ``[from, to, type]`` with type
    ``data`` or ``recursion``.
    """
    from scalana.graphs.structure.psg import attributes

    vertices = []
    for vertex in psg.vertices:
        values = attributes(vertex)
        values["file"] = names.relative(values["file"], cwd)
        vertices.append({"index": vertex.index, "parent": vertex.parent, **values})
    return {
        "schema": SCHEMA,
        "vertices": vertices,
        "edges": [list(edge) for edge in psg.edges() if edge[2] in ("data", "recursion")],
        "warnings": list(psg.warnings),
    }
