"""In which line a function calls another: a profiler's stacks have no more than the first line of every function.

Where the source lies there, and one line alone of a function calls what it was seen to call, that is the line.
"""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_OPERATORS = {
    ast.MatMult: "matmul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
}
"""Operators of Python by the name of the function that carries them out."""
Lines = dict[str, set[int]]
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module


@dataclass(slots=True)
class CallLines:
    """The lines of calls in source files, read when they are asked for."""

    _files: dict[str, dict[int, Lines]] = field(default_factory=dict)

    def line(self, file: str, first_line: int, called: Sequence[str]) -> int:
        """The line of a function, by its first line, that calls one of some names, 0 where that is not one line.

        Args:
            file: the source.
            first_line: of the function; 0 of a module.
            called: names, the best known first.
        """
        if file not in self._files:
            self._files[file] = _read(file)
        lines = self._files[file].get(first_line, {})
        found = next((lines[name] for name in called if name in lines), set())
        return next(iter(found)) if len(found) == 1 else 0


def _read(file: str) -> dict[int, Lines]:
    try:
        with open(file, "rb") as source, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of literals and escapes: they are the program's
            tree = ast.parse(source.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, Lines] = {0: _calls(tree)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[first] = _calls(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, _calls(node))
    return found


def _calls(scope: _Scope) -> Lines:
    """The lines of a scope by what they call."""
    lines: Lines = defaultdict(set)
    for node in _inside(scope):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name:
                lines[name].add(node.lineno)
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _OPERATORS:
            lines[_OPERATORS[type(node.op)]].add(node.lineno)
    return dict(lines)


def _inside(scope: _Scope) -> Iterator[ast.AST]:
    """What lies in a scope, but not in functions inside of it."""
    body = [scope.body] if isinstance(scope, ast.Lambda) else scope.body
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))
