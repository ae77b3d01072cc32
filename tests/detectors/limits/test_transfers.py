"""Communication that limits all ranks: which seconds are counted, and whether fewer calls or fewer bytes help more."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.limits.advice import ADVICE_COMBINE, ADVICE_FEWER_BYTES
from scalana.detectors.limits.transfers.communication import communication
from scalana.detectors.limits.transfers.transfer_model import transfer_model
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.report.findings.sentences import sentences
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

PACKET = 4096


def sent_s(nbytes: int, handshake_s: float, packet_s: float) -> float:
    """A message that is played: it is announced and answered, and then goes in packets."""
    clock_s = 2 * handshake_s
    while nbytes > 0:
        clock_s, nbytes = clock_s + packet_s, nbytes - PACKET
    return clock_s


@pytest.mark.parametrize(("handshake_s", "packet_s"), [(100e-6, 1e-6), (2e-6, 20e-6), (30e-6, 5e-6)])
def test_fewer_calls_and_fewer_bytes_save_what_comes_out(handshake_s: float, packet_s: float) -> None:
    random = np.random.default_rng(1)
    sizes = random.choice([PACKET, 16 * PACKET, 64 * PACKET], 300)
    busy = 1.0 + random.exponential(0.5, len(sizes)) * (random.random(len(sizes)) < 0.5)  # others have the core
    seconds = np.array([sent_s(int(size), handshake_s, packet_s) for size in sizes]) * busy
    model, size, count = transfer_model(sizes, seconds), 16 * PACKET, 8
    whole_s = count * sent_s(size, handshake_s, packet_s)
    one_call_s = sent_s(count * size, handshake_s, packet_s)
    half_s = count * sent_s(size // 2, handshake_s, packet_s)
    assert model.saved_by_one_call(size, count) == pytest.approx(1 - one_call_s / whole_s, abs=0.03)
    assert model.saved_by_half_the_bytes(size) == pytest.approx(1 - half_s / whole_s, abs=0.03)


def test_calls_of_one_size_are_latency_if_they_are_short_and_bytes_if_they_are_long() -> None:
    short, long = (
        transfer_model(np.full(20, size), np.full(20, took)) for size, took in ((8000, 3e-4), (25_000_000, 0.05))
    )
    assert short.saved_by_one_call(8000, 8) > short.saved_by_half_the_bytes(8000)
    assert long.saved_by_one_call(25e6, 8) < long.saved_by_half_the_bytes(25e6)


def test_transfers_of_other_threads_alone_are_no_limit() -> None:
    """Those of queues and pools: what is said of a step is said of main threads."""
    profile: Any = SimpleNamespace(places=(SimpleNamespace(is_transfer=True, mean_s=0.0),), has_steps=False)
    facts: Any = SimpleNamespace(timeline=SimpleNamespace(ranks=2), run=RunInfo())
    assert communication(profile, facts) == []


def test_the_finding_says_what_it_counts_and_names_what_helps_most_first() -> None:
    """Eight small messages in a step, of which half take four times as long, as where a core is busy."""
    whole = [0, 1]
    calls = [("coll", "allreduce", whole, -1, 1.0 if call % 2 else 4.0) for call in range(8)]
    timeline, names = simulate(
        [[("coll", "barrier", whole, -1), *[("work", "forward", 10.0), *calls] * 12] for _ in whole]
    )
    timeline = replace(timeline, calls=replace(timeline.calls, nbytes=np.full(len(timeline.calls), 8000)))
    psg = structure(names)
    run = RunInfo(ranks=2, seconds=float(timeline.locations.end_s.max()))
    end_s = timeline.calls.exit_s.reshape(2, -1)[:, 8::8].T
    start_s = np.concatenate((np.zeros((1, 2)), end_s[:-1]))
    steps = Steps("trainer", np.arange(12), start_s, end_s)
    analysis = analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run), steps)
    (finding,) = [one for one in analysis.findings if one.kind == "communication-bound"]
    partial = analyze(replace(analysis.ppg, run=replace(run, unrecorded_results=3)), steps)
    assert not [one for one in partial.findings if one.kind == "communication-bound"], "it may be waiting"
    known, limit = finding.evidence.transfers, finding.evidence.step_limit
    assert known is not None and limit is not None
    whole_s = float(analysis.waits.transfer_s(timeline).sum()) / 2
    assert known.calls_s == pytest.approx(whole_s / 12, rel=0.05)
    assert limit.limit_s == pytest.approx(0.4 * known.calls_s, rel=0.05)
    text = " ".join(sentences(finding, run))
    assert "is counted here" in text and "is left out" in text
    assert finding.advice.startswith(ADVICE_COMBINE["calls"]) and ADVICE_FEWER_BYTES not in finding.advice
    assert known.in_one_call_step_s < known.half_bytes_step_s < (limit.step_s or 0.0)
