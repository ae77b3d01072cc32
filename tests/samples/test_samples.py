"""Planted faults are found: the line, the ranks, the seconds; and where nothing is planted, nothing is found."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.attempts import attempts

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


WITHIN = (0.9, 1.1)
"""Of what was planted."""


def settle(measure: Callable[[int], float], wanted: float, within: tuple[float, float] = WITHIN) -> None:
    """Asserts that a measured number is near the wanted one: the first measurement, or the median of several.

    Args:
        measure: gives the number, for an attempt.
        wanted: what it should be.
        within: the least and the most that it may be, as parts of what it should be.
    """
    measured: list[float] = []
    for attempt in attempts(ATTEMPTS):
        try:
            measured.append(measure(attempt))
        except AssertionError:  # nothing to measure: the cause was not found in this recording
            measured.append(-1.0)
        if attempt != 1 and within[0] * wanted <= statistics.median(measured) <= within[1] * wanted:
            return
    pytest.fail(f"measured {measured}, planted {wanted}", pytrace=False)


def mostly(check: Callable[[int], None]) -> None:
    """Asserts that a check holds for the first recording of a program, or else for two more."""
    for attempt in attempts(ATTEMPTS):
        try:
            check(attempt)
        except AssertionError:
            if attempt:
                raise
        else:
            if attempt != 1:
                return


def takes_a_core(sample: Sample) -> bool:
    """Whether the fault takes a core that other ranks lack: ranks outnumber the cores, and it computes.

    Then the others come later to where they wait for it, and mending it brings more than the excess: the replay knows
    nothing of cores.
    """
    return sample.ranks > len(os.sched_getaffinity(0)) and any(fault.kind != "sleep" for fault in sample.faults)


# Of 27 recordings of such samples (four ranks on two cores, which other work wanted as well) the lost seconds were 0.94
# to 1.03 of those planted, once 1.23; the prediction was 0.84 to 1.11 of what the fix saved in 24, and 0.51, 0.52 and
# 1.32 while more than eight threads wanted the two cores. The median of three has to lie within these.
LOST_WITHOUT_CORE, SAVED_WITHOUT_CORE = (0.85, 1.15), (0.7, 1.25)
"""As :data:`WITHIN`, where :func:`takes_a_core`."""


def test_the_root_cause_comes_first(faulty: Sample, record: Record) -> None:
    def check(attempt: int) -> None:
        assert "pipeline" not in record(faulty, attempt=attempt).report, "no sample trains by a pipeline"
        for fault, finding in match(faulty, record(faulty, attempt=attempt).findings):
            assert sorted(finding["ranks"]) == sorted(fault.ranks)
            assert finding["root"]["function"].rpartition(".")[2] == fault.function

    mostly(check)


def test_lost_seconds_are_those_planted(faulty: Sample, record: Record) -> None:
    for number, fault in enumerate(faulty.faults):

        def lost_s(attempt: int, number: int = number) -> float:
            return float(match(faulty, record(faulty, attempt=attempt).findings)[number][1]["lost_s"])

        settle(lost_s, fault.lost_s, LOST_WITHOUT_CORE if takes_a_core(faulty) else WITHIN)


@pytest.mark.long
def test_the_fix_saves_what_was_predicted(faulty: Sample, record: Record) -> None:
    def predicted_of_saved(attempt: int) -> float:
        faults = match(faulty, record(faulty, attempt=attempt).findings)
        saved = record(faulty, attempt=attempt).loop_s - record(faulty, fix=True, attempt=attempt).loop_s
        return sum(float(finding["saving_s"]) for _, finding in faults) / saved

    settle(predicted_of_saved, 1.0, SAVED_WITHOUT_CORE if takes_a_core(faulty) else WITHIN)


@pytest.mark.long
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
