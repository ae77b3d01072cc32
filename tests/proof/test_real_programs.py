"""The programs around frameworks have the marks of their faults, and figures are those of the right findings."""

from __future__ import annotations

import pytest

from tests.benchmarks.real_programs import FOLDER, PROGRAMS, Outcome, markdown_of, marked_lines, summary
from tests.proof.table.frameworks import PROGRAMS as COUNT


def test_every_fault_is_marked_in_a_program_of_its_own() -> None:
    assert len({one.name for one in PROGRAMS}) == len(PROGRAMS) == COUNT
    for program in PROGRAMS:
        assert marked_lines(program.words[0], program.mark), program.name
        text = (FOLDER / program.words[0]).read_text(encoding="utf-8")
        assert "is_planted(" in text and 'clock("loop")' in text, program.name


def outcome(right: bool, said_s: float, saving_s: float, findings_without: int = 0) -> Outcome:
    return Outcome(
        *("name", "framework", "fault", "train.py:3, rank 1 (late-ranks)", right),
        *(2.0, said_s, 4.0, saving_s, 20.0, findings_without, "", 0.1),
    )


def test_figures_are_those_of_right_findings() -> None:
    some = [outcome(True, 2.1, 4.4), outcome(True, 1.98, 4.0), outcome(False, 9.0, 9.0, 2)]
    known = summary(some)
    assert (known["programs"], known["right"], known["quiet"]) == (3, 2, 2)
    assert known["seconds_median"] == pytest.approx(3.0) and known["saving_median"] == pytest.approx(5.0)
    assert known["saving_95th"] == pytest.approx(10.0)
    assert markdown_of(some).count("**no**") == 1
