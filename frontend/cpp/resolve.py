"""Translation units to a program: what call sites lead to, over all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from scalana.frontend.cpp.unit import CallSite, FunctionRecord, Unit
from scalana.graphs.structure.psg import Place, VertexKind
from scalana.graphs.structure.source_tree import (
    NOTHING,
    UNKNOWN,
    Decision,
    FileStructure,
    FunctionStructure,
    Node,
    Target,
)
from scalana.runtime.operations import mpi_call

WIDTH = 8
"""Most functions that one call is followed to."""
STATIC = "<static initialization>"
"""Name of what runs before ``main``."""


@dataclass(frozen=True, slots=True)
class Source:
    """What :attr:`FunctionStructure.source` is here."""

    unit: int
    """Number of the translation unit in which its calls are resolved."""
    record: FunctionRecord | None
    """None for what stands outside any function."""


class Program:
    """Joins translation units, and decides about call sites."""

    def __init__(self) -> None:
        self.files: dict[str, FileStructure] = {}
        """By absolute path, headers included."""
        self.mains: list[FunctionStructure] = []
        self._local: list[dict[str, FunctionStructure]] = []
        self._exported: dict[str, list[FunctionStructure]] = {}
        self._places: dict[tuple[str, str, int, int], FunctionStructure] = {}
        self._instances: set[tuple[str, int, int]] = set()
        self._overriders: dict[str, dict[str, None]] = {}
        self._taken: dict[str, dict[tuple[int, str], None]] = {}
        self._capturing: set[tuple[int, str]] = set()
        self._held: dict[str, set[str]] = {}

    def add(self, unit: Unit) -> None:
        """Add a translation unit. A function that another one has shown already, in a header, is the same function."""
        number = len(self._local)
        local: dict[str, FunctionStructure] = {}
        self._local.append(local)
        for record in unit.functions:
            local[record.id] = self._function(number, record)
            for base in record.overrides:
                self._overriders.setdefault(base, {})[record.id] = None
        for identity, kind in unit.taken.items():
            self._taken.setdefault(kind, {})[number, identity] = None
        self._capturing.update((number, identity) for identity in unit.capturing)
        for variable, names in unit.held.items():
            self._held.setdefault(variable, set()).update(names)
        if unit.outside:
            self._outside(number, unit)

    def _function(self, number: int, record: FunctionRecord) -> FunctionStructure:
        place = record.place
        key = (record.id, place.file, place.line, place.column)
        known = self._places.get(key)
        if known is not None:
            return known
        function = FunctionStructure(place, lambda: record.nodes, source=Source(number, record))
        self._places[key] = function
        self.file(place.file).functions.append(function)
        if not record.pattern:
            self._instances.add((place.file, place.line, place.column))
        if record.exported:
            self._exported.setdefault(record.id, []).append(function)
        if place.name == "main" and not record.pattern:
            self.mains.append(function)
        return function

    def _outside(self, number: int, unit: Unit) -> None:
        first, last = unit.outside[0].place, unit.outside[-1].place
        place = Place(unit.file, first.line, max(last.end_line, first.line), first.column, STATIC, last.end_column)
        nodes = unit.outside
        self.file(unit.file).module = FunctionStructure(place, lambda: nodes, source=Source(number, None))

    def file(self, path: str) -> FileStructure:
        """The structure of a file, made where it is new."""
        found = self.files.get(path)
        if found is None:
            nothing: list[Node] = []
            module = FunctionStructure(Place(path, 1, 1, 0, STATIC), lambda: nothing, source=Source(-1, None))
            found = self.files[path] = FileStructure(path, module, [])
        return found

    def finish(self) -> None:
        """Order the functions of each file: by line, and instantiations before their templates."""
        for file in self.files.values():
            file.functions.sort(key=lambda function: (function.place.line, self.is_pattern(function)))

    def parse(self, path: str) -> FileStructure | None:
        """The structure of a file by its absolute path, None if it belongs to no translation unit."""
        return self.files.get(path)

    def is_pattern(self, function: FunctionStructure) -> bool:
        """Whether a function is a template."""
        source = function.source
        return isinstance(source, Source) and source.record is not None and source.record.pattern

    def is_superseded(self, function: FunctionStructure) -> bool:
        """Whether a function is a template of which there are instantiations."""
        place = function.place
        return self.is_pattern(function) and (place.file, place.line, place.column) in self._instances

    def lookup(self, unit: int, identity: str) -> list[FunctionStructure]:
        """The functions that an id may mean in a translation unit: its own, or else those that others export."""
        if 0 <= unit < len(self._local):
            own = self._local[unit].get(identity)
            if own is not None:
                return [own]
        return self._exported.get(identity, [])

    # the question that is asked

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision | None:
        """What a call site in a function is; None if it is in no C or C++."""
        site, source = node.call, function.source
        if not isinstance(site, CallSite) or not isinstance(source, Source):
            return None
        if site.kind == "direct":
            return self._direct(source.unit, site, node)
        if site.kind == "virtual":
            found = self._implementations(source.unit, site.callee)
            if len(found) == 1:
                return Decision(VertexKind.FUNCTION, targets=_targets(found))
            return Decision(VertexKind.CALL, targets=_targets(found))
        if site.kind == "pointer":
            operation = self._held_operation(site.variable)
            if operation:
                return Decision(VertexKind.COMM, operation)
            pointed = [
                f
                for unit, identity in self._taken.get(site.callee, ())
                if site.system or (unit, identity) not in self._capturing  # a std::function holds these too
                for f in self.lookup(unit, identity)
            ]
            return Decision(VertexKind.CALL, targets=_targets(pointed))
        return Decision(VertexKind.COMM, node.operation) if node.operation else UNKNOWN

    def _direct(self, unit: int, site: CallSite, node: Node) -> Decision:
        found = self.lookup(unit, site.callee)
        if len(found) == 1:
            return Decision(VertexKind.FUNCTION, targets=_targets(found))
        if found:  # of several programs; samples tell
            return Decision(VertexKind.CALL, targets=_targets(found))
        if node.operation:
            return Decision(VertexKind.COMM, node.operation)
        given = [function for identity in site.given for function in self.lookup(unit, identity)]
        if given:
            return Decision(VertexKind.FUNCTION, targets=_targets(given))
        # What nobody defines may still lead back to the user's code, unless it is the system's or MPI's.
        return NOTHING if site.system else UNKNOWN

    def _held_operation(self, variable: str) -> int:
        """The operation of all that a variable is given anywhere, 0 where there are several, or others than MPI's."""
        rows = [mpi_call(name) for name in self._held.get(variable, ())]
        operations = {row.operation if row is not None else 0 for row in rows}
        return operations.pop() if len(operations) == 1 else 0

    def _implementations(self, unit: int, method: str) -> list[FunctionStructure]:
        """A virtual function and everything that overrides it."""
        found: dict[FunctionStructure, None] = {}
        stack, seen = [method], {method}
        while stack:
            identity = stack.pop()
            found.update(dict.fromkeys(self.lookup(unit, identity)))
            for overrider in self._overriders.get(identity, ()):
                if overrider not in seen:
                    seen.add(overrider)
                    stack.append(overrider)
                    found.update((local[overrider], None) for local in self._local if overrider in local)
        return sorted(found, key=lambda function: (function.place.file, function.place.line, function.place.column))


def _targets(functions: Iterable[FunctionStructure]) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(Target(function) for function in functions))[:WIDTH]
