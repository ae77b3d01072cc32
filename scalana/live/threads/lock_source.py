"""What a source file says of locks: which a line asks for, and which were acquired before a line and not released."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache

Name = tuple[str, ...]
"""A name and the attributes behind it: ("self", "lock")."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@lru_cache(maxsize=4096)
def asked(file: str, line: int) -> Sequence[Name]:
    """The locks that a line asks for, by ``with`` or ``acquire``."""
    found: list[Name] = []
    for node in ast.walk(_tree(file)):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            found += [_name(item.context_expr) for item in node.items if _covers(item.context_expr, line)]
        elif isinstance(node, ast.Call) and _covers(node, line):
            found.append(_called(node, "acquire"))
    return [name for name in found if name]


@lru_cache(maxsize=4096)
def taken(file: str, line: int) -> Sequence[tuple[Name, int]]:
    """The locks that are held at a line by the function around it, each with the line that took it: by ``with`` around
    it, or by ``acquire`` on the way to it, in the same blocks, after which nothing on the way may release it."""
    held: dict[Name, int] = {}
    block: ast.AST | None = _function(file, line)
    while block is not None:
        around, before = _way(block, line, held)
        for statement in before:
            _release(statement, held)
            _acquire(statement, held)
        if isinstance(around, (ast.For, ast.AsyncFor, ast.While)):  # what follows the line has run in an earlier turn
            _release(around, held)
        if isinstance(around, ast.With) and not any(_covers(item.context_expr, line) for item in around.items):
            held.update({name: around.lineno for item in around.items if (name := _name(item.context_expr))})
        block = around
    return list(held.items())


def _way(block: ast.AST, line: int, held: dict[Name, int]) -> tuple[ast.AST | None, list[ast.stmt]]:
    """The statement of a block that a line is in, and those that run before it. What may have run before, such as the
    body of a ``try`` whose ``finally`` the line is in, may have released what is held."""
    for field in _BLOCKS:
        before: list[ast.stmt] = []
        for statement in getattr(block, field, ()):
            if _covers(statement, line):
                return statement, before
            before.append(statement)
        for statement in before:
            _release(statement, held)
    return None, []


def _release(statement: ast.AST, held: dict[Name, int]) -> None:
    """Leave out what a statement may release."""
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
        held.pop(_called(call, "release"), None)


def _acquire(statement: ast.stmt, held: dict[Name, int]) -> None:
    """Add what a statement that has run acquires for sure."""
    if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
        call = statement.value
        if not call.args and not call.keywords and (name := _called(call, "acquire")):
            held[name] = call.lineno


def _function(file: str, line: int) -> ast.AST:
    """The innermost function that a line is in; the module where it is in none."""
    tree = _tree(file)
    inside = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and _covers(node, line)]
    return max(inside, key=lambda node: node.lineno, default=tree)


def _covers(node: ast.AST, line: int) -> bool:
    """Whether a line is one of a node; a case of a ``match`` has the lines of what is in it."""
    if isinstance(node, ast.match_case):
        return any(_covers(statement, line) for statement in node.body)
    return isinstance(node, (ast.expr, ast.stmt, ast.ExceptHandler)) and node.lineno <= line <= (node.end_lineno or 0)


def _called(call: ast.Call, method: str) -> Name:
    """What a method of this name is called on; empty for another call."""
    return _name(call.func.value) if isinstance(call.func, ast.Attribute) and call.func.attr == method else ()


def _name(node: ast.expr) -> Name:
    """Empty for what is no name with attributes: what it stands for is not known without running it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()


def _tree(file: str) -> ast.Module:
    try:
        with open(file, "rb") as opened:
            return _parsed(opened.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@lru_cache(maxsize=64)
def _parsed(text: bytes, file: str) -> ast.Module:
    return ast.parse(text, file)
