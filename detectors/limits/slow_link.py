"""A link between hosts that moves fewer bytes a second than others, as a cause that all ranks share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import Evidence, LinkTime
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import A_MESSAGE, link_name
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import SharedCause, is_worth
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.whatif.slow_links import SlowLink
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.runtime.operations import BY_CODE

KIND = "slow-link"


def slow_link(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: at the call that it makes longest; none where a step would be hardly shorter without."""
    link = facts.slow_link
    if link is None:
        return []
    mended_step_s = profile.step_s - saved_by_link_s(profile, facts)
    if not is_worth(mended_step_s, profile):
        return []
    calls = facts.timeline.calls
    cost_s = _waits_of_each_vertex(link, facts)
    vertex = int(cost_s.argmax())
    concerned = np.flatnonzero(link.shorter_s > 0.0)
    ranks = sorted(set(facts.timeline.locations.rank[calls.location[concerned]].tolist()))
    finding = finding_at(CodeLocation(TargetKind.TRANSFER, vertex, -1), ranks, float(cost_s.sum()), facts.psg, KIND)
    measured_s, (end_s,) = facts.replay.run_ends_s([link.change(facts.timeline)])
    evidence = Evidence(link=_time_of(link, vertex, mended_step_s, profile, facts), callers=callers(vertex, facts.psg))
    finding = replace(finding, saving_s=max(measured_s - end_s, 0.0), evidence=evidence)
    crossed = np.unique(calls.vertex[concerned]).astype(np.int64)
    return [SharedCause(finding, Extent(tuple(ranks), np.zeros(0, np.int64), crossed), is_even=True)]


def saved_by_link_s(profile: CausalProfile, facts: Facts) -> float:
    """By how much a step would be shorter if the slow link of a run were as fast as the others; 0 without one."""
    link = facts.slow_link
    stretch = facts.stretch if link is not None else None
    if link is None or stretch is None:
        return 0.0
    measured_s, (end_s,) = facts.replay.run_ends_s([link.change(facts.timeline, stretch.call_part)])
    return max(measured_s - end_s, 0.0) / profile.steps


def _waits_of_each_vertex(link: SlowLink, facts: Facts) -> FloatArray:
    """What calls would take less, by vertex ``[vertices]``."""
    return np.asarray(np.bincount(facts.timeline.calls.vertex, link.shorter_s, len(facts.psg)), np.float64)


def _time_of(link: SlowLink, vertex: int, mended_step_s: float, profile: CausalProfile, facts: Facts) -> LinkTime:
    """What moves over a link, and how fast: what takes how long, of the calls at a vertex; and what a step would take
    if the link were as fast as the others."""
    steps = len(facts.steps) if profile.has_steps and facts.steps is not None else 1
    here = np.isin(link.instance, _completed_at(vertex, facts))
    operation, is_message = facts.timeline.instances.operation[link.instance], link.is_message
    step_s = profile.step_s if profile.has_steps else None
    return LinkTime(
        slow_link=link_name(link.reach, link.hosts),
        link_hosts=list(link.hosts),
        link_operation=A_MESSAGE if is_message[here][0] else BY_CODE[int(operation[here][0])].name,
        link_calls=len(link.instance) / steps,
        link_bytes=float(link.nbytes.sum()) / steps,
        link_bytes_per_s=link.bytes_per_s,
        others_bytes_per_s=link.others_bytes_per_s,
        link_call_s=float(np.median(link.seconds[here])),
        link_usual_call_s=float(np.median(link.usual_s[here])),
        link_extra_s=float((link.seconds - link.usual_s).sum()) / steps,
        link_step_s=step_s,
        link_mended_step_s=mended_step_s if step_s is not None else None,
    )


def _completed_at(vertex: int, facts: Facts) -> IntArray:
    """The instances that the calls at a vertex post, or wait for."""
    calls = facts.timeline.calls
    here = calls.vertex == vertex
    waited = np.repeat(here, np.diff(calls.wait_first))
    return np.unique(np.concatenate((calls.posts[here], calls.waits[waited]))).astype(np.int64)
