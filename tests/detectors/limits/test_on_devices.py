"""What all ranks and their devices spend alike: named, and a step predicted without it, against the changed job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import scalana
from scalana.detectors.kinds import kind_of
from scalana.detectors.limits.causal_profile import LIMITS, Activity
from scalana.importers.registry import import_traces
from tests.detectors.limits.device_jobs import CASES, SHORT, predicted_s, report_of, step_s, with_shared
from tests.tools.device_job import MS, US, Fault, Job

WITHIN = 0.1


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_all_spend_is_named_and_predicted(name: str, ranks: int, tmp_path: Path) -> None:
    case = CASES[name]
    if ranks == 1 and case.kind == "communication-bound":
        pytest.skip("one rank has nobody to communicate with")
    job, changed = replace(case.job, ranks=ranks), replace(case.changed, ranks=ranks)
    report = report_of(job, tmp_path)
    first = report.findings[0]
    assert (first.kind, first.ranks) == (case.kind, list(range(ranks)))
    assert first.function.startswith(case.function)
    limit = first.evidence.step_limit
    assert limit is not None and limit.step_s == pytest.approx(step_s(job), rel=0.01)
    assert predicted_s(first, case.half) == pytest.approx(step_s(changed), rel=WITHIN)
    assert limit.step_s - step_s(changed) > 0.05 * limit.step_s, "the change must be worth predicting"
    text = " ".join(report.to_text().split())
    assert ("a step would take" in text) and ("Nothing stands out" in text) == (not kind_of(first.kind).is_fault)


def test_a_wait_for_what_the_step_before_launched(tmp_path: Path) -> None:
    """Hosts that wait at the begin of a step do not launch ahead; without the wait they would."""
    job = Job(ranks=1, steps=20, load_ns=300 * US, forward_ns=45 * US, backward_ns=45 * US, waits="begin")
    report = report_of(job, tmp_path)
    profile = report.analysis.section(LIMITS)
    assert profile is not None
    wait = next(place for place in profile.places if place.activity is Activity.DEVICE_WAIT)
    assert wait.without_s == pytest.approx(step_s(replace(job, waits="nowhere")), rel=WITHIN)
    assert wait.without_s < 0.9 * profile.step_s
    assert report.findings[0].kind == "input-bound", "devices have nothing to do while hosts load after the wait"
    assert predicted_s(report.findings[0], False) == pytest.approx(step_s(replace(job, load_ns=0)), rel=WITHIN)


def test_a_late_rank_and_what_all_share_are_two_findings(tmp_path: Path) -> None:
    late = Fault(1, kernel_ns=1 * MS)
    job = replace(with_shared(SHORT, sync=True), ranks=3, fault=late)
    report = report_of(job, tmp_path)
    found = {(one.kind, tuple(one.ranks)): one for one in report.findings}
    assert [one.kind for one in report.findings][:2] == ["device-late", "sync-bound"]
    assert found["device-late", (1,)].saving_s == pytest.approx(job.steps * 1e-3, rel=WITHIN)
    without_s = step_s(replace(job, shared=Fault()))
    assert predicted_s(found["sync-bound", (0, 1, 2)], False) == pytest.approx(without_s, rel=WITHIN)


def test_a_little_more_on_one_rank_is_no_finding_of_its_own(tmp_path: Path) -> None:
    job = Job(load_ns=5 * MS, fault=Fault(1, load_ns=400 * US))
    assert [(one.kind, one.ranks) for one in report_of(job, tmp_path).findings] == [("input-bound", [0, 1, 2, 3])]


def test_much_more_on_one_rank_is(tmp_path: Path) -> None:
    """What all share costs what the others spend, and the late rank the rest."""
    job = Job(load_ns=5 * MS, fault=Fault(1, load_ns=3 * MS))
    shared, late = report_of(job, tmp_path).findings
    assert (shared.kind, shared.ranks, late.kind, late.ranks) == ("input-bound", [0, 1, 2, 3], "launch-gap", [1])
    assert predicted_s(shared, False) == pytest.approx(step_s(replace(job, load_ns=0)), rel=WITHIN)
    assert late.saving_s == pytest.approx(job.steps * 3e-3, rel=WITHIN)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_devices_that_are_busy_have_no_limit(ranks: int, tmp_path: Path) -> None:
    report = report_of(Job(ranks=ranks, noise=0.02), tmp_path)
    assert not report.findings and "Nothing stands out" in report.to_text()


def test_the_critical_path_adds_up_to_a_step(tmp_path: Path) -> None:
    for name in ("waits", "loading", "kernels"):
        profile = report_of(CASES[name].job, tmp_path / name).analysis.section(LIMITS)
        assert profile is not None
        whole_s = sum(float(place.path_s.sum()) for place in profile.places) + profile.other_s
        assert whole_s == pytest.approx(profile.step_s, rel=0.01)


def test_one_trace_of_several_ranks_says_what_limits_that_rank(tmp_path: Path) -> None:
    """What others do is not known, and how long communication waits for them is not either."""
    traces = CASES["waits"].job.write(tmp_path / "traces")
    (traces / "rank1.json").unlink()
    import_traces([str(traces)], str(tmp_path / "run"), str(tmp_path))
    first = scalana.analyze(tmp_path / "run").findings[0]
    assert (first.kind, first.ranks) == ("sync-bound", [0])
    assert predicted_s(first, False) == pytest.approx(step_s(CASES["waits"].changed), rel=WITHIN)


def test_loading_is_known_by_its_functions_where_nothing_else_says_so(tmp_path: Path) -> None:
    """Old traces have no span of it."""
    job = CASES["loading"].job
    (tmp_path / "traces").mkdir()
    for number, trace in enumerate(job.traces()):
        for event in trace["traceEvents"]:
            if event["name"].startswith("enumerate(DataLoader)"):
                event["name"], event["cat"] = "_BaseDataLoaderIter.__next__", "cpu_op"
        (tmp_path / "traces" / f"rank{number}.json").write_text(json.dumps(trace))
    import_traces([str(tmp_path / "traces")], str(tmp_path / "run"), str(tmp_path))
    first = scalana.analyze(tmp_path / "run").findings[0]
    assert (first.kind, first.ranks) == ("input-bound", [0, 1])
    assert predicted_s(first, True) == pytest.approx(step_s(CASES["loading"].changed), rel=WITHIN)
