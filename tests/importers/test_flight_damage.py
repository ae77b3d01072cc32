"""Dumps as jobs leave them: some missing, empty, torn, or written after the timeout. There is always an answer or a
sentence, and the one rank that did not come is named."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scalana
from scalana.errors import RunDataError
from scalana.importers.errors import TraceError
from scalana.importers.registry import import_traces
from tests.tools.flight_dumps import START, FlightJob

STATES = ("whole", "whole", "empty", "torn", "zero", "missing")


@dataclass(frozen=True)
class Left:
    """What a job left behind."""

    job: FlightJob
    states: tuple[str, ...]
    """Of the dump of every rank."""
    part: float
    """How much of a torn file is there."""
    as_json: bool
    status: bool
    """Whether dumps say how far their ranks were."""
    active_only: bool
    """Whether dumps hold only what is not complete."""
    after: bool
    """Whether dumps were written after the timeout, when what was waited for is retired."""

    def dumps(self):
        """The dump of every rank, and what it is for its file."""
        for rank, dump in enumerate(self.job.dumps()):
            entries = dump["entries"]
            called = len(entries)
            stuck = self.job.missing >= 0 and rank != self.job.missing
            if self.after:
                for entry in entries:
                    entry["retired"] = True
            if self.status:
                done = called - (stuck and not (self.after and self.job.library == "gloo"))
                dump["pg_status"] = {"0": {"last_enqueued_collective": called, "last_completed_collective": done}}
            if self.active_only:
                dump["entries"] = entries[-1:] if stuck else []
            if self.states[rank] == "empty":
                dump["entries"] = []
            yield rank, dump

    def write(self, folder):
        """Write all files."""
        folder.mkdir(parents=True)
        written = START + self.job.steps * self.job.step_ns + 62 * 10**9
        for rank, dump in self.dumps():
            data = json.dumps(dump).encode() if self.as_json else pickle.dumps(dump, 2)
            state = self.states[rank]
            if state == "missing":
                continue
            size = {"torn": int(len(data) * self.part), "zero": 0}.get(state, len(data))
            file = folder / f"nccl_trace_rank_{rank}"
            file.write_bytes(data[:size])
            os.utime(file, ns=(written, written))
        return folder


@st.composite
def left_behind(draw):
    ranks = draw(st.integers(2, 5))
    return Left(
        job=FlightJob(
            ranks=ranks,
            steps=draw(st.integers(1, 4)),
            missing=draw(st.integers(-1, ranks - 1)),
            library=draw(st.sampled_from(["nccl", "gloo"])),
        ),
        states=tuple(draw(st.sampled_from(STATES)) for _ in range(ranks)),
        part=draw(st.floats(0.0, 0.999)),
        as_json=draw(st.booleans()),
        status=draw(st.booleans()),
        active_only=draw(st.booleans()),
        after=draw(st.booleans()),
    )


def answer(left, folder):
    """The report, or the sentence."""
    try:
        import_traces([str(left.write(folder / "dumps"))], str(folder / "run"), str(folder))
        return scalana.analyze(folder / "run")
    except (TraceError, RunDataError) as error:
        assert str(error).strip()
        return None


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=left_behind())
def test_there_is_an_answer_or_a_sentence(left, tmp_path_factory):
    report = answer(left, tmp_path_factory.mktemp("left"))
    if report is None:
        return
    named = {rank for finding in report.findings if finding.kind == "hang" for rank in finding.ranks}
    whole = {rank for rank, state in enumerate(left.states) if state == "whole"}
    assert not named & (whole - {left.job.missing}), "a rank whose dump shows that it came"


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(left=left_behind(), bad=st.sampled_from(["whole", "empty", "torn", "zero", "missing"]), data=st.data())
def test_the_one_rank_that_did_not_come_is_named(left, bad, data, tmp_path_factory):
    # Of the others, one dump may be damaged as well, if that of the rank in question is whole or empty.
    ranks = left.job.ranks
    missing = data.draw(st.integers(0, ranks - 1))
    others = [rank for rank in range(ranks) if rank != missing]
    states = ["whole"] * ranks
    states[missing] = bad
    if bad in ("whole", "empty") and len(others) > 1:
        states[others[0]] = data.draw(st.sampled_from(["whole", "torn", "zero", "missing"]))
    job = FlightJob(ranks=ranks, steps=left.job.steps, missing=missing, library=left.job.library)
    case = Left(job, tuple(states), left.part, left.as_json, left.status, left.active_only, left.after)
    report = answer(case, tmp_path_factory.mktemp("left"))
    assert report is not None
    hangs = [finding for finding in report.findings if finding.kind == "hang"]
    assert [finding.ranks for finding in hangs] == [[missing]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"profiling_name": "nccl:barrier", "input_sizes": [], "output_sizes": []}, "called barrier where others"),
        ({"input_sizes": [[7]], "output_sizes": [[7]]}, "with 7 Float -> 7 Float, others with 1024x2 Float"),
        ({"input_dtypes": ["Half"], "output_dtypes": ["Half"]}, "with 1024x2 Half -> 1024x2 Half, others with"),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_a_mismatch_is_one_finding_against_the_odd_rank(change, says, after, tmp_path):
    job = FlightJob(missing=2, library="gloo")
    folder = job.write(tmp_path / "dumps")
    for rank, dump in enumerate(job.dumps()):
        if rank == 2:
            dump["entries"].append({**job.dumps()[0]["entries"][-1], **change})
        dump["entries"][-1]["retired"] = after
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, 2))
    import_traces([str(folder)], str(tmp_path / "run"), str(tmp_path))
    report = scalana.analyze(tmp_path / "run")
    (finding,) = report.findings
    assert (finding.kind, finding.ranks) == ("hang", [2])
    assert sum("rank 2 called" in warning and says in warning for warning in report.warnings) == 1


def test_a_device_that_is_stuck_is_named_where_all_have_called(tmp_path):
    """Rank 1 is the only one that does not complete the last but one; the others wait for it in the last."""
    job = FlightJob(missing=1)
    folder = job.write(tmp_path / "dumps")
    for rank, dump in enumerate(job.dumps()):
        if rank == 1:
            dump["entries"][-1].update(state="started", retired=False, time_discovered_completed_ns=None)
            del dump["entries"][-1]["duration_ms"]
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, 2))
    import_traces([str(folder)], str(tmp_path / "run"), str(tmp_path))
    report = scalana.analyze(tmp_path / "run")
    (finding,) = report.findings
    assert (finding.kind, finding.ranks) == ("hang", [1])
    assert any("ranks 0, 2, 3 completed: its device" in warning for warning in report.warnings)


def test_how_far_a_rank_without_operations_was_is_said(tmp_path):
    job = FlightJob(ranks=3, missing=1)
    left = Left(job, ("whole",) * 3, 1.0, False, True, True, False)
    report = answer(left, tmp_path)
    (finding,) = report.findings
    assert finding.ranks == [1]
    says = "the last operation of rank 1 in group 0 is number 11, which it completed"
    assert any(says in warning for warning in report.warnings)


def test_dumps_without_any_operation_say_how_far_ranks_were(tmp_path):
    left = Left(FlightJob(ranks=3, missing=1), ("empty",) * 3, 1.0, False, True, False, False)
    with pytest.raises(TraceError, match=r"no operation.*rank 1 had called 11 collectives of group 0, another rank 12"):
        import_traces([str(left.write(tmp_path / "dumps"))], str(tmp_path / "run"), str(tmp_path))


def test_a_file_of_no_bytes_does_not_spoil_the_others(tmp_path):
    left = Left(FlightJob(missing=1), ("whole", "zero", "whole", "whole"), 1.0, False, False, False, True)
    files = sorted(map(str, left.write(tmp_path / "dumps").iterdir()))
    import_traces(files, str(tmp_path / "run"), str(tmp_path))
    report = scalana.analyze(tmp_path / "run")
    assert report.findings[0].ranks == [1]
    assert any("nccl_trace_rank_1: empty file" in warning for warning in report.warnings)


@pytest.mark.parametrize("name", ["nccl_trace_rank_99999999999", "nccl_trace_rank_1048576"])
def test_a_rank_that_no_job_has_is_refused(name, tmp_path):
    (tmp_path / name).write_bytes(pickle.dumps(FlightJob().dumps()[0], 2))
    with pytest.raises(TraceError, match="is not the rank"):
        import_traces([str(tmp_path / name)], str(tmp_path / "run"), str(tmp_path))


ODD = st.sampled_from([None, "", "x", -1, 1 << 70, [], {}, [[]], [None], ["0"], {"0": None}, True, 1.5, float("nan")])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_of_any_kind_do_no_harm(data, tmp_path_factory):
    job = FlightJob(ranks=2, steps=2, missing=1)
    folder = tmp_path_factory.mktemp("odd") / "dumps"
    folder.mkdir()
    for rank, dump in enumerate(job.dumps()):
        dump["pg_status"] = {"0": {"last_enqueued_collective": 2 - rank, "last_completed_collective": 1}}
        for part in (dump, dump["pg_config"]["0"], dump["pg_status"]["0"], *dump["entries"]):
            if data.draw(st.integers(0, 3)) == 0:
                part[data.draw(st.sampled_from(sorted(part)))] = data.draw(ODD)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump, 2))
    try:
        import_traces([str(folder)], str(folder.parent / "run"), str(folder))
        scalana.analyze(folder.parent / "run")
    except (TraceError, RunDataError) as error:
        assert str(error).strip()
