"""What processes wrote of their models beside their records: modules, and graphs that were compiled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from scalana.graphs.readers.folder.moved_sources import Moved
from scalana.graphs.readers.folder.operators import OperatorCounts, read_operators
from scalana.graphs.structure.psg import Place
from scalana.runtime.record import layout

if TYPE_CHECKING:
    from scalana.graphs.readers.folder.run_folder import RunFolder

_LOCAL = re.compile(r"^[LG]\['\w+'\]")
"""The variable in which dynamo saw a model."""
_MADE = re.compile(r"(?:cpp|mps|triton_[a-z]+)_fused_(.*?)_?\d*")
"""Names of kernels that inductor made."""
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


@dataclass(frozen=True, slots=True)
class Source:
    """An operator that a kernel came from."""

    name: str
    """As ATen calls it, such as ``gelu_backward``; several, with spaces between them, where no more is known."""
    frames: tuple[Frame, ...]
    """From the outermost inwards, those of the forward pass; empty where unknown."""
    modules: tuple[tuple[str, str], ...]
    """Qualified names and classes of the modules around it, from the outermost."""
    work: int
    """Elements that it goes through, or multiplications of a product; 0 where unknown."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A line of a wrapper that calls a kernel. Wrappers are the Python that inductor writes for compiled graphs."""

    file: str
    line: int
    name: str
    phase: str
    """``forward``, ``backward`` or ``inference``; "" where unknown."""
    sources: tuple[Source, ...]
    by: str
    """How these are known: ``writing``, as the code was written; ``kept`` or ``text`` where it came from a cache;
    ``name`` of which nothing else is known."""

    @property
    def is_fused(self) -> bool:
        """Whether several operators are in it that do something."""
        return len({(source.name, source.frames) for source in self.does()}) > 1

    def does(self) -> list[Source]:
        """The sources without views, which do nothing."""
        return [source for source in self.sources if source.work] or list(self.sources)

    def main(self) -> Source | None:
        """The operator of the line of which the kernel does most; None where no line is known."""
        work: dict[Frame, int] = {}
        for source in self.sources:
            if source.frames:
                work[source.frames[-1]] = work.get(source.frames[-1], 0) + source.work
        if not work:
            return None
        most = max(work.values())
        best = [source for source in self.sources if source.frames and work[source.frames[-1]] == most]
        return max(best, key=lambda source: source.work)


_TRUST = ("text", "kept", "writing")
"""Ways to know what kernels are made of, the best last."""


@dataclass(slots=True)
class RecordedModels:
    """What is known of the models of a run, each thing once, whichever process told it."""

    forwards: dict[tuple[str, str, str], Place] = field(default_factory=dict)
    """Where the ``forward`` of a module stands, by the class of its model, its qualified name and its bare class; the
    name of the place is the qualified name of the class."""
    searched: set[int] = field(default_factory=set)
    """Of modules that search for parameters without a gradient in each step: how many they search."""
    graphs: list[tuple[Node, ...]] = field(default_factory=list)
    """Compiled graphs, in the order in which they were compiled."""
    operators: OperatorCounts = field(default_factory=OperatorCounts)
    """What modules ran on few steps."""
    wrappers: dict[str, tuple[Kernel, ...]] = field(default_factory=dict)
    """The lines that call kernels, by wrapper."""

    def files(self) -> set[str]:
        """The files in which modules are defined."""
        return {place.file for place in self.forwards.values() if place.file}

    def kernels(self) -> list[Kernel]:
        """The lines that call kernels, of all wrappers."""
        return [kernel for kernels in self.wrappers.values() for kernel in kernels]

    def compiled_files(self) -> set[str]:
        """The files of lines that kernels came from."""
        mains = (kernel.main() for kernel in self.kernels())
        return {file for main in mains if main is not None for file, _, _ in main.frames}


def is_made(kernel: str) -> bool:
    """Whether the name of a kernel is one that inductor gives."""
    return _MADE.fullmatch(kernel) is not None


