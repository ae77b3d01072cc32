"""The structure of functions whose source is gone, from debug information.

Functions, what was inlined into them and the calls that the compiler noted (it does so when it optimises), by line.
There are no loops and branches in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scalana.frontend.cpp.binary.dies import (
    attribute,
    chain_of,
    declared,
    is_foreign,
    qualified,
    ranges,
    subprograms,
    text,
)
from scalana.frontend.cpp.binary.elf import Binary, CompileUnit
from scalana.frontend.cpp.names import plain_name
from scalana.frontend.cpp.unit import CallSite, FunctionRecord, Unit
from scalana.graphs.structure.psg import Place, VertexKind
from scalana.graphs.structure.source_tree import Node
from scalana.runtime.operations import MpiCall, mpi_call, mpi_call_of_fortran

_CALLS = frozenset({"DW_TAG_call_site", "DW_TAG_GNU_call_site"})


@dataclass(slots=True)
class _Function:
    """A function, as far as it is known."""

    id: str
    name: str
    file: str
    line: int
    column: int
    end_line: int
    external: bool
    foreign: bool
    """Whether it is declared in a header of the system or of MPI."""
    defined: bool = False
    """Whether the program has code of it."""
    calls: dict[tuple[int, int, str], CallSite] = field(default_factory=dict)


def skeleton(binary: Binary, sources: Iterable[str]) -> list[Unit]:
    """Translation units of a program, those with these sources."""
    wanted = set(sources)
    return [_Walk(unit, binary).read() for unit in binary.units if unit.file in wanted]


class _Walk:
    def __init__(self, unit: CompileUnit, binary: Binary) -> None:
        self.unit = unit
        self.binary = binary
        self.dwarf = binary.dwarf
        self.starts = [row[0] for row in unit.addresses]
        self.functions: dict[str, _Function] = {}

    def read(self) -> Unit:
        for die in subprograms(self.unit.tree.get_top_DIE()):
            function = self._function(die) if ranges(die, self.dwarf) else None
            if function is not None:
                self._inside(die, function)
        unit = Unit(self.unit.file)
        for function in self.functions.values():
            if function.foreign or not function.defined:
                continue
            place = Place(
                function.file, function.line, max(function.end_line, function.line), function.column, function.name
            )
            nodes = [Node(VertexKind.COMP, Place(place.file, place.line, place.end_line, -1, function.name))]
            for (line, column, _), site in sorted(function.calls.items(), key=lambda item: item[0]):
                row = self._mpi(site.name)
                where = Place(function.file, line, line, column, site.name)
                nodes.append(Node(VertexKind.CALL, where, operation=row.operation if row else 0, call=site))
            unit.functions.append(FunctionRecord(function.id, place, "", nodes, exported=function.external))
        return unit

    def _function(self, die: Any, defined: bool = True) -> _Function | None:
        """The function of a DIE, with lines from its code."""
        chain = chain_of(die)
        identity = self._identity(chain)
        if not identity:
            return None
        made = self.functions.get(identity)
        if made is None:
            where, line, column = declared(chain)
            file = self.binary.file(*where) or self.unit.file
            external = any("DW_AT_external" in part.attributes for part in chain)
            name = plain_name(qualified(chain))
            foreign = is_foreign(file) or line == 0  # in no file: the compiler's own
            made = _Function(identity, name, file, line, column, line, external, foreign)
            self.functions[identity] = made
        made.defined = made.defined or defined
        for low, high in ranges(die, self.dwarf) if defined else ():
            first, last = bisect_right(self.starts, low) - 1, bisect_right(self.starts, high - 1)
            for _, row_file, row_line, _ in self.unit.addresses[max(first, 0) : last]:
                if row_file == made.file and row_line > made.end_line:
                    made.end_line = row_line
        return made

    def _inside(self, die: Any, function: _Function, through: tuple[int, int] | None = None) -> None:
        """What stands in a function; what it has of the system's is looked through: what that calls is called where
        the system's is (``through``: line and column)."""
        for child in die.iter_children():
            if child.tag == "DW_TAG_inlined_subroutine":
                called = self._function(child)
                if called is None:
                    continue
                at = through or (attribute([child], "DW_AT_call_line"), attribute([child], "DW_AT_call_column") - 1)
                if called.foreign:
                    self._inside(child, function, at)
                else:
                    self._call(function, *at, called)
                    self._inside(child, called)
            elif child.tag in _CALLS:
                self._call_site(child, function, through)
            elif child.tag == "DW_TAG_lexical_block":
                self._inside(child, function, through)

    def _call_site(self, die: Any, function: _Function, through: tuple[int, int] | None) -> None:
        origin = "DW_AT_call_origin" if "DW_AT_call_origin" in die.attributes else "DW_AT_abstract_origin"
        if origin not in die.attributes:
            return
        called = self._function(die.get_DIE_from_attribute(origin), defined=False)
        address = attribute([die], "DW_AT_call_return_pc") or attribute([die], "DW_AT_low_pc")
        row = bisect_right(self.starts, address - 1) - 1
        if called is None or row < 0:
            return
        _, file, line, _ = self.unit.addresses[row]
        if through is not None:
            self._call(function, *through, called)
        elif file == function.file:
            self._call(function, line, -1, called)

    def _call(self, function: _Function, line: int, column: int, called: _Function) -> None:
        function.end_line = max(function.end_line, line)
        if not called.foreign or self._mpi(called.name) is not None:
            site = CallSite("direct", called.id, called.name, called.foreign)
            function.calls.setdefault((line, column, called.id), site)

    def _mpi(self, name: str) -> MpiCall | None:
        return mpi_call_of_fortran(name) if self.unit.fortran else mpi_call(name)

    def _identity(self, chain: list[Any]) -> str:
        for part in chain:
            for key in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
                if key in part.attributes:
                    return text(part, key)
        name = next((text(part, "DW_AT_name") for part in chain if "DW_AT_name" in part.attributes), "")
        if not name:
            return ""
        external = any("DW_AT_external" in part.attributes for part in chain)
        main = "c:@F@main#" if self.unit.cpp and name == "main" else f"c:@F@{name}"
        return main if external else f"{self.unit.file}@{name}@{attribute(chain, 'DW_AT_decl_line')}"
