"""What processes wrote of their models beside their records: modules, and graphs that were compiled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scalana.graphs.structure.psg import Place
from scalana.runtime.record import layout

if TYPE_CHECKING:
    from scalana.graphs.readers.run_folder import RunFolder

Frame = tuple[str, int, str]
"""File, line, function."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator of a compiled graph."""

    name: str
    frames: tuple[Frame, ...]
    """From the outermost inwards."""
    modules: tuple[tuple[str, str], ...]
    """Qualified names and classes of the modules around it, from the outermost."""
    shape: tuple[int | str, ...] | None
    """Of its output; None where that is no tensor."""
    dtype: str


@dataclass(slots=True)
class RecordedModels:
    """What is known of the models of a run, each thing once, whichever process told it."""

    forwards: dict[tuple[str, str, str], Place] = field(default_factory=dict)
    """Where the ``forward`` of a module stands, by the class of its model, its qualified name and its bare class; the
    name of the place is the qualified name of the class."""
    graphs: list[tuple[Node, ...]] = field(default_factory=list)
    """Compiled graphs, in the order in which they were compiled."""

    def files(self) -> set[str]:
        """The files in which modules are defined."""
        return {place.file for place in self.forwards.values() if place.file}


def read_models(folder: RunFolder) -> RecordedModels:
    """What the processes of a run told of models; what cannot be read is left out, for it only adds to the report."""
    found = RecordedModels()
    known: dict[tuple[Node, ...], None] = {}
    for file in folder.record_files():
        try:
            with open(layout.models_file(file), encoding="utf-8") as stream:
                told = json.load(stream)
            for model in told["models"]:
                found.forwards.update(_forwards(model))
            frames = [(str(file), int(line), str(name)) for file, line, name in told["frames"]]
            known.update(dict.fromkeys(_graph(graph["nodes"], frames) for graph in told["graphs"]))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            continue
    found.graphs = list(known)
    return found


def _forwards(model: Mapping[str, Any]) -> Iterable[tuple[tuple[str, str, str], Place]]:
    for row in model["modules"]:
        key = str(model["root"]), str(row["name"]), str(row["class"]).rpartition(".")[2]
        first = int(row.get("line", 0))
        yield key, Place(str(row.get("file", "")), first, int(row.get("end_line", first)), -1, str(row["class"]))


def _graph(nodes: Iterable[Mapping[str, Any]], frames: list[Frame]) -> tuple[Node, ...]:
    return tuple(
        Node(
            str(node["op"]),
            tuple(frames[row] for row in node["frames"]),
            tuple((str(path), str(kind)) for path, kind in node["modules"]),
            None if node["shape"] is None else tuple(node["shape"]),
            str(node["dtype"]),
        )
        for node in nodes
    )
