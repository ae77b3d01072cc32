"""Traces of an emulated job with known faults: rank, cause and seconds must come out, to within a tenth."""

from __future__ import annotations

import dataclasses

import pytest

import scalana
from scalana.detectors.annotate.advice import GROWS
from scalana.detectors.kinds import kind_of
from scalana.importers.registry import import_traces
from tests.tools.device_job import MS, US, Fault, Job

WITHIN = 0.1


def report_of(job, folder):
    """Import the traces of a job, and analyse the run."""
    import_traces([str(job.write(folder / "traces"))], str(folder / "run"), str(folder))
    return scalana.analyze(folder / "run")


def length_s(job):
    """How long the last rank takes, from the start of the job."""
    events = [event for trace in job.traces() for event in trace["traceEvents"]]
    return max(event["ts"] + event["dur"] for event in events) * 1e-6


def costs_s(job):
    """By how much a fault makes a job longer."""
    return length_s(job) - length_s(dataclasses.replace(job, fault=Fault()))


def of_single_ranks(report):
    """The findings that are not about what all ranks share: short kernels make any of these jobs launch-bound."""
    return [finding for finding in report.findings if not kind_of(finding.kind).is_shared]


def only(report):
    """The one finding of single ranks that there must be, before all others."""
    assert len(of_single_ranks(report)) == 1, [(f.kind, f.ranks, f.function, f.lost_s) for f in report.findings]
    assert report.findings[0] == of_single_ranks(report)[0]
    return report.findings[0]


