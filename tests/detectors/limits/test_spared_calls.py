"""Calls that a step could do without: which they are, and what a step takes really without them."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.limits.advice import ADVICE_SPARED, SPARED
from scalana.detectors.limits.causal_profile import causal_profile
from scalana.detectors.limits.transfers.communication import communication
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.steps.steps import Steps
from scalana.report.findings.sentences import sentences
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

STEPS, BOTH = 12, [0, 1]
FILE = "/job/train.py"
Step = Callable[[int], list[tuple]]


def calls(operation: str, count: int, taken_ms: float) -> list[tuple]:
    """So many collectives, one after the other."""
    return [("coll", operation, BOTH, 0, taken_ms)] * count


def ended(step: Step) -> float:
    """When a job of such steps ends."""
    timeline, _ = simulate(program(step))
    return float(timeline.locations.end_s.max())


def program(step: Step) -> list[list[tuple]]:
    """Steps that end with a reduction; ranks take different times in turns."""
    ranks = []
    for rank in BOTH:
        own = [[("work", "work", 10.0 + 4.0 * ((number + rank) % 2)), *step(rank)] for number in range(STEPS)]
        ranks.append([action for one in own for action in [*one, *calls("reduce_scatter", 1, 1.0)]])
    return ranks


def found(
    step: Step, nbytes: dict[str, int], source: str, added: bool, passes: int, monkeypatch: pytest.MonkeyPatch
) -> list[Finding]:
    """What is found of communication in a job; its lines say ``source``, and a step goes forward so many times."""
    timeline, names = simulate(program(step))
    lines = ["\n" if name == "reduce_scatter" else f"{source}\n" for name in names]
    monkeypatch.setitem(linecache.cache, FILE, (1, None, lines, FILE))
    size = np.array([nbytes.get(names[vertex], 4_000_000) for vertex in timeline.calls.vertex])
    timeline = replace(timeline, calls=replace(timeline.calls, nbytes=size))
    psg = structure(names)
    psg.added |= set(range(len(names))) if added else set()
    run = RunInfo(ranks=2, seconds=float(timeline.locations.end_s.max()))
    last = timeline.calls.exit_s[timeline.calls.vertex == names.index("reduce_scatter")].reshape(2, -1).T
    steps = Steps("trainer", np.arange(STEPS), np.concatenate((np.zeros((1, 2)), last[:-1])), last)
    facts = Facts(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run), steps)
    module = SimpleNamespace(parent=-1, kind="torch.nn.parallel.distributed.DistributedDataParallel")
    facts.__dict__["modules"] = SimpleNamespace(modules=[module], calls=np.full((1, 3, 2), float(passes)))
    profile = causal_profile(facts)
    assert profile is not None
    return [one.finding for one in communication(profile, facts)]


REDUCED = [("work", "pass", 5.0), *calls("allreduce", 2, 3.0)]
CASES = {
    "reduced-again": (lambda rank: REDUCED * 4, lambda rank: [*REDUCED[:1] * 4, *REDUCED[1:]], "loss.backward()", True),
    "buffers": (lambda rank: calls("broadcast", 1, 8.0), lambda rank: [], "loss = net(x)", True),
    "barriers": (lambda rank: calls("barrier", 1, 2.0), lambda rank: [], "dist.barrier()", False),
    "objects": (lambda rank: calls("gather", 1, 8.0), lambda rank: [], "dist.gather_object(rows, out)", False),
    "single-numbers": (lambda rank: calls("allgather", 5, 1.0), lambda rank: [], "dist.all_gather(out, loss)", False),
}


@pytest.mark.parametrize("name", CASES)
def test_calls_that_a_step_could_do_without_are_named_and_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, without, source, added = CASES[name]
    passes = 4 if name == "reduced-again" else 1
    first, *rest = found(step, {"allgather": 8}, source, added, passes, monkeypatch)
    known, limit = first.evidence.spared, first.evidence.step_limit
    assert known is not None and limit is not None and limit.step_s is not None
    assert (known.spared, first.advice, first.ranks) == (SPARED[name], ADVICE_SPARED[name], BOTH)
    saved_s = (ended(step) - ended(without)) / STEPS
    assert limit.step_s - limit.without_step_s == pytest.approx(saved_s, rel=0.1)
    assert all(one.evidence.spared is None for one in rest)
    text = " ".join(sentences(first, RunInfo(ranks=2)))
    assert ("4 times in a step" in text) == (name == "reduced-again") and "(predicted)" in text


@pytest.mark.parametrize(
    ("step", "nbytes", "source", "added", "passes"),
    [
        pytest.param(lambda rank: REDUCED * 4, {}, "loss.backward()", True, 1, id="buckets-of-one-pass"),
        pytest.param(lambda rank: REDUCED * 4, {}, "loss.backward()", True, 3, id="other-bytes-after-each-pass"),
        pytest.param(lambda rank: REDUCED * 4, {}, "dist.all_reduce(activations)", False, 4, id="no-gradients"),
        pytest.param(lambda rank: calls("broadcast", 1, 8.0), {}, "dist.broadcast(x)", False, 1, id="of-the-program"),
        pytest.param(lambda rank: calls("allgather", 5, 1.0), {}, "dist.all_gather(out, loss)", False, 1, id="large"),
        pytest.param(lambda rank: calls("barrier", 1, 0.01), {}, "dist.barrier()", False, 1, id="short-barriers"),
    ],
)
def test_calls_that_a_step_needs_stay(
    step: Step, nbytes: dict[str, int], source: str, added: bool, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not [one for one in found(step, nbytes, source, added, passes, monkeypatch) if one.evidence.spared]


def test_many_messages_to_one_rank_could_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty small messages each way, as of a halo that is sent cell by cell."""

    def step(rank: int) -> list[tuple]:
        return [*[("send", 1 - rank)] * 30, *[("recv", 1 - rank, 0.3 * number) for number in range(1, 31)]]

    (finding,) = found(step, {"send": 8, "recv": 8}, "MPI_Waitall(n, requests)", False, 1, monkeypatch)
    known = finding.evidence.transfers
    assert known is not None and known.transfer_operation == "recv"
    assert known.calls_in_one == pytest.approx(30, rel=0.1)
    assert "Send one message to each rank" in finding.advice
