"""Ranks that collect garbage in different steps: found first, with the seconds that the program itself measures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Record, Recording
from .planted import SAMPLES, Sample, read_sample
from .test_samples import LOST_WITHOUT_CORE, brief, mostly, settle

pytestmark = pytest.mark.slow
KIND = "garbage-collection"


@pytest.fixture(scope="module")
def stagger() -> Sample:
    return read_sample(SAMPLES / "gc_stagger.py")


def collection_s(sample: Sample, recording: Recording) -> float:
    """Seconds of full collections, of all ranks together, by the program's own clock."""
    found = re.search(rf"{sample.measured}: ([0-9.]+)", recording.output)
    assert found, recording.output
    return float(found[1])


def test_collections_come_first(stagger: Sample, record: Record) -> None:
    def check(attempt: int) -> None:
        first = record(stagger, attempt=attempt).findings[0]
        assert (first["kind"], sorted(first["ranks"])) == (KIND, [0, 1, 2, 3]), brief(first)
        assert first["root"]["file"] == "<garbage collection>"

    mostly(check)


def test_lost_seconds_are_those_of_the_collections(stagger: Sample, record: Record) -> None:
    def part(attempt: int) -> float:
        recording = record(stagger, attempt=attempt)
        lost_s = sum(float(one["lost_s"]) for one in recording.findings if one["kind"] == KIND)
        return lost_s / ((stagger.ranks - 1) * collection_s(stagger, recording))

    settle(part, 1.0, LOST_WITHOUT_CORE)


@pytest.mark.long
def test_collections_in_the_same_steps_save_what_was_predicted(record: Record) -> None:
    """Of collections that take no core: those of four ranks at once take longer where cores are fewer."""
    program = Path(__file__).parent / "programs" / "slow_finalizers.py"
    launched = ("torchrun", "--standalone", "--nproc-per-node", "4")
    finalizers = Sample(program, launched, 4, "", "", False, ())

    def predicted_of_saved(attempt: int) -> float:
        recording, fixed = record(finalizers, attempt=attempt), record(finalizers, fix=True, attempt=attempt)
        (first, *_) = recording.findings
        assert first["kind"] == KIND, brief(first)
        return float(first["saving_s"]) / (recording.loop_s - fixed.loop_s)

    settle(predicted_of_saved, 1.0)


def test_collections_in_the_same_steps_are_no_finding(stagger: Sample, record: Record) -> None:
    def check(attempt: int) -> None:
        found = [one for one in record(stagger, fix=True, attempt=attempt).findings if one["kind"] == KIND]
        assert found == [], [brief(one) for one in found]

    mostly(check)
