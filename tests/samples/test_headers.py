"""The headers of the samples say what the harness needs, and agree with themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .planted import SAMPLES, Fault, Sample, marked_line, read_sample


def enclosing_function(source: str, line: int) -> str:
    """Name of the innermost function around a line, ``<lambda>`` or ``<module>``."""
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around:
        return "<module>"
    innermost = max(around, key=lambda node: (node.lineno, node.col_offset))
    return "<lambda>" if isinstance(innermost, ast.Lambda) else innermost.name


def test_every_program_is_balanced_or_has_faults(sample: Sample) -> None:
    assert [sample.balanced, bool(sample.faults), bool(sample.measured)].count(True) == 1
    assert sample.planted
    assert sample.symptom
    assert sample.launch


def test_faults_lie_in_their_function(faulty: Sample) -> None:
    source = faulty.path.read_text(encoding="utf-8")
    for fault in faulty.faults:
        assert fault.line <= fault.end_line
        assert enclosing_function(source, fault.line) == fault.function
        assert enclosing_function(source, fault.end_line) == fault.function


def consistent(fault: Fault, ranks: int) -> bool:
    planted = fault.seconds * fault.occurrences
    if fault.waiting_ranks is None:
        return 0 < fault.lost_s <= planted * (ranks - 1)
    return fault.lost_s == pytest.approx(planted * fault.waiting_ranks)


def test_seconds_agree(faulty: Sample) -> None:
    for fault in faulty.faults:
        assert set(fault.ranks) <= set(range(faulty.ranks))
        assert fault.kind in ("sleep", "busy", "gil", "data")
        assert consistent(fault, faulty.ranks)
        assert 0 < fault.saving_s <= fault.seconds * fault.occurrences * 1.001


def test_a_fix_can_be_asked_for(faulty: Sample) -> None:
    assert '"--fix"' in faulty.path.read_text(encoding="utf-8")


def test_the_table_names_every_sample(sample: Sample) -> None:
    if sample.path.parent == SAMPLES:
        assert f"`{sample.path.name}`" in (SAMPLES / "README.md").read_text(encoding="utf-8")


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("print()\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"program\.py: no header"):
        read_sample(path)
    path.write_text("# /// scalana\n# launch = \n# ///\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"program\.py: header"):
        read_sample(path)


def test_markers_are_unique() -> None:
    assert marked_line("a\nb  # <- fault\nc  # <- end of fault\n", "fault") == 2
    assert marked_line("a\nb\n", "fault") is None
    with pytest.raises(ValueError, match=r"\[1, 2\]"):
        marked_line("a  # <- fault\nb  # <- fault\n", "fault")
