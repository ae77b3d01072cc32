"""Waiting for experts, by layer, and what earlier loads and a larger cache bring.

A loop is played here lookup by lookup, with a cache that it really has, and with the changes that a finding advises.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from scalana.detectors.experts.detector import ExpertLoads
from scalana.detectors.experts.expert_waits import EXPERTS
from scalana.detectors.facts import Facts
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.spans.experts.weight_loads import weight_loads_of
from scalana.report.findings.claims import claim
from scalana.report.findings.experts import other_loads
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate
from tests.detectors.spans import Span, as_columns

LAYERS, EXPERTS_EACH, TOP, PASSES = 4, 8, 2, 50
ATTENTION_S, COMPUTE_S, LOAD_S, HIT_S, SIZE = 0.006, 0.003, 0.005, 1e-5, 50_000


def routing(passes=PASSES):
    """Experts of each layer in every pass, some more often than others."""
    draw = np.random.default_rng(2)
    often = 1.0 / np.arange(1, EXPERTS_EACH + 1)
    often /= often.sum()
    return [
        [draw.choice(EXPERTS_EACH, TOP, replace=False, p=often).tolist() for _ in range(LAYERS)] for _ in range(passes)
    ]


class Loop:
    """A thread that computes and looks experts up, a link that loads one after the other, and what is kept."""

    def __init__(self, slots, ahead=0, load_s=LOAD_S, draft_s=0.0, early=False):
        self.slots, self.ahead, self.load_s = slots, ahead, load_s
        self.draft_s, self.early = draft_s, early
        self.models = []
        """Model, begin and end of each call of one."""
        self.kept, self.coming = OrderedDict(), {}
        self.now_s = self.link_s = 0.0
        self.calls = []
        """Function, key, thread, begin, end and loads of each call."""

    def load(self, key, thread):
        begun_s = max(self.link_s, self.now_s)
        self.link_s = begun_s + self.load_s
        self.calls.append(("Store.read", key, thread, begun_s, self.link_s, 1))
        self.keep(key)
        return self.link_s

    def keep(self, key):
        self.kept[key] = True
        self.kept.move_to_end(key)
        while len(self.kept) > self.slots:
            self.kept.popitem(last=False)

    def look_up(self, key):
        asked_s, inside = self.now_s, 0
        if key in self.kept:
            self.now_s = max(self.now_s, self.coming.pop(key, 0.0)) + HIT_S
            self.keep(key)
        else:
            self.now_s, inside = self.load(key, 0) + HIT_S, 1
        self.calls.append(("Store.get", key, 0, asked_s, self.now_s, inside))

    def run(self, passes):
        for turn in passes:
            if self.draft_s:
                for layer, expert in ((at, one) for at in range(LAYERS) for one in turn[at] if self.early):
                    if (layer, expert) not in self.kept:
                        self.coming[layer, expert] = self.load((layer, expert), 1)
                for _ in range(2):
                    self.models.append((7, self.now_s, self.now_s + self.draft_s / 2))
                    self.now_s += self.draft_s / 2
            begun_s = self.now_s
            for layer, experts in enumerate(turn):
                self.now_s += ATTENTION_S
                for later in range(layer, min(layer + self.ahead + 1, LAYERS)) if self.ahead else ():
                    for expert in turn[later]:
                        if (later, expert) not in self.kept:
                            self.coming[later, expert] = self.load((later, expert), 1)
                for expert in experts:
                    self.look_up((layer, expert))
                    self.now_s += COMPUTE_S
            self.models.append((3, begun_s, self.now_s))
        return self


def spans_of(loops, with_layers=True):
    """What is written of the calls of each rank's loop."""
    spans = []
    for rank, loop in enumerate(loops):
        for function, key, thread, begun_s, ended_s, loads in loop.calls:
            text = ",".join(map(str, key if with_layers else key[1:]))
            says = {"kind": "experts", "function": function, "key": text, "object": 0, "loads": loads}
            says |= {"bytes": loads * SIZE, "returns": 1, "model": 0, "tokens": 0}
            spans.append(Span(2 * rank + thread, "other", "experts", begun_s, ended_s, says))
        for model, begun_s, ended_s in loop.models:
            says = {"kind": "model-call", "model": model, "tokens": 1}
            spans.append(Span(2 * rank, "other", "model-call", begun_s, ended_s, says))
    spans.sort(key=lambda one: one.end_s)
    return as_columns(spans, [rank for rank in range(len(loops)) for _ in range(2)])


def outcome_of(loops):
    seconds = max(loop.now_s for loop in loops)
    timeline, names = simulate([[("work", "generate", 1e3 * seconds)] for _ in loops])
    psg = structure(names)
    run = RunInfo(seconds=seconds, ranks=len(loops))
    return ExpertLoads().detect(Facts(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run, spans_of(loops))))


