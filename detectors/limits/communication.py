"""Communication that limits a step although nobody is late: the transfers themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.evidence import Transfers
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import advise_transfers
from scalana.detectors.limits.causal_profile import CausalProfile, PlaceProfile
from scalana.detectors.limits.shared_cause import SharedCause, finding_of_place, is_worth, step_limit
from scalana.detectors.limits.slow_link import saved_by_link_s
from scalana.detectors.limits.transfer_model import FASTEST, transfer_model
from scalana.detectors.reconcile import Extent
from scalana.graphs.arrays.types import BoolArray
from scalana.runtime.operations import BY_CODE

KIND = "communication-bound"


def communication(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: the transfers of a step, at the call that takes most of them; none where an ideal network
    saves too little, or where not all processes have a record: what seems a transfer may be waiting."""
    calls = [place for place in profile.places if place.is_transfer and place.mean_s > 0.0]
    if facts.timeline.ranks < 2 or not facts.run.is_whole or not calls:
        return []
    part = _of_the_network(calls, facts)
    saved_s = part * (profile.step_s - profile.ideal_network_s) - saved_by_link_s(profile, facts)
    half_s = profile.step_s - saved_s / 2  # a replay has nothing but transfers to take out: in between
    if not is_worth(half_s, profile):
        return []
    most = max(calls, key=lambda place: float(place.path_s.sum()))
    finding = finding_of_place(KIND, most, profile, facts)
    all_s = sum(place.mean_s for place in calls)
    share = most.mean_s / all_s
    transfers = _transfers(most, profile, facts, share * saved_s)
    blocks = bool((facts.timeline.calls.posts[_here(most, facts)] >= 0).all())  # else some of it is hidden already
    overlapped_s = max(profile.step_s - share * saved_s, part * most.mean_s) if blocks else 0.0
    evidence = replace(
        finding.evidence,
        step_limit=step_limit(part * all_s, half_s, profile.step_s - saved_s, profile),
        transfers=replace(transfers, calls_s=all_s, overlapped_step_s=overlapped_s),
    )
    lost_s = part * all_s * profile.steps * facts.timeline.ranks
    advice = advise_transfers(transfers)
    whole = replace(finding, evidence=evidence, saving_s=saved_s * profile.steps, lost_s=lost_s, advice=advice)
    nothing = np.zeros(0, np.int64)  # who is late for these calls is another question
    return [SharedCause(whole, Extent(tuple(finding.ranks), nothing, nothing), False)]


def _of_the_network(places: list[PlaceProfile], facts: Facts) -> float:
    """Which part of the transfers is the network's. What moves data may wait for a core as well: as much as if all
    calls of a place went like its fastest quarter, and none where ranks outnumber their cores."""
    if facts.run.cores.sharing():
        return 0.0
    transfer_s = facts.waits.transfer_s(facts.timeline)
    taken = [transfer_s[_here(place, facts)] for place in places]
    fast_s = sum(len(seconds) * float(np.quantile(seconds, FASTEST)) for seconds in taken)
    return fast_s / max(sum(float(seconds.sum()) for seconds in taken), 1e-300)


def _here(place: PlaceProfile, facts: Facts) -> BoolArray:
    """The calls at a place ``[calls]``."""
    return np.isin(facts.timeline.calls.vertex, place.vertices)


def _transfers(place: PlaceProfile, profile: CausalProfile, facts: Facts, saved_s: float) -> Transfers:
    """How much the calls at a place move, and how fast; in a step, by an average rank. On an ideal network they would
    make a step ``saved_s`` shorter."""
    calls, ranks = facts.timeline.calls, facts.timeline.ranks
    here = np.flatnonzero(_here(place, facts))
    seconds = facts.waits.transfer_s(facts.timeline)[here]
    moved = calls.nbytes[here].astype(np.float64)
    fast = moved[seconds > 0.0] / seconds[seconds > 0.0]
    count = len(here) / ranks / _steps_recorded(profile, facts)
    total_s, operation = float(seconds.sum()), int(calls.operation[here[0]])
    alike = calls.operation == operation
    model = transfer_model(calls.nbytes[alike], facts.waits.transfer_s(facts.timeline)[alike])
    size = float(moved.mean())
    return Transfers(
        transfer_operation=BY_CODE[operation].name,
        step_calls=count,
        step_bytes=size * count,
        bytes_per_s=float(moved.sum()) / total_s if total_s > 0.0 else 0.0,
        best_bytes_per_s=float(np.quantile(fast, 0.95)) if len(fast) else 0.0,
        in_one_call_step_s=profile.step_s - saved_s * model.saved_by_one_call(size, count),
        half_bytes_step_s=profile.step_s - saved_s * model.saved_by_half_the_bytes(size),
    )


def _steps_recorded(profile: CausalProfile, facts: Facts) -> int:
    """The steps of the run, those of start-up included."""
    return len(facts.steps) if profile.has_steps and facts.steps is not None else 1
