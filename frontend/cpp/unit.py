"""What a translation unit holds, as plain values that survive a trip through JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scalana.graphs.structure.psg import Place, VertexKind
from scalana.graphs.structure.source_tree import Node

FORMAT = 10
"""Of :func:`encode`; to be raised with any change of it, or of what is found in the sources."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """What the source says about a call."""

    kind: str
    """``direct``, ``virtual``, ``pointer`` (also ``std::function``) or ``name`` (in a template, not known)."""
    callee: str
    """Id of the function; for a pointer, the type of function that it points to."""
    name: str
    """For people: ``std::sort``, ``solver->step``."""
    system: bool = False
    """Whether the callee is declared in a header of the system or of MPI."""
    given: tuple[str, ...] = ()
    """Ids of functions that are passed to the callee, which will call them if it is nobody's we know."""
    variable: str = ""
    """Id of the variable that holds the pointer, where it is one."""


@dataclass(slots=True)
class FunctionRecord:
    """A function that is defined in a translation unit."""

    id: str
    """Clang's USR; where several functions share one (instantiations over lambdas), with a number behind it."""
    place: Place
    """From the line of its name to its last line; the name is qualified and has no template arguments."""
    signature: str
    """Its type: ``int (double)``."""
    nodes: list[Node]
    overrides: tuple[str, ...] = ()
    """Ids of the virtual functions that it overrides directly."""
    pattern: bool = False
    """Whether it is a template: the calls in it that depend on its parameters are not resolved."""
    exported: bool = True
    """Whether other translation units can call it."""


@dataclass(slots=True)
class Unit:
    """A translation unit."""

    file: str
    functions: list[FunctionRecord] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    """Functions whose address is taken, and lambdas: id -> type."""
    capturing: list[str] = field(default_factory=list)
    """Those of the lambdas that capture: no plain pointer leads to them."""
    held: dict[str, list[str]] = field(default_factory=dict)
    """What variables that point to functions are given: id -> names of MPI functions, "" for anything else."""
    outside: list[Node] = field(default_factory=list)
    """What runs before ``main``: the initializers of global variables."""
    warnings: list[str] = field(default_factory=list)
    complete: bool = True
    """Whether nothing was missing (headers, mostly), so that the result is worth keeping."""
    headers: list[tuple[str, bool]] = field(default_factory=list)
    """Files that were included, and whether each belongs to the system."""
    only: tuple[str, ...] | None = None
    """Files whose functions were read, the others' were left out; None where all were."""
    seconds: float = 0.0


def encode(unit: Unit) -> dict[str, Any]:
    """A unit as lists and dictionaries."""
    files: dict[str, int] = {}

    def place(value: Place) -> list[Any]:
        file = files.setdefault(value.file, len(files))
        return [file, value.line, value.end_line, value.column, value.name, value.end_column]

    def node(value: Node) -> list[Any]:
        call = value.call
        site = None
        if isinstance(call, CallSite):
            site = [call.kind, call.callee, call.name, call.system, call.given, call.variable]
        return [
            value.kind.value,
            place(value.place),
            [node(child) for child in value.children],
            value.operation,
            site,
            int(value.whole) + 2 * int(value.optional),
            value.defines,
            value.uses,
        ]

    functions = [
        [
            function.id,
            place(function.place),
            function.signature,
            [node(child) for child in function.nodes],
            function.overrides,
            function.pattern,
            function.exported,
        ]
        for function in unit.functions
    ]
    return {
        "format": FORMAT,
        "file": unit.file,
        "functions": functions,
        "outside": [node(child) for child in unit.outside],
        "taken": unit.taken,
        "capturing": unit.capturing,
        "held": unit.held,
        "warnings": unit.warnings,
        "complete": unit.complete,
        "headers": unit.headers,
        "only": unit.only,
        "seconds": unit.seconds,
        "files": list(files),
    }


def decode(data: dict[str, Any]) -> Unit:
    """The unit that :func:`encode` was given.

    Raises:
        ValueError: it is of another format, or damaged.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')}, and not {FORMAT}")
    try:
        files: list[str] = data["files"]

        def place(value: list[Any]) -> Place:
            file, line, end_line, column, name, end_column = value
            return Place(files[file], line, end_line, column, name, end_column)

        def node(value: list[Any]) -> Node:
            kind, where, children, operation, site, flags, defines, uses = value
            call = None
            if site is not None:
                call = CallSite(site[0], site[1], site[2], site[3], tuple(site[4]), site[5])
            return Node(
                VertexKind(kind),
                place(where),
                [node(child) for child in children],
                operation,
                call,
                bool(flags & 1),
                bool(flags & 2),
                tuple(defines),
                tuple(uses),
            )

        functions = [
            FunctionRecord(
                identity, place(where), signature, [node(n) for n in nodes], tuple(overrides), pattern, exported
            )
            for identity, where, signature, nodes, overrides, pattern, exported in data["functions"]
        ]
        return Unit(
            data["file"],
            functions,
            dict(data["taken"]),
            list(data["capturing"]),
            {variable: list(names) for variable, names in data["held"].items()},
            [node(n) for n in data["outside"]],
            list(data["warnings"]),
            bool(data["complete"]),
            [(path, bool(system)) for path, system in data["headers"]],
            tuple(data["only"]) if data["only"] is not None else None,
            float(data["seconds"]),
        )
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(f"damaged: {error!r}") from error
