"""Experts that are loaded while a model computes, as a detector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.detector import Outcome
from scalana.detectors.evidence import Evidence, ExpertWaits
from scalana.detectors.experts.advice import advise_experts
from scalana.detectors.experts.expert_waits import EXPERTS, Experts, experts_of
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Verdict, extent_of
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.thresholds.factors import COMPARABLE
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.graphs.arrays.segments import sum_by_key
from scalana.graphs.spans.experts.drafting import drafting_of
from scalana.graphs.spans.experts.weight_loads import weight_loads_of

KIND = "expert-loads"


class ExpertLoads:
    """See :mod:`scalana.detectors.experts.expert_waits`."""

    kinds = (BY_NAME[KIND],)

    def detect(self, facts: Facts) -> Outcome:
        """What loops wait for experts. Where some ranks wait much longer than the median one, what they do more is for
        others to say."""
        loads = None if facts.is_part else weight_loads_of(facts.ppg.spans, facts.timeline.ranks)
        experts = experts_of(loads, drafting_of(facts.ppg.spans, loads.uses)) if loads is not None else None
        if experts is None:
            return Outcome()
        sections: dict[str, object] = {EXPERTS.name: experts}
        exposed_s = float(experts.exposed_s.mean())
        is_even = float(experts.exposed_s.max()) <= COMPARABLE * float(np.median(experts.exposed_s))
        if not is_even or exposed_s < WORTH_IF_ONCE * experts.loop_s:
            return Outcome(sections=sections)
        finding = _finding(experts, facts)
        return Outcome([Verdict(finding, extent_of(finding, facts.timeline, facts.psg))], sections=sections)


def _finding(experts: Experts, facts: Facts) -> Finding:
    """All waiting for experts, at the line of the lookups that wait longest."""
    spans, uses = facts.ppg.spans, experts.loads.uses
    exposed_s = uses.exposed_s()
    places = spans.places(uses.row)
    kinds = {place: number for number, place in enumerate(sorted(set(places)))}
    number, seconds = sum_by_key(np.array([kinds[place] for place in places]), exposed_s)
    vertex, line = list(kinds)[int(number[seconds.argmax()])]
    finding = finding_at(
        CodeLocation(TargetKind.OWN, vertex, line), experts.ranks.tolist(), float(exposed_s.sum()), facts.psg, KIND
    )
    known = waits_of(experts)
    best_s = known.other_loads[0].pass_s if known.other_loads else known.expert_pass_s
    saving_s = max(known.expert_pass_s - best_s, 0.0) * experts.passes
    return replace(finding, saving_s=saving_s, evidence=Evidence(experts=known), advice=advise_experts(known))


def waits_of(experts: Experts) -> ExpertWaits:
    """The evidence, of an average rank."""
    uses, ranks = experts.loads.uses, len(experts.ranks)
    loaded_s = float(uses.load_s.sum())
    worst = max(experts.layers, key=lambda one: one.exposed_s)
    missed = int(np.count_nonzero(uses.missed))
    return ExpertWaits(
        expert_wait_s=float(experts.exposed_s.mean()),
        expert_load_s=loaded_s / ranks,
        expert_loop_s=experts.loop_s,
        expert_pass_s=experts.pass_s,
        expert_lookups=len(uses),
        expert_loads=missed,
        expert_hit_rate=1.0 - missed / len(uses) if experts.loads.has_cache else None,
        expert_bytes=float(uses.bytes.sum()),
        expert_bytes_per_s=float(uses.bytes.sum()) / max(loaded_s, 1e-300),
        costliest_layer=worst.name,
        costliest_layer_s=worst.exposed_s / ranks,
        expert_lookup=experts.loads.lookup,
        expert_loader=experts.loads.load,
        expert_slots=experts.room.slots if experts.room is not None else None,
        expert_slots_by_layer=experts.room is not None and experts.room.by_layer,
        other_loads=experts.others,
    )