def test_waiting_and_hit_rate_by_layer() -> None:
    loop = Loop(slots=12).run(routing())
    outcome = outcome_of([loop])
    (finding,) = [verdict.finding for verdict in outcome.verdicts]
    lookups = [call for call in loop.calls if call[0] == "Store.get"]
    for one in outcome.sections[EXPERTS.name].layers:
        mine = [call for call in lookups if call[1][0] == int(one.name)]
        loads = sum(call[5] for call in mine)
        assert (one.lookups, one.loads, one.bytes) == (len(mine), loads, loads * SIZE)
        assert one.exposed_s == pytest.approx(loads * LOAD_S, rel=0.01)
    known = finding.evidence.experts
    assert known.expert_slots == 12
    assert known.expert_wait_s == pytest.approx(known.expert_loads * LOAD_S, rel=0.01)
    assert "lookups load (hit rate " in claim(finding, 1)


def test_what_earlier_loads_and_a_larger_cache_really_bring() -> None:
    passes = routing()
    (finding,) = [verdict.finding for verdict in outcome_of([Loop(slots=12).run(passes)]).verdicts]
    others = finding.evidence.experts.other_loads
    predicted = {(one.change, one.layers, one.slots): one.pass_s * PASSES for one in others}
    for layers in (1, 2):
        assert predicted["ahead", layers, 0] == pytest.approx(Loop(12, layers).run(passes).now_s, rel=0.05)
    assert predicted["more-slots", 0, 24] == pytest.approx(Loop(24).run(passes).now_s, rel=0.02)
    saved_s = Loop(12).run(passes).now_s - others[0].pass_s * PASSES
    assert finding.saving_s == pytest.approx(saved_s, rel=0.02)
    assert "a pass through the layers would take" in other_loads(finding)


def test_loads_during_a_draft() -> None:
    passes = routing()
    outcome = outcome_of([Loop(slots=12, draft_s=0.02).run(passes)])
    drafting = outcome.sections[EXPERTS.name].drafting
    assert (drafting.rounds, drafting.mean_calls) == (PASSES, 2.0)
    assert drafting.mean_draft_s == pytest.approx(0.02)
    (finding,) = [verdict.finding for verdict in outcome.verdicts]
    (early,) = [one for one in finding.evidence.experts.other_loads if one.change == "in-draft"]
    really = Loop(slots=12, draft_s=0.02, early=True).run(passes)
    assert early.pass_s * PASSES == pytest.approx(really.now_s, rel=0.05)


def test_a_link_that_is_busy_all_the_time_bounds_what_can_be_hidden() -> None:
    passes = routing()
    loop = Loop(slots=12, load_s=0.03).run(passes)
    (finding,) = [verdict.finding for verdict in outcome_of([loop]).verdicts]
    loads = sum(call[5] for call in loop.calls if call[0] == "Store.get")
    ahead = [one.pass_s * PASSES for one in finding.evidence.experts.other_loads if one.change == "ahead"]
    assert min(ahead) >= loads * 0.03 * 0.95


def test_loads_that_are_hidden_are_no_finding() -> None:
    loop = Loop(slots=12, ahead=2, load_s=0.001).run(routing())
    outcome = outcome_of([loop])
    assert not outcome.verdicts
    first, *behind = outcome.sections[EXPERTS.name].layers
    assert first.exposed_s > 0.3 * first.load_s  # nothing is known before it
    assert sum(one.exposed_s for one in behind) < 0.05 * sum(one.load_s for one in behind)


def test_ranks_that_differ_are_for_others_to_explain() -> None:
    passes = routing()
    fast, slow = Loop(slots=16).run(passes), Loop(slots=16, load_s=5 * LOAD_S).run(passes)
    assert not outcome_of([fast, fast, slow]).verdicts
    (verdict,) = outcome_of([fast, fast, fast]).verdicts
    assert verdict.finding.ranks == [0, 1, 2]


def test_a_model_that_is_loaded_once_is_none() -> None:
    loop = Loop(slots=LAYERS * EXPERTS_EACH)
    for layer, expert in np.ndindex(LAYERS, EXPERTS_EACH):
        loop.now_s = loop.load((layer, expert), 0)
    assert not outcome_of([loop]).sections
    assert not outcome_of([Loop(slots=LAYERS * EXPERTS_EACH).run(routing())]).sections


def test_layers_are_not_made_up() -> None:
    loads = weight_loads_of(spans_of([Loop(slots=4).run(routing(20))], with_layers=False), 1)
    assert loads is not None and loads.layers == ("",)
