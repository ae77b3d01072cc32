"""Sentences that users read, in modern technical English: what the product prints, writes and raises."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.banned_words import BANNED, LEADING_WHO
from tests.test_documents import ROOT, of

PRODUCT = ("detectors", "frontend", "graphs", "runtime", "scalana")
HELP = ROOT / "scalana" / "commands"
"""Here the docstrings of classes are printed, too."""
FILES = sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))


def sentences(source: str, with_classes: bool) -> Iterator[tuple[int, str]]:
    """Line and text of all strings of more than one word. A field of a formatted string is ``{}``.

    Strings that stand alone, as docstrings do, are left out; those of classes can be asked for."""
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside | alone:
            text = node.value
        elif isinstance(node, ast.ClassDef) and with_classes:
            text = ast.get_docstring(node) or ""
        if " " in text.strip():
            yield getattr(node, "lineno", 0), text


def found_in(source: str, with_classes: bool = False) -> list[str]:
    """The sentences with words that are banned, with their lines."""
    return [
        f"line {line}: {text}"
        for line, text in sentences(source, with_classes)
        if BANNED.search(text) or LEADING_WHO.search(text)
    ]


@pytest.mark.parametrize("path", FILES, ids=of)
def test_what_users_read_is_modern_english(path: Path) -> None:
    assert found_in(path.read_text(encoding="utf-8"), with_classes=path.is_relative_to(HELP)) == []


@pytest.mark.parametrize(
    "source",
    ['print("a cause that can be told")', 'f"{what} is mended"', 'x = ["sent" " to whom"]', 'help="who waits is late"'],
)
def test_words_that_are_banned_are_found(source: str) -> None:
    assert len(found_in(source)) == 1


def test_what_only_developers_read_is_left_out() -> None:
    source = '"""What is told."""\nclass A:\n    """It is mended."""\nwords = {"told": 1}'
    assert found_in(source) == []
    assert found_in(source, with_classes=True) == ["line 2: It is mended."]
