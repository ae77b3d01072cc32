"""The structure of functions whose source is gone, from debug information.

Functions, what was inlined into them and the calls that the compiler noted (it does so when it optimises), by line.
There are no loops and branches in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scalana.frontend.cpp.elf import Binary, CompileUnit
from scalana.frontend.cpp.names import plain_name
from scalana.frontend.cpp.unit import CallSite, FunctionRecord, Unit
from scalana.graphs.psg import Place, VertexKind
from scalana.graphs.structure import Node
from scalana.runtime.operations import mpi_call

_SCOPES = frozenset({"DW_TAG_namespace", "DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type"})
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
    return [_Walk(unit).read() for unit in binary.units if unit.file in wanted]


class _Walk:
    def __init__(self, unit: CompileUnit) -> None:
        self.unit = unit
        self.starts = [row[0] for row in unit.addresses]
        self.functions: dict[str, _Function] = {}

    def read(self) -> Unit:
        self._scope(self.unit.tree.get_top_DIE())
        unit = Unit(self.unit.file)
        for function in self.functions.values():
            if function.foreign or not function.defined:
                continue
            place = Place(
                function.file, function.line, max(function.end_line, function.line), function.column, function.name
            )
            nodes = [Node(VertexKind.COMP, Place(place.file, place.line, place.end_line, -1, function.name))]
            for (line, column, _), site in sorted(function.calls.items(), key=lambda item: item[0]):
                row = mpi_call(site.name)
                where = Place(function.file, line, line, column, site.name)
                nodes.append(Node(VertexKind.CALL, where, operation=row.operation if row else 0, call=site))
            unit.functions.append(FunctionRecord(function.id, place, "", nodes, exported=function.external))
        return unit

    def _scope(self, die: Any) -> None:
        for child in die.iter_children():
            if child.tag == "DW_TAG_subprogram":
                if "DW_AT_low_pc" in child.attributes or "DW_AT_ranges" in child.attributes:
                    function = self._function(child)
                    if function is not None:
                        self._inside(child, function)
            elif child.tag in _SCOPES:
                self._scope(child)

    def _function(self, die: Any, defined: bool = True) -> _Function | None:
        """The function of a DIE, with lines from its code."""
        chain = _chain(die)
        identity = self._identity(chain)
        if not identity:
            return None
        made = self.functions.get(identity)
        if made is None:
            file = self.unit.numbers.get(_attribute(chain, "DW_AT_decl_file"), self.unit.file)
            line = _attribute(chain, "DW_AT_decl_line")
            column = _attribute(chain, "DW_AT_decl_column") - 1
            external = any("DW_AT_external" in part.attributes for part in chain)
            name = plain_name(_qualified(chain))
            foreign = is_foreign(file) or line == 0  # in no file: the compiler's own
            made = _Function(identity, name, file, line, column, line, external, foreign)
            self.functions[identity] = made
        made.defined = made.defined or defined
        low = die.attributes.get("DW_AT_low_pc") if defined else None
        high = die.attributes.get("DW_AT_high_pc")
        if low is not None and high is not None:
            end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
            first, last = bisect_right(self.starts, low.value) - 1, bisect_right(self.starts, end - 1)
            for _, file, line in self.unit.addresses[max(first, 0) : last]:
                if file == made.file and line > made.end_line:
                    made.end_line = line
        return made

    def _inside(self, die: Any, function: _Function) -> None:
        """What stands in a function; what it has of the system's is looked through."""
        for child in die.iter_children():
            if child.tag == "DW_TAG_inlined_subroutine":
                called = self._function(child)
                if called is not None and called.foreign:
                    self._inside(child, function)
                elif called is not None:
                    line = _attribute([child], "DW_AT_call_line")
                    self._call(function, line, _attribute([child], "DW_AT_call_column") - 1, called)
                    self._inside(child, called)
            elif child.tag in _CALLS:
                self._call_site(child, function)
            elif child.tag == "DW_TAG_lexical_block":
                self._inside(child, function)

    def _call_site(self, die: Any, function: _Function) -> None:
        origin = "DW_AT_call_origin" if "DW_AT_call_origin" in die.attributes else "DW_AT_abstract_origin"
        if origin not in die.attributes:
            return
        called = self._function(die.get_DIE_from_attribute(origin), defined=False)
        address = _attribute([die], "DW_AT_call_return_pc") or _attribute([die], "DW_AT_low_pc")
        row = bisect_right(self.starts, address - 1) - 1
        if called is None or row < 0:
            return
        _, file, line = self.unit.addresses[row]
        if file == function.file:
            self._call(function, line, -1, called)

    def _call(self, function: _Function, line: int, column: int, called: _Function) -> None:
        function.end_line = max(function.end_line, line)
        if not called.foreign or mpi_call(called.name) is not None:
            site = CallSite("direct", called.id, called.name, called.foreign)
            function.calls.setdefault((line, column, called.id), site)

    def _identity(self, chain: list[Any]) -> str:
        for part in chain:
            for attribute in ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name"):
                if attribute in part.attributes:
                    return _text(part, attribute)
        name = next((_text(part, "DW_AT_name") for part in chain if "DW_AT_name" in part.attributes), "")
        if not name:
            return ""
        external = any("DW_AT_external" in part.attributes for part in chain)
        main = "c:@F@main#" if self.unit.cpp and name == "main" else f"c:@F@{name}"
        return main if external else f"{self.unit.file}@{name}@{_attribute(chain, 'DW_AT_decl_line')}"


def is_foreign(file: str) -> bool:
    """Whether a header is the system's, the compiler's or MPI's, by its path: debug information knows no more."""
    if file.startswith(("/usr/include/", "/usr/lib/")) or "/include/c++/" in file or "/lib/gcc/" in file:
        return True
    return file.rpartition("/")[2] in ("mpi.h", "mpi_proto.h", "mpicxx.h", "<built-in>")


def _chain(die: Any) -> list[Any]:
    """A DIE, what it is an instance of and the declaration of that."""
    chain = [die]
    while len(chain) < 8:
        last = chain[-1]
        attribute = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in last.attributes), None)
        if attribute is None:
            break
        chain.append(last.get_DIE_from_attribute(attribute))
    return chain


def _attribute(chain: list[Any], name: str) -> int:
    for part in chain:
        found = part.attributes.get(name)
        if found is not None and isinstance(found.value, int):
            return int(found.value)
    return 0


def _text(die: Any, name: str) -> str:
    value = die.attributes[name].value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _qualified(chain: list[Any]) -> str:
    name = next((_text(part, "DW_AT_name") for part in chain if "DW_AT_name" in part.attributes), "")
    parts = [name]
    around = chain[-1].get_parent()
    while around is not None and around.tag in _SCOPES:
        parts.append(_text(around, "DW_AT_name") if "DW_AT_name" in around.attributes else "(anonymous namespace)")
        around = around.get_parent()
    return "::".join(reversed(parts))
