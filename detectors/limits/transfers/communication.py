"""Communication that limits a step although nobody is late: calls that it could do without, and the transfers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import Transfers
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.limits.advice import advise_transfers
from scalana.detectors.limits.causal_profile import CausalProfile, PlaceProfile
from scalana.detectors.limits.cores import keeps_cores_busy
from scalana.detectors.limits.shared_cause import SharedCause, finding_of_place, is_worth, step_limit
from scalana.detectors.limits.slow_link import saved_by_link_s
from scalana.detectors.limits.transfers.posted_calls import PostedCalls, ways_between_ranks, without_core_waits
from scalana.detectors.limits.transfers.spared_calls import KIND, is_backward, spared_calls
from scalana.detectors.limits.transfers.transfer_model import FASTEST, transfer_model
from scalana.detectors.reconcile import Extent
from scalana.detectors.source_calls import source_line
from scalana.detectors.thresholds.counts import MANY
from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.runtime.operations import BY_CODE, MESSAGES

_MESSAGES = ("recv", *(BY_CODE[code].name for code in MESSAGES))


def communication(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """Calls that a step could do without; and at most one cause for the rest: the transfers of a step, at the call that
    takes most of them. None where an ideal network saves too little, or where not all processes have a record: what
    seems a transfer may be waiting."""
    if facts.timeline.ranks < 2 or not facts.run.is_whole:
        return []
    if not profile.has_steps and not any(place.is_transfer and place.mean_s > 0.0 for place in profile.places):
        return []
    posted, busy = PostedCalls.of(facts.timeline), keeps_cores_busy(facts)
    found = spared_calls(profile, posted, busy, facts) if profile.has_steps else []
    spared_s = sum(finding.saving_s for finding, _ in found) / profile.steps
    spared = np.concatenate([np.zeros(0, np.int64), *(vertices for _, vertices in found)])
    rest = [
        place
        for place in profile.places
        if place.is_transfer and place.mean_s > 0.0 and not np.isin(place.vertices, spared).any()
    ]
    nothing = np.zeros(0, np.int64)  # who is late for these calls is another question
    return [
        SharedCause(finding, Extent(tuple(finding.ranks), nothing, nothing), False)
        for finding in [*(one for one, _ in found), *_transfers_of(rest, profile, posted, busy, spared_s, facts)]
    ]


def _transfers_of(
    calls: list[PlaceProfile],
    profile: CausalProfile,
    posted: PostedCalls,
    busy: bool,
    spared_s: float,
    facts: Facts,
) -> list[Finding]:
    """At most one finding, of the transfers at some places; calls elsewhere could go, and save ``spared_s``. It is what
    the network takes; where many small calls could be one, also what their threads wait for cores, if it is not the job
    that keeps these ``busy``."""
    if not calls:
        return []
    most = max(calls, key=lambda place: float(place.path_s.sum()))
    all_s = sum(place.mean_s for place in calls)
    saved_s = profile.step_s - profile.ideal_network_s - saved_by_link_s(profile, facts) - spared_s
    transfers = _transfers(most, posted, profile, most.mean_s / all_s * saved_s, facts)
    small = transfers.in_one_call_step_s < transfers.half_bytes_step_s
    many = small and transfers.calls_in_one >= MANY
    part = 1.0 if many and not busy else _of_the_network(calls, facts)
    saved_s *= part
    half_s = profile.step_s - saved_s / 2  # a replay has nothing but transfers to take out: in between
    if not is_worth(half_s, profile):
        return []
    finding = finding_of_place(KIND, most, profile, facts)
    transfers = replace(
        transfers,
        calls_s=all_s,
        in_one_call_step_s=profile.step_s - part * (profile.step_s - transfers.in_one_call_step_s),
        half_bytes_step_s=profile.step_s - part * (profile.step_s - transfers.half_bytes_step_s),
    )
    limit = step_limit(part * all_s, half_s, profile.step_s - saved_s, profile)
    return [
        replace(
            finding,
            evidence=replace(finding.evidence, step_limit=limit, transfers=transfers),
            saving_s=saved_s * profile.steps,
            lost_s=part * all_s * profile.steps * facts.timeline.ranks,
            advice=advise_transfers(transfers, limit, _calls_are(most, transfers, facts)),
        )
    ]


def _of_the_network(places: list[PlaceProfile], facts: Facts) -> float:
    """Which part of the transfers is the network's. What moves data may wait for a core as well: what is known of that
    does not count, and at most what all calls of a place take longer than its fastest quarter; none does where ranks
    outnumber their cores."""
    if facts.run.cores.sharing():
        return 0.0
    transfer_s = facts.waits.transfer_s(facts.timeline)
    taken = [transfer_s[_here(place, facts)] for place in places]
    fast_s = sum(len(seconds) * float(np.quantile(seconds, FASTEST)) for seconds in taken)
    fast = fast_s / max(sum(float(seconds.sum()) for seconds in taken), 1e-300)
    if not facts.ppg.metrics["samples"].any():
        return fast
    return max(fast, without_core_waits(np.concatenate([place.vertices for place in places]), transfer_s, facts))


def _here(place: PlaceProfile, facts: Facts) -> BoolArray:
    """The calls at a place ``[calls]``."""
    return np.isin(facts.timeline.calls.vertex, place.vertices)


def _transfers(
    place: PlaceProfile, posted: PostedCalls, profile: CausalProfile, saved_s: float, facts: Facts
) -> Transfers:
    """How much is posted, or waited for, at a place, and how fast; in a step, by an average rank. On an ideal network
    it would make a step ``saved_s`` shorter."""
    timeline, calls = facts.timeline, facts.timeline.calls
    taken_s = posted.seconds(facts.waits.transfer_s(timeline))
    here = posted.at(_here(place, facts))
    if not len(here):  # it waits for what nobody is known to have posted
        here = np.flatnonzero(_here(place, facts))
    seconds, moved = taken_s[here], calls.nbytes[here].astype(np.float64)
    fast = moved[seconds > 0.0] / seconds[seconds > 0.0]
    count = _made(here, facts) / timeline.ranks / _steps_recorded(profile, facts)
    total_s, operation = float(seconds.sum()), int(calls.operation[here[0]])
    alike = (calls.operation == operation) & (calls.posts >= 0)
    posts = np.flatnonzero(alike)
    model = transfer_model(*posted.in_flight(posts, taken_s[posts], calls.nbytes[posts].astype(np.float64)))
    size, together = float(moved.mean()), count / ways_between_ranks(here, timeline)
    return Transfers(
        transfer_operation=BY_CODE[operation].name,
        step_calls=count,
        step_bytes=size * count,
        bytes_per_s=float(moved.sum()) / total_s if total_s > 0.0 else 0.0,
        best_bytes_per_s=float(np.quantile(fast, 0.95)) if len(fast) else 0.0,
        in_one_call_step_s=profile.step_s - saved_s * model.saved_by_one_call(size, together),
        half_bytes_step_s=profile.step_s - saved_s * model.saved_by_half_the_bytes(size),
        calls_in_one=together,
    )


def _made(here: IntArray, facts: Facts) -> float:
    """How many calls some written ones stand for: as many as their vertices have in all, for each written one."""
    calls, made = facts.timeline.calls, facts.ppg.metrics["calls"].sum(axis=1)
    written = np.bincount(calls.vertex, minlength=len(made))
    vertex = calls.vertex[here]
    return float((made[vertex] / written[vertex]).sum())


def _calls_are(place: PlaceProfile, transfers: Transfers, facts: Facts) -> str:
    """What the calls at a place are, as :data:`ADVICE_COMBINE` has them."""
    if transfers.transfer_operation in _MESSAGES:
        return "messages"
    vertex = place.location.vertex
    here = facts.psg[vertex].place
    return "buckets" if vertex in facts.psg.added and is_backward(source_line(here.file, here.line)) else "calls"


def _steps_recorded(profile: CausalProfile, facts: Facts) -> int:
    """The steps of the run, those of start-up included."""
    return len(facts.steps) if profile.has_steps and facts.steps is not None else 1
