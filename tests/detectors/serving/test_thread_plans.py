"""Numbers of threads of prefill and decode are compared where a run had several, and not beyond."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scalana.detectors.facts import Facts
from scalana.detectors.serving.detector import ServingThreads
from scalana.detectors.serving.thread_plans import SERVING, serving_of
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.requests import DECODE, KEY, PREFILL, requests_of
from scalana.report.findings.claims import claim
from scalana.report.topics.serving_requests.serving import sections
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns

TOKENS = 100
NUMBERS = ("tokens", "batch", "threads", "process_cpu_ns", "median_ns", "p95_ns", "uncached")


def spans_of(requests):
    """What is written of requests: ``(threads of prefill, its ms, threads of decode, ms of a token)``, one after
    the other; and behind these, where they have it, which part of the weights lies on another node."""
    spans, now_s = [], 0.0
    for first, prefill_ms, second, token_ms, *far in requests:
        place = (
            {"node": 1, "cores": 2, "memory_node": int(far[0] < 0.5), "far_permille": int(1e3 * far[0])} if far else {}
        )
        for phase, tokens, threads, took_ms in (
            (PREFILL, 512, first, prefill_ms),
            (DECODE, TOKENS, second, TOKENS * token_ms),
        ):
            token_ns = int(token_ms * 1e6)
            numbers = zip(NUMBERS, (tokens, 1, threads, int(took_ms * 1e6), token_ns, token_ns, 0), strict=True)
            spans.append(Span(0, "other", phase, now_s, now_s + took_ms * 1e-3, {KEY: phase, **dict(numbers), **place}))
            now_s = spans[-1].end_s
    return as_columns(spans, [0]), now_s


def found_in(requests):
    spans, seconds = spans_of(requests)
    timeline, names = simulate([[("work", "generate", 1e3 * seconds)]])
    psg = structure(names)
    run = RunInfo(seconds=seconds, ranks=1)
    return ServingThreads().detect(Facts(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans)))


def test_the_slower_number_is_named_with_what_the_faster_one_takes() -> None:
    fast = [(4, 100.0 + n, 1, 10.0 + 0.1 * n) for n in range(6)]
    slow = [(4, 100.0 + n, 4, 15.0 + 0.1 * n) for n in range(6)]
    outcome = found_in([one for pair in zip(fast, slow, strict=True) for one in pair])
    (finding,) = [verdict.finding for verdict in outcome.verdicts]
    assert finding.kind == "serving-threads"
    assert claim(finding, 1).startswith("The decode takes 15 ms a token with 4 threads, and 10 ms with 1")
    assert finding.saving_s == pytest.approx(6 * TOKENS * 5e-3, rel=0.01)
    assert "Set 1 for the decode" in finding.advice and "4 for the prefill" in finding.advice


@pytest.mark.parametrize(
    "requests",
    [
        [(2, 100.0, 2, 10.0 + n) for n in range(12)],
        [(2, 100.0, 1 + n % 2, 10.0 + n) for n in range(12)],
        [(2, 100.0, 1, 10.0)] * 10 + [(2, 100.0, 2, 15.0)],
        [(2, 100.0, 1, 10.0)] * 6 + [(2, 100.0, 2, 10.2)] * 6,
    ],
    ids=["one number", "requests that differ", "too few", "little to gain"],
)
def test_nothing_is_said_where_no_number_is_faster(requests) -> None:
    outcome = found_in(requests)
    assert outcome.verdicts == []
    assert len(outcome.sections[SERVING.name].requests) == len(requests)


def test_what_is_saved_counts_the_slow_tokens_of_the_faster_number() -> None:
    """One in six requests is slow with either number, as when another program has the cores."""
    fast = [(4, 100.0, 1, 30.0 if n == 5 else 10.0) for n in range(6)]
    slow = [(4, 100.0, 4, 40.0 if n == 5 else 20.0) for n in range(6)]
    (verdict,) = found_in([*fast, *slow]).verdicts
    took_s = [sum(TOKENS * one[3] / 1e3 for one in some) for some in (slow, fast)]
    assert verdict.finding.saving_s == pytest.approx(took_s[0] - took_s[1])


def test_both_phases_save_where_one_number_is_best_for_both() -> None:
    fast = [(1, 100.0 + n, 1, 10.0 + 0.1 * n) for n in range(6)]
    slow = [(4, 130.0 + n, 4, 15.0 + 0.1 * n) for n in range(6)]
    (verdict,) = found_in([*fast, *slow]).verdicts
    assert verdict.finding.saving_s == pytest.approx(6 * (TOKENS * 5e-3 + 30e-3))
    assert verdict.finding.evidence.thread_plan.serving_phase == DECODE and "both phases" in verdict.finding.advice


def test_a_number_whose_typical_token_is_fast_but_whose_requests_take_longer_is_not_faster() -> None:
    spans, _ = spans_of([(1, 100.0, 1 + n % 2, 20.0 if n % 2 else 15.0) for n in range(12)])
    requests = requests_of(spans, 1)
    assert requests is not None
    typical = replace(requests, token_s=np.where(requests.decode.threads == 2, 0.005, requests.token_s))
    serving = serving_of(typical, 0)
    assert serving.fastest(DECODE).threads == 1


@pytest.mark.parametrize(("threads", "said"), [((2, 2), True), ((1, 1), False), ((2, 4), False)])
def test_one_number_of_threads_for_both_phases_is_said(threads: tuple[int, int], said: bool) -> None:
    outcome = found_in([(threads[0], 100.0, threads[1], 10.0)] * 6)
    assert (f"Both phases share {threads[0]} threads" in shown(outcome)) == said


def test_weights_on_another_node_cost_what_those_on_the_same_one_show() -> None:
    near = [(2, 100.0 + n, 2, 10.0 + 0.1 * n, 0.0) for n in range(6)]
    far = [(2, 100.0 + n, 2, 15.0 + 0.1 * n, 1.0) for n in range(6)]
    outcome = found_in([one for pair in zip(near, far, strict=True) for one in pair])
    (finding,) = [verdict.finding for verdict in outcome.verdicts]
    assert finding.kind == "serving-weights"
    assert claim(finding, 1) == (
        "The decode of rank 0 takes 15 ms a token with 100 % of the weights on another NUMA node than its threads, "
        "and 10 ms with 0 % (medians of 6 and 6 requests)."
    )
    assert finding.saving_s == pytest.approx(6 * TOKENS * 5e-3, rel=0.01)
    assert "Threads run on node 1, and weights lie on node 0" in finding.advice
    assert "not known" not in shown(outcome)


@pytest.mark.parametrize(
    "near",
    [[], [(4, 100.0, 4, 10.0, 0.0)] * 6, [(2, 100.0, 2, 10.0, 0.0)]],
    ids=["none", "other numbers of threads", "too few"],
)
def test_no_cost_without_requests_that_show_it(near) -> None:
    far = [(2, 100.0 + n, 2, 15.0 + 0.1 * n, 1.0) for n in range(6)]
    outcome = found_in([*near, *far])
    assert not [verdict for verdict in outcome.verdicts if verdict.finding.kind == "serving-weights"]
    assert "For 6 requests 100 % of the weights lie on another NUMA node" in shown(outcome)


def test_numbers_of_threads_are_compared_at_one_place() -> None:
    """One thread near is faster than four far away, for the place alone."""
    near = [(1, 100.0 + n, 1, 10.0 + 0.1 * n, 0.1) for n in range(6)]
    far = [(4, 100.0 + n, 4, 15.0 + 0.1 * n, 1.0) for n in range(6)]
    assert found_in([*near, *far]).verdicts == []


def shown(outcome) -> str:
    parts = sections(SimpleNamespace(section=lambda name: outcome.sections[name.name]))  # type: ignore[arg-type]
    return str(parts)


def test_a_run_without_requests_has_no_section() -> None:
    assert not found_in([]).sections
