"""Causes that all ranks share where devices work: why these have nothing to do, or too much."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.evidence import DeviceStep, DeviceTime, Evidence, InputBound, Loading
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.limits.advice import ADVICE, ADVICE_TRANSFERS, LOAD_AHEAD
from scalana.detectors.limits.causal_profile import HALF, NOTHING, Activity
from scalana.detectors.limits.compile_bound import compile_bound_by
from scalana.detectors.limits.device_profile import DevicePlace, DeviceProfile, removal
from scalana.detectors.limits.input_bound import input_bound_by, loading_at
from scalana.detectors.limits.shared_cause import (
    SharedCause,
    all_spend,
    all_spend_alike,
    is_even,
    is_shared,
    is_worth,
    step_limit,
)
from scalana.detectors.limits.source_costs import source_costs
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.sources.data_waits import DataWaits
from scalana.detectors.streams.activities import short
from scalana.detectors.thresholds.differences import ORDINARY
from scalana.detectors.thresholds.shares import MAJORITY, NEARLY_ALL, SHARE_OF_ITS_OWN, WORTH_IF_ONCE
from scalana.detectors.whatif.device_replay import Removal, inside, shorter, shorter_in
from scalana.detectors.whatif.device_rounds import Parts
from scalana.detectors.when.span_periods import periods_of
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.spans.compilations import compilations
from scalana.graphs.spans.device_waits import copies_at
from scalana.graphs.steps.periods import Periods

INPUT, COPY, SYNC, LAUNCH, HOST, DEVICE, COMMUNICATION = (
    "input-bound",
    "copy-bound",
    "sync-bound",
    "launch-bound",
    "host-bound",
    "device-bound",
    "communication-bound",
)
_COPIES = re.compile(r"[Mm]emcpy.*(HtoD|Host ?To ?Device)|CopyHostToDevice")
"""In names of what devices do: copies from their hosts."""
_LOADER = re.compile(r"DataLoader|_next_data|utils/data/|dataloader\.py|\b__next__\b")
"""In files and names of functions: those of loaders."""
_NOTHING = Extent((), np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class DeviceCause:
    """A cause, and the seconds of a step in which the devices of all ranks have nothing to do because of it."""

    cause: SharedCause
    idle_s: float


def device_causes(profile: DeviceProfile, facts: Facts) -> list[DeviceCause]:
    """Causes that all ranks share, first those that say most of what is done. What devices have nothing to do for is
    told of once: a wait for a device costs what nothing else explains that comes after it."""
    found: list[DeviceCause] = []
    for recognise in (_input, _copies, _compilations, _sources, _waits, _launches, _hosts, _communication, _device):
        left_s = float(profile.replay.idle_s().min()) - sum(one.idle_s for one in found)
        known = {one.cause.finding.vertex for one in found}
        some = recognise(profile, facts, left_s)
        found += [one for one in some if one.cause.finding.vertex not in known or one.cause.finding.vertex < 0]
    return found


def _input(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Waiting for data, while devices have nothing to do."""
    periods = _loads(profile, facts)
    idle_s, waited_s = (_in_a_step(profile, name, periods) for name in ("idle", "host"))
    half_s, without_s = _steps_s(waited_s, lambda part: shorter_in(part, periods), profile)
    if not len(periods) or not all_spend(idle_s) or not is_worth(without_s, profile.whole):
        return

    def savings(waits: DataWaits, left: list[FloatArray], of: Facts) -> list[float]:
        del of
        steps = (profile.replay.changed_step_s(shorter_in(1.0 - part, periods)) for part in left)
        return [max(profile.replay.step_s - step_s, 0.0) * waits.steps for step_s in steps]

    even = all_spend_alike(waited_s)
    for cause in input_bound_by(savings, profile.whole, facts):
        yield DeviceCause(cause, float(idle_s.min()))
        return
    work = profile.of(Activity.WORK)
    at = CodeLocation(TargetKind.OWN, -1, -1)
    if work:
        at = max(work, key=lambda one: _spent_s(one, profile, lambda host: inside(periods, host))).place.location
    rows = facts.ppg.spans.rows("data")
    has_steps = profile.whole.has_steps
    bound = InputBound(profile.whole.step_s, float(np.median(waited_s)), [], []) if has_steps else None
    evidence = Evidence(loading=loading_at(rows, facts) if len(rows) else Loading(), input_bound=bound)
    finding = replace(_finding(INPUT, at, waited_s, (half_s, without_s), profile, facts), advice=LOAD_AHEAD)
    limit = finding.evidence.step_limit
    finding = replace(finding, evidence=replace(evidence, step_limit=limit, callers=finding.evidence.callers))
    yield DeviceCause(SharedCause(finding, _NOTHING, even), float(idle_s.min()))


