"""Entries of debug information: names, places and addresses of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from scalana.frontend.cpp.names import ANONYMOUS, LAMBDA

SCOPES = frozenset(
    {"DW_TAG_namespace", "DW_TAG_module", "DW_TAG_class_type", "DW_TAG_structure_type", "DW_TAG_union_type"}
)
"""What functions stand in."""
_AROUND = frozenset({"DW_TAG_subprogram", "DW_TAG_lexical_block"})
OUTLINED = re.compile(r"(.+?)(\._omp_fn\.\d+|\.omp_outlined.*|\._omp_cpyfn.*)")
"""Names of functions that compilers make of regions of OpenMP: that of the function they are in, and the rest."""


def is_foreign(file: str) -> bool:
    """Whether a header is the system's, the compiler's or MPI's, by its path: debug information knows no more."""
    if file.startswith(("/usr/include/", "/usr/lib/")) or "/include/c++/" in file or "/lib/gcc/" in file:
        return True
    return file.rpartition("/")[2] in ("mpi.h", "mpi_proto.h", "mpicxx.h", "<built-in>")


def chain_of(die: Any) -> list[Any]:
    """A DIE, what it is an instance of and the declaration of that."""
    chain = [die]
    while len(chain) < 8:
        last = chain[-1]
        attribute = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in last.attributes), None)
        if attribute is None:
            break
        chain.append(last.get_DIE_from_attribute(attribute))
    return chain


def attribute(chain: list[Any], name: str) -> int:
    """The number that an attribute has in the first entry that has it, 0 if none has."""
    for part in chain:
        found = part.attributes.get(name)
        if found is not None and isinstance(found.value, int):
            return int(found.value)
    return 0


def text(die: Any, name: str) -> str:
    """The text of an attribute that is there."""
    value = die.attributes[name].value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def qualified(chain: list[Any]) -> str:
    """Name of a function with its namespaces, classes and functions around it, as debug information has it."""
    name = next((text(part, "DW_AT_name") for part in chain if "DW_AT_name" in part.attributes), "")
    parts = [name]
    around = chain[-1].get_parent()
    while around is not None and (around.tag in SCOPES or around.tag in _AROUND):
        if around.tag in SCOPES and "DW_AT_name" in around.attributes:
            parts.append(text(around, "DW_AT_name"))
        elif around.tag == "DW_TAG_namespace":
            parts.append(ANONYMOUS)
        elif around.tag in SCOPES:  # GCC's class of a lambda has no name
            parts[-1:] = [LAMBDA] if parts[-1] == "operator()" else [parts[-1], "(anonymous)"]
        elif around.tag == "DW_TAG_subprogram" and not OUTLINED.fullmatch(name):
            entries = chain_of(around)
            parts.append(next((text(part, "DW_AT_name") for part in entries if "DW_AT_name" in part.attributes), ""))
            around = entries[-1]
        around = around.get_parent()
    return "::".join(reversed([part for part in parts if part]))


def declared(chain: list[Any]) -> tuple[tuple[int, int], int, int]:
    """Where a function is declared: its file, line and column (from 0); of a lambda, its class's if it has none.

    The file is the offset of a unit and the number that this unit gives it: with optimisation at link time, a function
    and what it is an instance of may be in different units.
    """
    line = attribute(chain, "DW_AT_decl_line")
    around = chain[-1].get_parent()
    if not line and around is not None and around.tag in SCOPES and "DW_AT_name" not in around.attributes:
        chain = [around]
        line = attribute(chain, "DW_AT_decl_line")
    told = next((part for part in chain if "DW_AT_decl_file" in part.attributes), chain[0])
    file = told.cu.cu_offset, attribute([told], "DW_AT_decl_file")
    return file, line, attribute(chain, "DW_AT_decl_column") - 1


def subprograms(die: Any) -> Iterator[Any]:
    """All functions in an entry, those inside other functions included."""
    stack = [die]
    while stack:
        for child in stack.pop().iter_children():
            if child.tag == "DW_TAG_subprogram":
                yield child
            if child.tag in SCOPES or child.tag in _AROUND:
                stack.append(child)


def ranges(die: Any, dwarf: Any) -> list[tuple[int, int]]:
    """The addresses of the code of an entry, as (first, behind the last)."""
    low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
        return [(low.value, end)] if end > low.value else []
    listed = die.attributes.get("DW_AT_ranges")
    if listed is None:
        return []
    top = die.cu.get_top_DIE()
    base = attribute([top], "DW_AT_low_pc")
    found = []
    for entry in dwarf.range_lists().get_range_list_at_offset(listed.value, cu=die.cu):
        if hasattr(entry, "base_address"):
            base = entry.base_address
            continue
        offset = 0 if getattr(entry, "is_absolute", False) else base
        if entry.end_offset > entry.begin_offset:
            found.append((entry.begin_offset + offset, entry.end_offset + offset))
    return found
