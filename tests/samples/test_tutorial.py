"""The tutorial is true: its program has the fault that the page describes, and its fix removes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scalana import api
from tests.needs import torch_or_skip
from tests.tools.fork_server import launcher

from .conftest import ROOT, scalana
from .planted import SAMPLES

PROGRAM = SAMPLES / "tutorial" / "train.py"
PAGE = ROOT / "docs" / "tutorial.md"
RANKS = 2


def line_of(text: str) -> int:
    (line,) = [n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.strip() == text]
    return line


def test_the_page_quotes_the_program() -> None:
    page, program = PAGE.read_text(), PROGRAM.read_text()
    quoted = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert quoted and [code for code in quoted if code not in program] == []
    assert f"1  train.py:{line_of('if word not in seen:')}  distinct_words" in page


@pytest.mark.slow
@pytest.mark.measured
def test_the_fix_removes_the_cause(tmp_path: Path) -> None:
    torch_or_skip()
    before, after = (findings(tmp_path / name, *options) for name, options in (("before", ()), ("after", ("--fix",))))
    assert before[0]["root"]["function"] == "distinct_words"
    assert before[0]["root"]["line"] in (line_of("for word in ticket.split():"), line_of("if word not in seen:"))
    assert before[0]["ranks"] == [RANKS - 1], "the rank with the long tickets"
    assert "distinct_words" not in [finding["root"]["function"] for finding in after]


def findings(folder: Path, *options: str) -> list[dict[str, Any]]:
    command = [*launcher(RANKS), str(PROGRAM), "--epochs", "1", *options]
    done = scalana("run", "--no-report", "-o", str(folder), "--", *command)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(api.analyze(folder).to_json())["findings"]
    return found
