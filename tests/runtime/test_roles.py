"""How a process learns what it is in a job of several worlds."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.runtime.record.format import ProcessRecord
from tests.runtime import jobs

RANK = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}


def told(record: ProcessRecord) -> tuple[str, str, str]:
    """What kind of process it is, its role, and who says so."""
    return record.role, record.meta.get("part", ""), record.meta.get("part_source", "")


@pytest.mark.parametrize(
    ("code", "variables", "expected"),
    [
        ("pass", {"SCALANA_ROLE": "verifier"}, ("member", "verifier", "environment")),
        ("pass", {**RANK, "SCALANA_ROLE": "rollout"}, ("rank", "rollout", "environment")),
        ("pass", {**RANK, "ROLE_NAME": "trainer"}, ("rank", "trainer", "torchrun")),
        ("pass", {**RANK, "ROLE_NAME": "default"}, ("rank", "", "")),
        ("import scalana; scalana.role('judge')", {"SCALANA_ROLE": "rollout"}, ("member", "judge", "program")),
        ("import scalana; scalana.role('judge')", {**RANK, "ROLE_NAME": "x"}, ("rank", "judge", "program")),
    ],
)
def test_who_tells_a_role(tmp_path: Path, code: str, variables: dict[str, str], expected: tuple[str, str, str]) -> None:
    jobs.python(code, tmp_path, extra=variables)
    (record,) = jobs.records(tmp_path)
    assert told(record) == expected


def test_a_number_and_children_of_their_own(tmp_path: Path) -> None:
    code = """
import os, sys, scalana
scalana.role("verifier", rank=3)
if os.fork() == 0:
    if os.fork() == 0:
        scalana.role("judge")
    else:
        os.wait()
    sys.exit(0)
os.wait()
"""
    jobs.python(code, tmp_path)
    by_part = {record.meta.get("part", ""): record for record in jobs.records(tmp_path)}
    assert told(by_part["verifier"]) == ("member", "verifier", "program")
    assert by_part["verifier"].meta["part_rank"] == "3"
    # What is forked is not what its parent was, unless it says so.
    assert told(by_part[""]) == ("process", "", "")
    assert by_part[""].meta["parent_record"] == by_part["verifier"].file.name
    assert told(by_part["judge"]) == ("member", "judge", "program")
