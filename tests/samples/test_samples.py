"""Planted faults are found: the line, the ranks, the seconds; and where nothing is planted, nothing is found."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT, Record
from .planted import Fault, Sample

pytestmark = pytest.mark.slow


def is_at(finding: dict[str, Any], fault: Fault, path: Path) -> bool:
    """Whether a finding names the planted lines and nothing else."""
    root = finding["root"]
    file = (ROOT / root["file"]).resolve()
    return file == path.resolve() and fault.line <= root["line"] <= root["end_line"] <= fault.end_line


def match(sample: Sample, findings: list[dict[str, Any]]) -> list[tuple[Fault, dict[str, Any]]]:
    """Pairs the faults with as many first findings, in whatever order. Fails, with the findings, where they differ."""
    pairs = [
        (fault, finding)
        for fault in sample.faults
        for finding in findings[: len(sample.faults)]
        if is_at(finding, fault, sample.path)
    ]
    wanted = [f"{sample.path.name}:{fault.line}-{fault.end_line} {fault.function}" for fault in sample.faults]
    assert len(pairs) == len(sample.faults), f"planted {wanted}, found {[brief(finding) for finding in findings]}"
    return pairs


def brief(finding: dict[str, Any]) -> str:
    root = finding["root"]
    return (
        f"{finding['kind']} {root['file']}:{root['line']}-{root['end_line']} {root['function']} "
        f"ranks {finding['ranks']} lost {finding['lost_s']:.3f} s saving {finding['saving_s']:.3f} s"
    )


ATTEMPTS = 3
"""Recordings of one program, at most: seconds of one are at the mercy of what else runs on the machine."""


def settle(measure: Callable[[int], float], wanted: float, known_gap: str = "", tolerance: float = 0.1) -> None:
    """Asserts that a measured number is the wanted one: the first measurement, or the median of several.

    Where it is not, and that is known, the test is an expected failure with the reason.
    """
    measured: list[float] = []
    for attempt in range(ATTEMPTS):
        try:
            measured.append(measure(attempt))
        except AssertionError:  # nothing to measure: the cause was not found in this recording
            measured.append(-1.0)
        if attempt != 1 and statistics.median(measured) == pytest.approx(wanted, rel=tolerance):
            return
    if known_gap:
        pytest.xfail(f"measured {measured}, planted {wanted}: {known_gap}")
    pytest.fail(f"measured {measured}, planted {wanted}", pytrace=False)


def mostly(check: Callable[[int], None]) -> None:
    """Asserts that a check holds for the first recording of a program, or else for two more."""
    try:
        check(0)
    except AssertionError as first:
        try:
            check(1)
            check(2)
        except AssertionError as again:
            raise again from first


def gap(sample: Sample) -> str:
    """Why seconds may be told wrong, "" where they may not.

    Where ranks outnumber cores, a rank that computes too much also takes a core from the others: mending it brings
    more than the excess, and they come later to where they wait for it. The replay knows nothing of cores.
    """
    crowded = sample.ranks > len(os.sched_getaffinity(0)) and any(fault.kind != "sleep" for fault in sample.faults)
    return sample.known_gap or ("ranks outnumber cores, and the fault takes one" if crowded else "")


def test_the_root_cause_comes_first(faulty: Sample, record: Record) -> None:
    def check(attempt: int) -> None:
        for fault, finding in match(faulty, record(faulty, attempt=attempt).findings):
            assert sorted(finding["ranks"]) == sorted(fault.ranks)
            assert finding["root"]["function"].rpartition(".")[2] == fault.function

    mostly(check)


def test_lost_seconds_are_those_planted(faulty: Sample, record: Record) -> None:
    for number, fault in enumerate(faulty.faults):

        def lost_s(attempt: int, number: int = number) -> float:
            return float(match(faulty, record(faulty, attempt=attempt).findings)[number][1]["lost_s"])

        settle(lost_s, fault.lost_s, gap(faulty))


def test_the_fix_saves_what_was_predicted(faulty: Sample, record: Record) -> None:
    def predicted_of_saved(attempt: int) -> float:
        faults = match(faulty, record(faulty, attempt=attempt).findings)
        saved = record(faulty, attempt=attempt).loop_s - record(faulty, fix=True, attempt=attempt).loop_s
        return sum(float(finding["saving_s"]) for _, finding in faults) / saved

    settle(predicted_of_saved, 1.0, gap(faulty))


def test_the_fixed_program_is_not_blamed(faulty: Sample, record: Record) -> None:
    def check(attempt: int) -> None:
        findings = record(faulty, fix=True, attempt=attempt).findings
        for fault in faulty.faults:
            left = [finding for finding in findings if is_at(finding, fault, faulty.path)]
            assert sum(finding["lost_s"] for finding in left) < 0.1 * fault.lost_s, [brief(each) for each in left]

    mostly(check)


def test_a_balanced_program_has_no_finding(balanced: Sample, record: Record) -> None:
    settle(lambda attempt: float(len(record(balanced, attempt=attempt).findings)), 0.0)


def test_seconds_add_up(sample: Sample, record: Record) -> None:
    report = record(sample).report
    assert report["run"]["ranks"] == sample.ranks
    assert report["run"]["exit_code"] == 0
    parts = [report["time"][name] for name in ("work_s", "stall_s", "wait_s", "transfer_s", "other_s")]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(sample.ranks * report["run"]["seconds"], rel=0.01)
