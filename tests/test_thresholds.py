"""Numbers that decide what is reported stand in one place, each once, with a reason and with who asks for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_architecture import ROOT, SHARED_NAMES, imports, sources, tree_of

THRESHOLDS = ROOT / "detectors" / "thresholds"
MOST_ROWS = 120
"""Numbers in ``detectors/thresholds``, one for each question. It may only fall: a new question often stands there."""
CODES = {"LEAVE", "_KEYS"}
"""Names of numbers that are codes: compared, or counted, and never measured. So are 0, 1 and what is negative."""
ARITHMETIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator)


def number_in(value: ast.expr | None) -> float | None:
    """What an expression of numbers alone comes to, None for any other."""
    if value is None or any(not isinstance(node, ARITHMETIC) for node in ast.walk(value)):
        return None
    found = eval(compile(ast.Expression(value), "", "eval"), {})
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def numbers_of(path: Path) -> Iterator[tuple[str, float, ast.stmt | None]]:
    """Name and value of each number that a module defines, and the statement behind it, which describes it."""
    body = tree_of(path).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = number_in(node.value) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                yield target.id, value, after


def test_numbers_that_decide_stand_in_thresholds() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name} = {value}"
        for path in sources()
        if path.is_relative_to(ROOT / "detectors") and path.parent != THRESHOLDS
        for name, value, _ in numbers_of(path)
        if not (value in (0, 1) or (value < 0 and value == int(value)) or name in CODES)
    ]
    assert not wrong


def asks(path: Path) -> str:
    """By which name a module stands in the rows that it asks: its own, with its room's where others have it too."""
    shared = path.stem in SHARED_NAMES["detectors"] or path.is_relative_to(ROOT / "scalana")
    return f"{path.parent.name}.{path.stem}" if shared else path.stem


def test_rows_of_thresholds_say_why_and_who_asks() -> None:
    asked: dict[str, set[str]] = {}
    for path in sources():
        for module, _ in imports(path):
            if module.startswith("scalana.detectors.thresholds."):
                asked.setdefault(module.rpartition(".")[2], set()).add(asks(path))
    rows = [(path, *row) for path in sorted(THRESHOLDS.glob("*.py")) for row in numbers_of(path)]
    names = [name for _, name, _, _ in rows]
    assert len(set(names)) == len(names) <= MOST_ROWS
    assert set(asked) == set(names)
    wrong = []
    for _, name, _, after in rows:
        constant = after.value if isinstance(after, ast.Expr) else None
        text = str(constant.value) if isinstance(constant, ast.Constant) else ""
        if not re.search(r"^\S.*\n(?:.*\n)*Why: ", text):
            wrong.append(f"{name} needs its question, and a reason for its value")
        listed = set(re.findall(r"^- `([\w.]+)`", text, re.M))
        wrong += [f"{name}: {module} asks, but is not listed" for module in sorted(asked[name] - listed)]
        wrong += [f"{name}: {module} is listed, but does not ask" for module in sorted(listed - asked[name])]
    assert not wrong


def test_kernels_take_thresholds_as_arguments() -> None:
    """numba keeps what it has compiled as long as its file is the same, though a number in another file is not."""
    wrong = []
    for path in sources():
        numbers = {m.rpartition(".")[2] for m, _ in imports(path) if m.startswith("scalana.detectors.thresholds.")}
        for node in tree_of(path).body:
            if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(one) for one in node.decorator_list):
                read = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} & numbers
                wrong += [f"{path.relative_to(ROOT)}: {node.name} reads {name}" for name in sorted(read)]
    assert not wrong