def operators_in_name(kernel: str) -> str:
    """What the name of a kernel says of its operators: ``add_relu`` of ``triton_poi_fused_add_relu_0``; the last part
    of that of a kernel which inductor did not make."""
    found = _MADE.fullmatch(kernel)
    return found.group(1) if found else kernel.removesuffix(".default").rpartition(".")[2]


def module_path(path: str) -> str:
    """The qualified name of a module, of dynamo's word for it: ``L['self'].layers[0].mlp``."""
    plain = _LOCAL.sub("", path.partition("@")[0])
    for word in ("_modules", "['", "']", "[", "]"):
        plain = plain.replace(word, ".")
    parts = [part for part in plain.split(".") if part and part != "_orig_mod"]
    return ".".join(parts)


def read_models(folder: RunFolder, ranks: Mapping[int, str | os.PathLike[str]]) -> RecordedModels:
    """What the processes of a run told of models; what cannot be read is left out, for it only adds to the report.

    ``ranks`` are the files of the records of ranks.
    """
    found = RecordedModels(operators=read_operators(ranks))
    known: dict[tuple[Node, ...], None] = {}
    for file in folder.record_files():
        try:
            with open(layout.models_file(file), encoding="utf-8") as stream:
                told = json.load(stream)
            for model in told["models"]:
                found.forwards.update(_forwards(model, folder.moved))
                found.searched.update(int(row["searched"]) for row in model["modules"] if "searched" in row)
            frames = [(folder.moved.path(str(file)), int(line), str(name)) for file, line, name in told["frames"]]
            known.update(dict.fromkeys(_graph(graph["nodes"], frames) for graph in told["graphs"]))
            found.wrappers.update(_wrappers(told, frames, found.wrappers))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            continue
    found.graphs = list(known)
    return found


def _forwards(model: Mapping[str, Any], moved: Moved) -> Iterable[tuple[tuple[str, str, str], Place]]:
    for row in model["modules"]:
        key = str(model["root"]), str(row["name"]), str(row["class"]).rpartition(".")[2]
        file, first = moved.path(str(row.get("file", ""))), int(row.get("line", 0))
        yield key, Place(file, first, int(row.get("end_line", first)), -1, str(row["class"]))


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


def _wrappers(
    told: Mapping[str, Any], frames: list[Frame], known: Mapping[str, tuple[Kernel, ...]]
) -> dict[str, tuple[Kernel, ...]]:
    """What a process told of wrappers that is not ``known`` as well; most ranks tell the same."""
    new = [wrapper for wrapper in told.get("wrappers", ()) if _is_news(wrapper, known)]
    if not new:
        return {}
    rows = [
        Source(
            str(source["op"]),
            tuple(frames[row] for row in source["frames"]),
            tuple((str(path), str(kind)) for path, kind in source["modules"]),
            0,
        )
        for source in told.get("sources", ())
    ]
    return {str(wrapper["file"]): tuple(_kernel(wrapper, call, rows) for call in wrapper["calls"]) for wrapper in new}


def _is_news(wrapper: Mapping[str, Any], known: Mapping[str, tuple[Kernel, ...]]) -> bool:
    if not wrapper["calls"] or wrapper["by"] not in _TRUST:
        return False
    before = known.get(str(wrapper["file"]))
    return before is None or _TRUST.index(before[0].by) < _TRUST.index(wrapper["by"])


def _kernel(wrapper: Mapping[str, Any], call: Mapping[str, Any], rows: list[Source]) -> Kernel:
    name = str(call["kernel"])
    sources = (replace(rows[row], work=int(work)) for row, work in call["sources"])
    return Kernel(
        str(wrapper["file"]),
        int(call["line"]),
        name,
        str(wrapper["phase"]),
        tuple(source if source.name else replace(source, name=operators_in_name(name)) for source in sources),
        str(wrapper["by"]),
    )
