"""Calls of a model's modules as they were timed, and the tree that the names of modules make.

``runtime/torch/modules.py`` writes them, on some steps, the same on all ranks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.hashing import number_columns
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.span_columns import Spans

DIRECTIONS = ("forward", "backward", "recompute")
"""``recompute``: a forward inside of a backward, of a checkpoint."""

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a model; what wraps another one has its name too."""

    root: str
    """Class of the model."""
    name: str
    """Qualified name in it, "" for the model itself."""
    kind: str
    """Its class."""
    parent: int
    """The module around it, -1 for none."""

    @property
    def position(self) -> str:
        """Its place in the model, the same for all in a list: ``layers.*.mlp``; the class of the model for that."""
        return position_of(self.name) or self.root


def position_of(name: str) -> str:
    """The place of a module in its model, by its qualified name."""
    return _NUMBER.sub("*", name)


@dataclass(frozen=True, slots=True)
class ModuleCalls:
    """Timed calls of modules, each way of each; columns are ``[calls]``."""

    modules: list[Module]
    """In the order in which they were first called: parents before what is inside of them."""
    row: IntArray
    """In the spans of the run."""
    module: IntArray
    direction: IntArray
    """Place in :data:`DIRECTIONS`."""
    rank: IntArray
    step: IntArray
    elements: IntArray
    """Of its first argument, -1 where that is no tensor."""

    def __len__(self) -> int:
        return len(self.row)


def module_calls(spans: Spans) -> ModuleCalls:
    """The timed calls of the modules of a run; none where modules were not timed."""
    rows, direction = _directed(spans, spans.rows("module"))
    root, kind = spans.texts("root")[rows], spans.texts("class")[rows]
    name = spans.table.name[rows].astype(np.int64)
    start = spans.table.start_ns[rows].astype(np.int64)
    number, first = number_columns(root, name, kind)
    begins = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(begins, number, start)
    order = np.argsort(begins, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    names = spans.names
    modules = _tree([(names[root[row]], names[name[row]], names[kind[row]]) for row in first[order].tolist()])
    step = spans.table.step[rows].astype(np.int64)
    elements = spans.integers("elements")[rows]
    return ModuleCalls(modules, rows, place[number], direction, spans.rank[rows], step, elements)


def device_calls(spans: Spans, modules: list[Module]) -> ModuleCalls:
    """What calls of modules left to do on devices, each from the mark before it to the mark after it; numbers are those
    of ``modules``, and what is none of these is left out."""
    rows = spans.rows("device")
    kind = spans.texts("kind")[rows]
    rows, direction = _directed(spans, rows[(kind >= 0) & (kind == spans.number("module"))])
    text = {name: number for number, name in enumerate(spans.names)}
    known = {
        tuple(text.get(told, -1) for told in (one.root, one.name, one.kind)): number
        for number, one in enumerate(modules)
    }
    root, kind = spans.texts("root")[rows], spans.texts("class")[rows]
    name = spans.table.name[rows].astype(np.int64)
    which, first = number_columns(root, name, kind)
    numbers = [known.get((int(root[row]), int(name[row]), int(kind[row])), -1) for row in first.tolist()]
    module = np.array(numbers, np.int64)[which] if len(rows) else which
    kept = module >= 0
    rows, direction, module = rows[kept], direction[kept], module[kept]
    step = spans.table.step[rows].astype(np.int64)
    return ModuleCalls(modules, rows, module, direction, spans.rank[rows], step, np.full(len(rows), -1, np.int64))


def _directed(spans: Spans, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Those of some spans that say in which direction a module is gone through, and in which."""
    told = spans.texts("direction")[rows]
    direction = np.full(len(rows), -1, np.int64)
    for code, word in enumerate(DIRECTIONS):
        direction[(told >= 0) & (told == spans.number(word))] = code
    return rows[direction >= 0], direction[direction >= 0]


def _tree(called: list[tuple[str, str, str]]) -> list[Module]:
    """Modules by root, name and class, outer ones first, with their parents."""
    found: list[Module] = []
    last: dict[tuple[str, str], int] = {}
    for root, name, kind in called:
        parent = last.get((root, name), -1)
        above = name
        while parent < 0 and above:
            above = above.rpartition(".")[0]
            parent = last.get((root, above), -1)
        last[root, name] = len(found)
        found.append(Module(root, name, kind, parent))
    return found