CASES = {
    "late host": (
        Job(fault=Fault(2, load_ns=5 * MS)), "launch-gap", "enumerate(DataLoader)", ("cause", "the DataLoader")
    ),
    "late stream": (Job(fault=Fault(1, kernel_ns=3 * MS)), "device-late", "aten::sort", ("kernel", "radix_sort")),
    "slow device": (Job(fault=Fault(3, slowdown=1.3)), "device-late", "", ("slower", "1.30 times")),
    "launch-bound": (
        Job(forward_ns=10 * US, backward_ns=15 * US, fault=Fault(0, launch_ns=80 * US)),
        "launch-gap",
        "",
        ("cause", "the launch overhead of short kernels"),
    ),
    "old names and no groups": (
        Job(fault=Fault(1, kernel_ns=3 * MS), old=True, kernel="ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
        "device-late",
        "aten::sort",
        ("kernel", "radix_sort"),
    ),
    "rccl": (
        Job(fault=Fault(1, kernel_ns=3 * MS), kernel="rcclGenericKernel<1, false>(ncclDevKernelArgsStorage)"),
        "device-late",
        "aten::sort",
        ("kernel", "radix_sort"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_planted(name, tmp_path):
    job, kind, function, (key, value) = CASES[name]
    report = report_of(job, tmp_path)
    finding = only(report)
    assert (finding.kind, finding.ranks) == (kind, [job.fault.rank])
    assert finding.function.startswith(function)
    assert finding.evidence.as_dict()[key] == value
    waited_s = report.analysis.sections["device"].waiting_s
    assert finding.lost_s == pytest.approx(waited_s, rel=WITHIN), "of all waiting"
    assert finding.saving_s == pytest.approx(costs_s(job), rel=WITHIN)


MORE = {
    "longer inputs": (
        Job(fault=Fault(1, lengths=1.5), shapes=True), "inputs", "on inputs of 8x192x64, 64x64, where others"
    ),
    "more kernels": (Job(fault=Fault(1, kernel_ns=3 * MS), shapes=True), "number", "of which it runs 6, others 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more_work_is_told_from_a_slow_device(name, tmp_path):
    job, different, text = MORE[name]
    findings = report_of(job, tmp_path).findings
    assert {(f.kind, tuple(f.ranks)) for f in findings} == {("device-late", (1,))}
    for finding in findings:
        assert finding.evidence.as_dict()["different"] == different and text in str(finding.evidence.as_dict()["work"])
    assert sum(f.saving_s for f in findings) == pytest.approx(costs_s(job), rel=WITHIN)


def test_a_slow_device_is_one_whatever_shapes_say(tmp_path):
    finding = only(report_of(Job(fault=Fault(3, slowdown=1.3), shapes=True), tmp_path))
    assert finding.evidence.as_dict()["slower"] == "1.30 times"


def test_the_same_work_for_longer_is_no_more_work(tmp_path):
    """One layer of the backward pass takes longer on one device, for as much of it."""
    job = Job(fault=Fault(1, less_ns=-2 * MS), shapes=True)
    finding = only(report_of(job, tmp_path))
    assert (finding.kind, finding.ranks, finding.evidence.as_dict()["different"]) == ("device-late", [1], "time")
    assert "no more of them than others on inputs of the same shape" in str(finding.evidence.as_dict()["work"])


def test_what_the_fault_itself_takes_is_measured(tmp_path):
    job = Job(fault=Fault(1, kernel_ns=3 * MS))
    evidence = only(report_of(job, tmp_path)).evidence.as_dict()
    assert evidence["seconds_here"] == pytest.approx(job.steps * 3e-3, rel=WITHIN)
    assert evidence["seconds_others"] == 0.0


def test_waiting_for_the_device_is_named_where_one_rank_does_it_more(tmp_path):
    job = Job(forward_ns=60 * US, backward_ns=60 * US, fault=Fault(0, sync=True))
    findings = of_single_ranks(report_of(job, tmp_path))
    assert {(f.kind, tuple(f.ranks), f.evidence.as_dict()["cause"]) for f in findings} == {
        ("launch-gap", (0,), "device synchronisation")
    }
    assert sum(f.saving_s for f in findings) == pytest.approx(costs_s(job), rel=WITHIN)


def test_communication_hidden_behind_kernels_costs_nothing(tmp_path):
    job = Job(fault=Fault(1, kernel_ns=400 * US, less_ns=400 * US))
    report = report_of(job, tmp_path)
    assert not report.findings
    account = report.analysis.sections["device"]
    # Three ranks wait 0.4 ms in every first collective, and all transfer for 0.2 ms, while they compute.
    assert account.hidden_s == pytest.approx(job.steps * (3 * 0.4e-3 + 4 * 0.2e-3), rel=WITHIN)
    assert account.waiting_s == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("old", [False, True])
def test_late_at_the_beginning_is_initial_skew(old, tmp_path):
    report = report_of(Job(fault=Fault(2, starts_late_ns=20 * MS), old=old), tmp_path)
    finding = only(report)
    assert (finding.kind, finding.ranks) == ("initial-skew", [2])
    assert finding.evidence.as_dict()["late_s"] == pytest.approx(20e-3, rel=WITHIN)
    assert finding.lost_s == pytest.approx(3 * 20e-3, rel=WITHIN)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_balanced_job_has_no_finding(ranks, tmp_path):
    assert not report_of(Job(ranks=ranks, noise=0.02), tmp_path).findings


@pytest.mark.parametrize("name", ["late host", "slow device", "launch-bound"])
def test_shares_add_up(name, tmp_path):
    report = report_of(CASES[name][0], tmp_path)
    account = report.analysis.sections["device"]
    parts = account.busy_s + account.waiting_s + account.transfer_s + account.gap_s
    assert parts == pytest.approx(account.total_s)
    assert report.to_text().count("On the devices") == 1


def test_two_faults_are_two_findings(tmp_path):
    """On different ranks, at different places of the step."""
    job = Job(fault=Fault(1, kernel_ns=3 * MS))
    other = dataclasses.replace(job, fault=Fault(1, load_ns=5 * MS, kernel_ns=3 * MS))
    findings = report_of(other, tmp_path).findings
    assert {(f.kind, tuple(f.ranks)) for f in findings} == {("device-late", (1,)), ("launch-gap", (1,))}
    assert sum(f.saving_s for f in findings) == pytest.approx(costs_s(other), rel=WITHIN)


def test_a_kernel_that_takes_longer_from_step_to_step_is_told_so(tmp_path):
    steps, ranks, first_s, more_s = 30, 4, 1e-3, 0.2e-3
    job = Job(ranks=ranks, steps=steps, fault=Fault(1, kernel_ns=round(first_s * 1e9), growth_ns=round(more_s * 1e9)))
    finding = only(report_of(job, tmp_path / "grows"))
    told = finding.evidence.as_dict()["over_steps"]
    assert (told["shape"], told["cost"], told["steps"], told["of"]) == ("line", "waiting", steps, steps)
    # Others wait for as long as the kernel takes.
    assert told["per_step_s"] == pytest.approx((ranks - 1) * more_s, rel=WITHIN)
    assert told["after_s"] == pytest.approx((ranks - 1) * (first_s + (steps - 1) * more_s), rel=WITHIN)
    assert told["so_far_s"] == pytest.approx(finding.lost_s, rel=WITHIN) and GROWS in finding.advice
    steady = only(report_of(dataclasses.replace(job, fault=Fault(1, kernel_ns=3 * MS)), tmp_path / "steady"))
    assert "over_steps" not in steady.evidence.as_dict() and GROWS not in steady.advice
