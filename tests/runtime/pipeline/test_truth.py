"""What is recorded of a job, beside what the job itself wrote down of it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.facts import Facts, Need
from scalana.detectors.pipeline.measured.replayable import ActionRows, Between
from scalana.graphs.spans.actions import Actions, ScheduleRuns
from tests.detectors.pipeline.truth import read_truth
from tests.graphs.runs import build
from tests.needs import torch_or_skip
from tests.runtime import jobs
from tests.tools.fork_server import launcher

torch_or_skip()
pytestmark = [pytest.mark.slow, pytest.mark.measured]

JOB = jobs.ROOT / "tests" / "tools" / "pipeline_job.py"


def as_rows(actions: Actions) -> ActionRows:
    """The actions as the diagnosis of pipelines takes them."""
    there = {column.name: getattr(actions, column.name, None) for column in fields(ActionRows)}
    # Of the messages, of loaders of data, of reductions, of tokens that go back to the first stage, of devices.
    missing = ["sent_s", "data_s", "gradients_s", "returned", "host_most_s"]
    assert [name for name, column in there.items() if column is None] == missing
    return ActionRows(**{name: column for name, column in there.items() if column is not None})


def as_between(runs: ScheduleRuns) -> Between:
    return Between(*(getattr(runs, column.name) for column in fields(Between)))


def in_order(rows: ActionRows) -> ActionRows:
    return rows.take(np.lexsort((rows.begin_s, rows.step, rows.rank)))


@pytest.mark.parametrize("schedule", ["1F1B", "DualPipeV"])
def test_recorded_times_are_those_of_the_job(schedule: str, tmp_path: Path) -> None:
    options = ["--schedule", schedule, "--nmb", "4", "--steps", "2", "--f-ms", "6", "--i-ms", "6", "--w-ms", "6"]
    options += ["--slow", "1:1.5", "--optimizer-ms", "3", "--truth", str(tmp_path / "truth.json")]
    done = jobs.run([*launcher(2), str(JOB), *options], tmp_path / "run")
    assert done.returncode == 0, done.stderr
    true, beside = read_truth(tmp_path / "truth.json")
    facts = Facts(build(tmp_path / "run"))
    assert facts.has(Need.ACTIONS)
    (pipeline,) = facts.pipelines
    actions, runs = pipeline.training()
    true, seen = in_order(true), in_order(as_rows(actions))
    for column in ("step", "rank", "kind", "stage", "microbatch", "joined"):
        assert (getattr(seen, column) == getattr(true, column)).all(), column
    # One clock, two origins; the job's own look at it stands around the recorder's.
    origin = np.median(true.begin_s - seen.begin_s)
    for column in ("begin_s", "end_s", "wait_begin_s", "wait_end_s"):
        other, own = getattr(true, column), getattr(seen, column) + origin
        assert (np.isnan(other) == np.isnan(own)).all(), column
        assert np.nanmedian(np.abs(other - own)) < 0.0005 and np.nanquantile(np.abs(other - own), 0.9) < 0.002, column
    assert np.median(np.abs(true.send_wait_s - seen.send_wait_s)) < 0.0005
    between = as_between(runs)
    assert np.median(np.abs(between.enter_s + origin - beside.enter_s)) < 0.001
    assert between.optimizer_s.shape == beside.optimizer_s.shape
