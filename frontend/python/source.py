"""Python source to the structure of its functions, by ``ast``. Nothing is executed."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

from scalana.frontend.python.nodes import Builder, Scope, SourceText
from scalana.graphs.structure.psg import Place
from scalana.graphs.structure.source_tree import FileStructure, FunctionStructure


class SourceError(Exception):
    """A file that cannot be read or parsed; says which and why."""


def parse_python(path: str) -> FileStructure:
    """Parse one file.

    Raises:
        SourceError: the file is missing, unreadable, wrongly encoded or no Python.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a path that is none, such as one with a zero byte
        raise SourceError(f"{path!r}: cannot be read: {error}") from error
    return parse_python_text(data, path)


def parse_python_text(data: bytes | str, path: str) -> FileStructure:
    """Parse the content of a file; ``path`` is what places will say. Raises :class:`SourceError`."""
    raw = data.encode() if isinstance(data, str) else data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like: the user's own affair
            tree = ast.parse(raw, path)
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"  # newer syntax is none here
        raise SourceError(f"{path}: not valid Python {version}{where}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"{path}: cannot be parsed: {error}") from error
    # Not splitlines(): it also splits at form feeds and the like, which are no ends of lines to Python.
    lines = raw.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    file = SourceText(path, lines, frozenset(_imported(tree)))
    module = _function(tree, "<module>", file)
    functions = list(_definitions(tree, "", file))
    return FileStructure(
        path,
        module,
        functions,
        source=tree,
        more=lambda: [function for scope in (module, *functions) for function in _lambdas(scope, file)],
    )


def _imported(tree: ast.Module) -> Iterator[str]:
    for statement in statements(tree):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield alias.asname or alias.name.partition(".")[0]


def _function(node: Scope, qualname: str, file: SourceText) -> FunctionStructure:
    if isinstance(node, ast.Module):
        place = Place(file.path, 1, max(len(file.lines), 1), 0, qualname)
    else:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        place = Place(file.path, first, node.end_lineno or first, node.col_offset, qualname, node.end_col_offset or -1)
    return FunctionStructure(place, lambda: Builder(file).build(node), source=node)


def _definitions(scope: Scope, prefix: str, file: SourceText) -> Iterator[FunctionStructure]:
    """Functions and class bodies that are statements, at any depth; ``prefix`` is that of their qualified names."""
    for statement in statements(scope):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield _function(statement, prefix + statement.name, file)
            yield from _definitions(statement, f"{prefix}{statement.name}.<locals>.", file)
        elif isinstance(statement, ast.ClassDef):
            yield _function(statement, prefix + statement.name, file)
            yield from _definitions(statement, f"{prefix}{statement.name}.", file)


def _lambdas(scope: FunctionStructure, file: SourceText) -> Iterator[FunctionStructure]:
    """Lambdas in the code of one function, those inside them included."""
    source = scope.source
    assert isinstance(source, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    name = scope.place.name
    if isinstance(source, ast.Module):
        prefix = ""
    else:
        prefix = f"{name}." if isinstance(source, ast.ClassDef) else f"{name}.<locals>."
    stack: list[ast.AST] = list(source.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack.extend(node.decorator_list)
            if not isinstance(node, ast.ClassDef):
                stack.append(node.args)
            continue
        if isinstance(node, ast.Lambda):
            yield _function(node, f"{prefix}<lambda>", file)
        stack.extend(ast.iter_child_nodes(node))


def statements(scope: Scope) -> Iterator[ast.stmt]:
    """The statements of one scope, those in loops and branches included, without those of functions inside it."""
    stack: list[ast.stmt] = [] if isinstance(scope, ast.Lambda) else list(reversed(scope.body))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for block in reversed(_blocks(statement)):
            stack.extend(reversed(block))


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    blocks: list[list[ast.stmt]] = []
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        value = getattr(statement, field, None)
        if not value:
            continue
        if field in ("handlers", "cases"):
            blocks.extend(part.body for part in value)
        elif isinstance(value, list):
            blocks.append(value)
    return blocks
