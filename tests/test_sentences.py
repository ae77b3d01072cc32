"""Sentences of the analysis that users read stand in ``kinds``, in ``advice`` of a room, and in the report: one place
to look for words. Code that decides has none."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from tests.test_architecture import ROOT, module_name, sources, tree_of

OF_WORDS = {"kinds.py", "advice.py"}
"""Modules of words."""
TABLES = {
    "detectors/pipeline/diagnosis/engine_flags.py",
    "detectors/pipeline/plans/means.py",
    "detectors/rl/cause_table.py",
    "detectors/rl/phases.py",
    "detectors/kind.py",
    "detectors/shared_kinds.py",
    "detectors/uneven_kinds.py",
    "detectors/source_calls.py",
}
"""Tables whose rows have words for users: options of engines, phases, kinds of findings, calls in a line."""
SENTENCE = re.compile(r"[A-Za-z{}][\w{}'-]*(?:[,:;]? [A-Za-z{}][\w{}'-]*){2,}")
"""Three words in a row."""
STILL_SAID = {
    "detectors/compile_ahead.py": 1,  # a program
    "detectors/facts.py": 3,  # names of what detectors need
    "detectors/pipeline/model/simulate.py": 3,  # the text of an error
    "detectors/runs/costs.py": 1,  # by which a warning is found
    "detectors/runs/scaling/models.py": 5,  # names of kinds of growth
}
"""How many strings of that length other modules have. These numbers may only fall."""


def text_of(node: ast.AST) -> str:
    """A string; a field of a formatted one is ``{}``."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of what is a sentence. Documentation is none, nor are errors: these name what is wrong where it is
    found, and annotations."""
    for node in ast.iter_child_nodes(tree):
        is_documentation = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_documentation or isinstance(node, (ast.Raise, ast.Assert)):
            continue
        text = text_of(node)
        if SENTENCE.search(text.replace("{}", "")):
            yield getattr(node, "lineno", 0), text
        if not text:
            yield from sentences(node)


def is_of_words(path: Path) -> bool:
    """Whether a module may have sentences."""
    return path.name in OF_WORDS or str(path.relative_to(ROOT)) in TABLES


def test_sentences_stand_where_words_belong() -> None:
    paths = [path for path in sources() if path.is_relative_to(ROOT / "detectors") and not is_of_words(path)]
    found = {str(path.relative_to(ROOT)): len(list(sentences(tree_of(path)))) for path in paths}
    assert {path: number for path, number in found.items() if number} == STILL_SAID


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ('x = f"it takes {seconds} s more than others"', 1),
        ('def f():\n    """What it does for others."""\n    return [("key", "it is not slow, its answers are")]', 1),
        ('raise ValueError(f"{path}: there is no such file")', 0),
        ('x = "two words"; y = "{} s {}"; z: "int | None" = None', 0),
    ],
)
def test_sentences_are_found(source: str, number: int) -> None:
    assert len(list(sentences(ast.parse(source)))) == number


def unfitting(tree: ast.AST, names: dict[str, Any]) -> Iterator[str]:
    """Calls that format a sentence with other fields than it has, by line. ``names`` are those of the module."""
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "format"):
            continue
        of = call.func.value
        for sentence in (of.body, of.orelse) if isinstance(of, ast.IfExp) else (of,):
            text = value_of(sentence, names)
            given = {keyword.arg for keyword in call.keywords} | set(map(str, range(len(call.args))))
            if isinstance(text, str) and not any(isinstance(one, ast.Starred) for one in call.args):
                fields = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
                wanted = {name or str(number) for number, name in enumerate(fields)}
                if not wanted <= given:
                    yield f"line {call.lineno}: {text} lacks {wanted - given}"


def value_of(node: ast.expr, names: dict[str, Any]) -> Any:
    """What a name, an attribute or a row of a table stands for in a module; None for anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(value_of(node.value, names), node.attr, None)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        table = value_of(node.value, names)
        return table.get(node.slice.value) if isinstance(table, dict) else None
    return node.value if isinstance(node, ast.Constant) else None


def test_sentences_get_the_fields_that_they_have() -> None:
    paths = [path for path in sources() if path.is_relative_to(ROOT / "detectors") and path.name != "__init__.py"]
    wrong, seen = [], 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if ".format(" in text:
            seen += text.count(".format(")
            names = vars(importlib.import_module(module_name(path)))
            wrong += [f"{path.relative_to(ROOT)} {one}" for one in unfitting(tree_of(path), names)]
    assert not wrong
    assert seen > 20


def test_lacking_fields_are_found() -> None:
    code = 'A.format(x=1)\nT["b"].format(y=1)\n(A if c else B).format(x=1)\nB.format(1)\nB.format()\nf().format()'
    names = {"A": "{x} is", "B": "{} is", "T": {"b": "{x:.0f}"}}
    lines = [int(re.findall(r"\d+", one)[0]) for one in unfitting(ast.parse(code), names)]
    assert sorted(lines) == [2, 3, 5]
