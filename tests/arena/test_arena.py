"""Random programs are what they claim to be, and reports of them are compared with what they measured."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scalana.detectors.finding import Finding
from tests.known import evidence
from tests.long import also, in_short
from tests.runtime.mpi.conftest import one_mpi

from .__main__ import seeds_of
from .draw import PATTERNS, PLACES, RUNTIMES, WHAT, WHEN, Program, drawn
from .source import MARK, source_of
from .table import markdown_of, summary
from .trial import Outcome, Told, compared, judged, recorded

SEEDS = range(1, 301)


def test_a_seed_is_always_the_same_program() -> None:
    assert [drawn(seed) for seed in SEEDS] == [drawn(seed) for seed in SEEDS]
    assert len({source_of(drawn(seed)) for seed in SEEDS}) == len(SEEDS)


def test_all_kinds_occur() -> None:
    programs = [drawn(seed) for seed in SEEDS]
    faults = [program.fault for program in programs if program.fault]
    phases = [phase for program in programs for phase in program.phases]
    assert {program.runtime for program in programs} == set(RUNTIMES)
    assert {program.ranks for program in programs} == {1, 2, 3, 4}
    assert {phase.pattern for phase in phases} == set(PATTERNS)
    assert {phase.depth for phase in phases} == {0, 1, 2, 3} and {phase.shared for phase in phases} == {True, False}
    for values, known in ((PLACES, "place"), (WHAT, "what"), (WHEN, "when")):
        assert {getattr(fault, known) for fault in faults} == set(values)
    assert {len(fault.ranks) for fault in faults} == {1, 2}


@pytest.mark.parametrize("balanced", [False, True])
def test_sources_are_programs_and_mark_the_fault_alone(balanced: bool) -> None:
    for seed in SEEDS:
        program = drawn(seed, balanced)
        text = source_of(program)
        ast.parse(text)
        assert (MARK in text) == (program.fault is not None), seed
        assert replace(program, fault=None) == replace(drawn(seed), fault=None)


def test_a_helper_is_marked_only_where_nothing_but_the_fault_leads_there() -> None:
    for seed in SEEDS:
        marked = {line.strip() for line in source_of(drawn(seed)).splitlines() if line.endswith(MARK)}
        unmarked = {line.strip() for line in source_of(drawn(seed)).splitlines() if not line.endswith(MARK)}
        called = {line.partition("(")[0] for line in marked if line.startswith(("common", "part"))}
        inner = {name for name in called if not name.endswith("_0")}
        assert not inner & {line.partition("(")[0] for line in unmarked if not line.startswith("def ")}, seed


def program() -> Program:
    """One of two ranks, of which the second is slow."""
    return next(drawn(seed) for seed in SEEDS if (fault := drawn(seed).fault) and fault.ranks == (1,))


def found(ranks: Sequence[int], line: int, here_s: float = 5.0) -> Finding:
    place = evidence(seconds_here=here_s, seconds_others=1.0)
    return Finding(
        "late-ranks", 1, "/job/program.py", line, line, "f", "line", list(ranks), 3.0, 0.9, 2.0, evidence=place
    )


@pytest.mark.parametrize(
    ("findings", "right", "error"),
    [
        ([found([1], 7)], True, 0.0),
        ([found([1], 8, 6.0), found([0], 7)], True, 0.25),
        ([found([0], 7), found([1], 7)], False, None),  # the first counts
        ([found([0, 1], 7)], False, None),
        ([found([1], 9)], False, None),
        ([], False, None),
    ],
)
def test_the_first_finding_has_the_line_and_the_ranks(
    findings: list[Finding], right: bool, error: float | None
) -> None:
    told = [Told(rank, 1.0 + 4.0 * (rank == 1), 0.0) for rank in range(program().ranks)]
    outcome = compared(program(), [7, 8], told, findings, 0.0)
    assert outcome.right is right
    assert outcome.error == (None if error is None else pytest.approx(error))


def test_a_balanced_program_is_right_without_a_finding() -> None:
    balanced = replace(program(), fault=None)
    told = [Told(rank, 0.0, 0.0) for rank in range(balanced.ranks)]
    assert compared(balanced, [], told, [], 0.0).right
    assert not compared(balanced, [], told, [found([1], 7)], 0.0).right


def outcome(faulty: bool, right: bool, said_s: float | None = None) -> Outcome:
    findings = int(faulty or not right)
    return Outcome(1, "name", faulty, [1], [7], findings, "said", right, right, 10.0, said_s, 2.0)


def test_the_table_counts_what_is_right_and_quiet() -> None:
    outcomes = [*(outcome(True, True, 10.0 + k) for k in range(10)), outcome(True, False), outcome(False, True)]
    total = summary([*outcomes, outcome(False, False)])
    assert (total.programs, total.faulty, total.right, total.quiet) == (13, 11, 10, 1)
    assert (total.error_median, total.error_90th) == (pytest.approx(0.45), pytest.approx(0.8))
    assert (total.right_share, total.quiet_share) == (pytest.approx(1000 / 11), 50.0)
    assert "10 of 11 (90.9 %)" in markdown_of(outcomes)


def test_seeds_are_one_or_a_range() -> None:
    assert (list(seeds_of("5")), list(seeds_of("2:4"))) == ([5], [2, 3, 4])


def _chosen(runtime: str, place: str) -> int:
    """A seed with such a fault, which sleeps in every step: that lasts as long under load."""
    return next(
        seed
        for seed in SEEDS
        if drawn(seed).runtime == runtime
        and drawn(seed).ranks < 4
        and (fault := drawn(seed).fault)
        and (fault.place, fault.what, fault.when) == (place, "sleep", "always")
    )


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.parametrize("place", ["extra call", *also("thread")])
@pytest.mark.parametrize("runtime", in_short(RUNTIMES, ("torch",)))
def test_the_report_of_a_random_program_is_right(runtime: str, place: str, tmp_path: Path) -> None:
    chosen = drawn(_chosen(runtime, place))
    recorded(chosen, tmp_path, one_mpi(tmp_path).folder)
    result = judged(chosen, tmp_path)
    assert result.right, result.as_json()
    assert result.error is not None and result.error < 0.4, result.as_json()
