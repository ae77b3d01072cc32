"""How large functions are: parameters, and nesting."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_architecture import ROOT, sources, tree_of

MOST_PARAMETERS = 7
"""Of a function. Where there are more, some belong together: as a dataclass, or as a named tuple, which compiled loops
take too."""

STILL_MORE_PARAMETERS: tuple[str, ...] = (
    "detectors/pipeline/model/simulate.py: _replay",  # a search replays thousands of times, where tuples take a fifth
    "runtime/record/writer.py: RecordWriter.event",  # as are the fields of a record, by name
    "runtime/record/writer.py: RecordWriter.open",
    "runtime/record/writer.py: RecordWriter.span",
    "runtime/record/writer.py: RecordWriter.span_total",
    "runtime/record/writer.py: RecordWriter.total",
)
"""Functions that still have more. This list may only get shorter."""

MOST_NESTING = 4
"""Conditions, loops, contexts and handlers around a statement of a function."""

STILL_DEEPER: tuple[str, ...] = (
    "detectors/whatif/recurrence.py: replay",  # the loop that an analysis waits for
)
"""Functions that are still nested deeper. This list may only get shorter."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def functions(tree: ast.AST, around: tuple[str, ...] = ()) -> Iterator[tuple[str, Function]]:
    """Every function in a tree, and its qualified name."""
    for node in ast.iter_child_nodes(tree):
        name = around
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = (*around, node.name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ".".join(name), node
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from functions(node, name)


def parameters_of(function: Function) -> int:
    """How many parameters a function has by name."""
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def nesting_of(node: ast.AST) -> int:
    """How many blocks are around the innermost statement below a node, functions and classes in it left out. An
    ``elif`` is as deep as its ``if``."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            continue
        chained = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        deepest = max(deepest, nesting_of(child) + (isinstance(child, BLOCKS) and not chained))
    return deepest


def all_functions() -> Iterator[tuple[str, Function]]:
    """Every function of the five packages, with its file and name."""
    for path in sources():
        for name, function in functions(tree_of(path)):
            yield f"{path.relative_to(ROOT)}: {name}", function


def test_functions_have_few_parameters() -> None:
    found = {name for name, function in all_functions() if parameters_of(function) > MOST_PARAMETERS}
    assert found == set(STILL_MORE_PARAMETERS)


def test_functions_are_not_nested_deeply() -> None:
    found = {name for name, function in all_functions() if nesting_of(function) > MOST_NESTING}
    assert found == set(STILL_DEEPER)


def test_functions_are_counted_and_measured_as_they_should() -> None:
    program = ast.parse(
        "class A:\n"
        "    def f(self, a, /, b, *c, d=1, **e):\n"
        "        for x in a:\n"
        "            if x:\n"
        "                pass\n"
        "            elif b:\n"
        "                with x:\n"
        "                    pass\n"
        "        def g(): pass\n"
    )
    (outer, f), (inner, g) = functions(program)
    assert (outer, inner) == ("A.f", "A.f.g")
    assert (parameters_of(f), parameters_of(g)) == (4, 0)
    assert (nesting_of(f), nesting_of(g)) == (3, 0)