def _copies(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Copies from hosts, which nothing hides."""
    kinds = profile.devices.kinds
    copies = np.array([_COPIES.search(kinds.text(kind)) is not None for kind in range(len(kinds))], np.bool_)

    def chosen(parts: Parts) -> BoolArray:
        return np.asarray(copies[parts.what])

    found = [one for one in profile.of(Activity.DEVICE) if copies[one.kinds].any()]
    spent_s = np.sum([one.place.seconds for one in found], axis=0)
    half_s, without_s = _steps_s(spent_s, lambda part: shorter(part, "device", chosen), profile) if found else (0, 0)
    if not found or not is_worth(without_s, profile.whole):
        return
    most = max(found, key=lambda one: one.place.mean_s)
    if is_shared(most.place):
        yield _at_place(COPY, most, (half_s, without_s), profile, facts)


def _compilations(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Compiling again in the steady state, while devices have nothing to do."""
    spans = facts.ppg.spans
    rows = compilations(spans, facts.timeline.ranks)
    periods = periods_of(spans, rows, facts.timeline.ranks)

    def step_without(part: float, periods: Periods) -> float:
        return profile.replay.changed_step_s(shorter_in(part, periods))

    for cause in compile_bound_by(step_without, profile.whole, facts) if len(rows) else ():
        yield DeviceCause(cause, float(_in_a_step(profile, "idle", periods).min()))


def _sources(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Places of hosts whose line says what they do: write, collect garbage, wait for locks."""
    idle_s = {id(one.place): one for one in profile.of(Activity.WORK)}
    places = [one.place for one in profile.of(Activity.WORK) if len(one.place.activities) and all_spend(one.idle_s)]
    for cause in source_costs(replace(profile.whole, places=tuple(places)), facts):
        at = [one for one in idle_s.values() if one.place.location.vertex == cause.finding.vertex]
        yield DeviceCause(cause, sum(float(one.idle_s.min()) for one in at))


def _waits(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """The wait for devices without which a step is shortest, where it leaves them with nothing to do."""
    step_s = profile.whole.step_s
    if left_s < WORTH_IF_ONCE * step_s:
        return
    found = [one for one in profile.of(Activity.DEVICE_WAIT) if is_shared(one.place)]
    for one in found[:1]:
        steps_s = _without(one, profile, facts)
        if is_worth(steps_s[1], profile.whole):
            yield _at_place(SYNC, one, steps_s, profile, facts)


def _launches(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Launches, which take hosts longer than devices take for what is launched."""
    least_s = WORTH_IF_ONCE * profile.whole.step_s
    if left_s < least_s:
        return
    loads = _loads(profile, facts)
    spent_s = _by_rank(profile, "launches") - _in_a_step(profile, "launches", loads)
    half_s, without_s = _steps_s(
        spent_s, lambda part: shorter(part, "launches", lambda parts: inside(loads, parts) <= 0.0), profile
    )
    idle_s = _idle_in_launches_s(profile, loads)
    if idle_s < least_s or not all_spend(spent_s) or not is_worth(without_s, profile.whole):
        return
    at, most_s = CodeLocation(TargetKind.OWN, -1, -1), SHARE_OF_ITS_OWN * float(spent_s.sum())
    for one in profile.of(Activity.WORK):
        launching_s = _spent_s(one, profile, lambda host: host.seconds - inside(loads, host), of_launches=True)
        if launching_s >= most_s:
            at, most_s = one.place.location, launching_s
    finding = _finding(LAUNCH, at, spent_s, (half_s, without_s), profile, facts)
    yield DeviceCause(SharedCause(finding, _NOTHING, all_spend_alike(spent_s)), min(idle_s, left_s))


def _hosts(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """The place of hosts without which a step is shortest, where devices have nothing to do meanwhile, and hosts do
    more than launch. From memory that is not pinned hosts copy themselves."""
    least_s, launching = WORTH_IF_ONCE * profile.whole.step_s, _launching(profile)
    works = (
        one
        for one in profile.of(Activity.WORK)
        if min(_idle_outside_s(one, launching, profile), left_s) >= least_s and all_spend(one.idle_s)
    )
    for one in works:
        steps_s = _without(one, profile, facts)
        if is_worth(steps_s[1], profile.whole):
            vertices = profile.devices.kinds.vertex[one.kinds].tolist()
            copies = any(vertex >= 0 and copies_at(vertex, facts.psg) for vertex in vertices)
            yield _at_place(COPY if copies else HOST, one, steps_s, profile, facts)
            return


def _communication(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Transfers of devices, which nothing hides."""
    found = [one for one in profile.of(Activity.TRANSFER) if is_shared(one.place)]
    if facts.timeline.ranks < 2 or facts.run.missing_ranks or not found:
        return
    spent_s = _by_rank(profile, "transfers")
    steps_s = _steps_s(spent_s, lambda part: shorter(part, "transfers"), profile)
    if not is_worth(steps_s[0], profile.whole):
        return
    most = max(found, key=lambda one: float(one.place.path_s.sum()))
    finding = _finding(COMMUNICATION, most.place.location, spent_s, steps_s, profile, facts)
    finding = replace(finding, advice=ADVICE_TRANSFERS)
    yield DeviceCause(SharedCause(finding, _NOTHING, False), 0.0)


def _device(profile: DeviceProfile, facts: Facts, left_s: float) -> Iterator[DeviceCause]:
    """Work of devices at one place, where they are busy all the time and that is most of it."""
    busy_s = float(_by_rank(profile, "device").mean())
    if busy_s < NEARLY_ALL * profile.whole.step_s:
        return
    for one in profile.of(Activity.DEVICE)[:1]:
        if one.place.mean_s >= MAJORITY * busy_s and is_shared(one.place):
            yield _at_place(DEVICE, one, _without(one, profile, facts), profile, facts)


def _at_place(
    kind: str, one: DevicePlace, steps_s: tuple[float, float], profile: DeviceProfile, facts: Facts
) -> DeviceCause:
    """A cause that is what ranks spend at a place; ``steps_s`` are a step with half of it, and without it."""
    finding = _finding(kind, one.place.location, one.place.seconds, steps_s, profile, facts)
    if one.place.activity is Activity.DEVICE:
        names = list(dict.fromkeys(short(profile.devices.kinds.text(int(kind))) for kind in one.kinds))
        time = DeviceTime(kernels=names[:3], kernel=names[0])
        finding = replace(finding, evidence=replace(finding.evidence, device=time))
    idle_s = float(one.idle_s.min()) if one.place.activity is Activity.WORK else profile.whole.step_s - steps_s[1]
    is_idle = kind in (SYNC, HOST) or one.place.activity is Activity.WORK
    return DeviceCause(SharedCause(finding, _NOTHING, is_even(one.place)), idle_s if is_idle else 0.0)


def _finding(
    kind: str,
    at: CodeLocation,
    spent_s: FloatArray,
    steps_s: tuple[float, float],
    profile: DeviceProfile,
    facts: Facts,
) -> Finding:
    """A finding of what ranks spend in a step ``[ranks]``; ``steps_s`` are a step with half of it, and without it."""
    whole, (half_s, without_s) = profile.whole, steps_s
    steps = len(facts.steps) - facts.steps.warm_up if facts.steps is not None and whole.has_steps else 1
    limit = step_limit(float(spent_s.mean()), half_s, without_s, whole)
    ranks = profile.replay.ranks
    works = sum(len(one.device) for one in profile.replay.rounds) / len(ranks) / profile.replay.steps
    device = DeviceStep(float(_by_rank(profile, "device").mean()), float(profile.replay.idle_s().mean()), works)
    return replace(
        finding_at(at, ranks, float(spent_s.sum()) * steps, facts.psg, kind),
        saving_s=max(whole.step_s - without_s, 0.0) * steps,
        evidence=Evidence(step_limit=limit, device_step=device, callers=callers(at.vertex, facts.psg)),
        advice=ADVICE[kind] if kind in ADVICE else LOAD_AHEAD,
    )


def _by_rank(profile: DeviceProfile, name: str) -> FloatArray:
    """What ranks spend on parts of a name in a step ``[ranks]``."""
    ranks = len(profile.replay.rounds[0].begin_s)
    parts = [getattr(one, name) for one in profile.replay.rounds]
    seconds = sum(weighted_count(one.rank, one.seconds, ranks) for one in parts) / profile.replay.steps
    return np.asarray(seconds)[profile.replay.ranks]


def _in_a_step(profile: DeviceProfile, name: str, periods: Periods) -> FloatArray:
    """What of parts of a name lies in some periods, in a step ``[ranks]``."""
    ranks = len(profile.replay.rounds[0].begin_s)
    parts = [getattr(one, name) for one in profile.replay.rounds]
    seconds = sum(weighted_count(one.rank, inside(periods, one), ranks) for one in parts) / profile.replay.steps
    return np.asarray(seconds)[profile.replay.ranks]


def _spent_s(
    one: DevicePlace, profile: DeviceProfile, counts: Callable[[Parts], FloatArray], of_launches: bool = False
) -> float:
    """What of all that hosts spend at a place counts, in a step; or of that in stretches up to a launch."""
    found = 0.0
    for of in profile.replay.rounds:
        here = np.isin(of.host.what, one.kinds)
        if of_launches:
            here &= np.isin(of.host.link, of.launches.link)
        found += float(counts(of.host)[here].sum())
    return found / profile.replay.steps


def _idle_in_launches_s(profile: DeviceProfile, loads: Periods) -> float:
    """What devices of all ranks have nothing to do while their hosts launch, in a step, but for loading."""
    launching, ranks = _launching(profile), len(profile.replay.rounds[0].begin_s)
    found = np.zeros(ranks)
    for of in profile.replay.rounds:
        idle_s = np.maximum(inside(launching, of.idle) - inside(loads, of.idle), 0.0)
        found += weighted_count(of.idle.rank, idle_s, ranks)
    return float(found[profile.replay.ranks].min()) / profile.replay.steps


def _idle_outside_s(one: DevicePlace, periods: Periods, profile: DeviceProfile) -> float:
    """What devices of all ranks have nothing to do while their hosts are at a place, outside of some periods, in a
    step."""
    ranks = len(profile.replay.rounds[0].begin_s)
    found = np.zeros(ranks)
    for of in profile.replay.rounds:
        here = np.isin(of.idle.what, one.kinds)
        found += weighted_count(of.idle.rank, np.where(here, of.idle.seconds - inside(periods, of.idle), 0.0), ranks)
    return float(found[profile.replay.ranks].min()) / profile.replay.steps


def _launching(profile: DeviceProfile) -> Periods:
    """When hosts launch."""
    parts = [of.launches for of in profile.replay.rounds]
    rank, start_s, seconds = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("rank", "start_s", "seconds")
    )
    return Periods.joined(rank, start_s, start_s + seconds, len(profile.replay.rounds[0].begin_s))


def _loads(profile: DeviceProfile, facts: Facts) -> Periods:
    """When ranks wait for data, by spans; where there are none, by the functions that they are in."""
    spans, ranks = facts.ppg.spans, facts.timeline.ranks
    rows = spans.of_ranks(spans.rows("data"), ranks)
    if len(rows):
        return periods_of(spans, rows, ranks)
    kinds = profile.devices.kinds
    loads = np.array([_is_loading(int(vertex), facts) for vertex in kinds.vertex], np.bool_)
    some = [(of.host, np.flatnonzero(loads[of.host.what])) for of in profile.replay.rounds]
    rank, start_s, seconds = (
        np.concatenate([getattr(host, name)[at] for host, at in some]) for name in ("rank", "start_s", "seconds")
    )
    return Periods.joined(rank, start_s, start_s + seconds, ranks)


def _is_loading(vertex: int, facts: Facts) -> bool:
    """Whether a host is in a DataLoader at a vertex."""
    psg = facts.psg
    around = psg[vertex], *psg.ancestors(vertex)
    return any(_LOADER.search(f"{one.place.file} {one.place.name}") for one in around)


def _without(one: DevicePlace, profile: DeviceProfile, facts: Facts) -> tuple[float, float]:
    """What a step takes without half of what all ranks spend at a place, and without it."""
    return _steps_s(one.place.seconds, lambda part: removal(one, part, facts), profile)


def _steps_s(
    spent_s: FloatArray, removal_of: Callable[[FloatArray], Removal], profile: DeviceProfile
) -> tuple[float, float]:
    """What a step takes without half of something, and without it. Of ranks that spend more than the middle one no more
    goes than of that: the rest is not what all share, but for other findings. ``spent_s`` is what each spends
    ``[ranks]``."""
    middle_s = float(np.sort(spent_s)[(len(spent_s) - 1) // 2])
    share = np.where(spent_s > (1.0 + ORDINARY) * middle_s, middle_s / np.maximum(spent_s, 1e-300), 1.0)
    of_all = np.ones(len(profile.replay.rounds[0].begin_s))
    of_all[profile.replay.ranks] = share
    half_s, without_s = (profile.replay.changed_step_s(removal_of(part * of_all)) for part in (HALF, NOTHING))
    return half_s, without_s
