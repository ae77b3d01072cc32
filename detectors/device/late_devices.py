"""Findings of what made ranks wait on their devices: late kernels, slow devices, gaps, initial skew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.device.advice import HOST_CAUSES, LAUNCH_BOUND, OTHER_CAUSE, advise
from scalana.detectors.device.backtrack import Backtracking, Cause, Costs, Why
from scalana.detectors.device.more_work import difference
from scalana.detectors.device.waits import Meeting, Member
from scalana.detectors.evidence import DeviceTime, Evidence, InnerModule, PlaceTime
from scalana.detectors.finding import Finding, Hop, Series
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.named_line import Excess, roll_up
from scalana.detectors.streams.activities import short
from scalana.detectors.streams.lanes import Devices
from scalana.detectors.thresholds.differences import ONE_FACTOR
from scalana.detectors.thresholds.factors import SAME_SIZE, SLOWER
from scalana.detectors.thresholds.seconds import SHORT_GAP_S
from scalana.detectors.thresholds.shares import EXPLAINED, LARGELY, SHARE_OF_ITS_OWN, WORTH_A_FINDING, WORTH_IF_UNSTEADY
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.spans.module_places import Forwards
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_CODE

LATE, GAP, SKEW = "device-late", "launch-gap", "initial-skew"


@dataclass(slots=True)
class _Group:
    """Causes that are told together."""

    kind: str
    rank: int
    vertex: int
    causes: list[Cause]
    line: int = -1
    """Inside the vertex, -1 for all of it."""


def detect(
    devices: Devices,
    timeline: Timeline,
    psg: PSG,
    members: dict[int, dict[int, Member]],
    meetings: dict[int, Meeting],
    forwards: Forwards,
) -> list[Finding]:
    """One finding for each place and kind of cause, with all ranks that have it.

    Args:
        devices: what devices and hosts did.
        timeline: of the run.
        psg: the program.
        members: the parts that ranks have in every operation, by instance and rank.
        meetings: those in which anybody waited, by instance.
        forwards: where modules of the program stand.
    """
    costs = Backtracking(devices, timeline, members, meetings).run()
    slow = slow_devices(devices)
    total_s = sum(device.stood_for_s for device in devices.of_rank.values())
    waited_s = sum(meeting.exposed_s * devices.weight[meeting.instance] for meeting in meetings.values())
    groups: dict[tuple[str, Hashable, bool], list[_Group]] = defaultdict(list)
    for group in _groups(costs, devices, timeline, psg, slow):
        groups[group.kind, _place_of(group, psg), group.kind == LATE and group.rank in slow].append(group)
    own = _own(forwards, psg)
    findings = []
    for (kind, _, is_slow), told in groups.items():
        told, lost = _that_count(told, costs)
        lost_s, largest = sum(lost), told[int(np.argmax(lost))]
        vertex = largest.vertex
        if lost_s < (WORTH_IF_UNSTEADY if devices.marked else WORTH_A_FINDING) * total_s:
            continue
        factor = {group.rank: slow[group.rank] for group in told} if is_slow else {}
        at = (_late_for(told, costs, timeline), -1) if kind == GAP and vertex <= 0 else (vertex, largest.line)
        finding = _finding(kind, at, told, costs, psg, lost_s, waited_s)
        if kind == LATE and not is_slow:
            finding = _in_module(finding, told, costs, devices, own)
        finding = replace(
            finding,
            saving_s=_saving_s(told, costs, meetings, devices) if BY_NAME[kind].predicts else 0.0,
            evidence=_evidence(finding, told, costs, devices, meetings, factor),
            series=_series(told, costs, devices) if kind != SKEW else None,
            path=_path(told, costs, meetings, timeline, psg, finding),
        )
        findings.append(replace(finding, advice=advise(finding)))
    return findings


def _that_count(told: list[_Group], costs: Costs) -> tuple[list[_Group], list[float]]:
    """Groups of one place with what each costs, but for ranks that have little of it beside the one with most."""
    of_rank: dict[int, float] = defaultdict(float)
    lost = [sum(costs.lost_s[cause] for cause in group.causes) for group in told]
    for group, seconds in zip(told, lost, strict=True):
        of_rank[group.rank] += seconds
    least = SHARE_OF_ITS_OWN * max(of_rank.values())
    kept = [(group, seconds) for group, seconds in zip(told, lost, strict=True) if of_rank[group.rank] >= least]
    return [group for group, _ in kept], [seconds for _, seconds in kept]


def _own(forwards: Forwards, psg: PSG) -> Forwards:
    """Those that stand in files of the program, or of libraries that are taken apart as it is."""
    files = {vertex.place.file for vertex in psg.vertices}
    return {module: place for module, place in forwards.items() if place.file in files}


def _place_of(group: _Group, psg: PSG) -> Hashable:
    """What is one place to a reader: a line of a function, wherever that is called."""
    if group.vertex <= 0:
        return group.vertex
    place = psg[group.vertex].place
    return place.file, group.line if group.line > 0 else place.line, place.name


def _saving_s(told: list[_Group], costs: Costs, meetings: dict[int, Meeting], devices: Devices) -> float:
    """By how much earlier operations would go on without some causes on all of their ranks."""
    ranks = {group.rank for group in told}
    shares: dict[int, float] = defaultdict(float)
    for group in told:
        for cause in group.causes:
            for instance, share in costs.shares[cause].items():
                shares[instance] += share
    saved = {instance: meetings[instance].saved_s(ranks) * devices.weight[instance] for instance in shares}
    return float(sum(share * saved[instance] for instance, share in shares.items()))


def _series(told: list[_Group], costs: Costs, devices: Devices) -> Series | None:
    """What causes cost in every step that devices were looked at in; None where steps are not known."""
    known = np.array(sorted(devices.stands_for), np.int64)
    number = known if len(known) else np.unique(devices.step[devices.step >= 0])
    cost_s = np.zeros(len(number))
    for instance, seconds in (one for group in told for cause in group.causes for one in costs.lost_in[cause].items()):
        row = int(np.searchsorted(number, devices.step[instance]))
        if row < len(number) and number[row] == devices.step[instance]:
            cost_s[row] += seconds / devices.weight[instance]
    stands_for = np.array([devices.stands_for.get(one, 1.0) for one in number.tolist()])
    return Series("waiting", number, cost_s, stands_for) if len(number) else None


def _late_for(told: list[_Group], costs: Costs, timeline: Timeline) -> int:
    """The vertex of the call that ranks came late to most, where what they did instead has no place."""
    number: dict[int, int] = defaultdict(int)
    for instance in (instance for group in told for cause in group.causes for instance in costs.shares[cause]):
        number[int(timeline.calls.vertex[timeline.instances.members[timeline.instances.first[instance]]])] += 1
    return max(number, key=lambda vertex: (number[vertex], vertex), default=-1)


def _groups(costs: Costs, devices: Devices, timeline: Timeline, psg: PSG, slow: Mapping[int, float]) -> list[_Group]:
    """Causes by what is told of them: of one rank and kind, those below one vertex."""
    named = _named(costs, devices, timeline, psg)
    of_kind: dict[tuple[str, int], list[Cause]] = defaultdict(list)
    kinds = {Why.KERNELS: LATE, Why.GAP: GAP, Why.UNKNOWN: GAP, Why.SKEW: SKEW}
    for cause in costs.lost_s:
        why, rank, what = cause
        of_kind[kinds[why], rank].append(cause)
    found = []
    for (kind, rank), causes in of_kind.items():
        if kind == SKEW or (kind == LATE and rank in slow):
            found.append(_Group(kind, rank, -1, causes))
            continue
        placed: dict[int, list[Cause]] = defaultdict(list)
        for cause in causes:
            placed[named[cause][0] if cause in named else _vertex_of(cause, devices)].append(cause)
        lost = {vertex: sum(costs.lost_s[cause] for cause in some) for vertex, some in placed.items()}
        if -1 in placed:
            found.append(_Group(kind, rank, -1, placed.pop(-1)))
            del lost[-1]
        for vertex in _places(lost, psg):
            below = [v for v in placed if _is_below(psg, v, vertex)]
            held = [cause for v in below for cause in placed.pop(v)]
            lines = {named.get(cause, (-1, -1)) for cause in held}
            found.append(_Group(kind, rank, vertex, held, lines.pop()[1] if len(lines) == 1 else -1))
        rest = [cause for some in placed.values() for cause in some]
        if rest:
            found.append(_Group(kind, rank, 0, rest))
    return found


def _vertex_of(cause: Cause, devices: Devices) -> int:
    return int(devices.kinds.vertex[cause[2]]) if cause[2] >= 0 else -1


def _named(costs: Costs, devices: Devices, timeline: Timeline, psg: PSG) -> dict[Cause, tuple[int, int]]:
    """Vertex and line of the calls of helpers, of what hosts do in these: the line that is named for late ranks."""
    hosts = [cause for cause in costs.lost_s if cause[0] is Why.GAP and _vertex_of(cause, devices) > 0]
    excess = []
    for cause in hosts:
        vertex = _vertex_of(cause, devices)
        excess.append(Excess(vertex, psg[vertex].place.line, cause[1], costs.lost_s[cause]))
    found = zip(hosts, excess, roll_up(excess, timeline, psg), strict=True)
    return {cause: place for cause, before, place in found if place != before[:2]}


def _places(lost: Mapping[int, float], psg: PSG) -> list[int]:
    """Vertices to name: down from the root, as long as few children have most of what is lost."""
    below: dict[int, float] = defaultdict(float)
    children: dict[int, set[int]] = defaultdict(set)
    for vertex, seconds in lost.items():
        at = vertex
        while at >= 0:
            below[at] += seconds
            above = psg[at].parent
            if above >= 0:
                children[above].add(at)
            at = above
    whole, places, open_ = sum(lost.values()), [], [0]
    while open_:
        vertex = open_.pop()
        some = [child for child in children[vertex] if below[child] >= SHARE_OF_ITS_OWN * whole]
        if some and sum(below[child] for child in some) >= LARGELY * below[vertex]:
            open_ += some
        elif below[vertex] > 0.0:
            places.append(vertex)
    return places


def _is_below(psg: PSG, vertex: int, above: int) -> bool:
    while vertex >= 0 and vertex != above:
        vertex = psg[vertex].parent
    return vertex == above


def _finding(
    kind: str, at: tuple[int, int], told: list[_Group], costs: Costs, psg: PSG, lost_s: float, waited_s: float
) -> Finding:
    vertex, line = at
    here = psg[max(vertex, 0)]
    place = here.place
    named = vertex > 0
    first, last = (line, line) if line > 0 else (place.line, place.end_line)
    return Finding(
        kind,
        vertex if named else -1,
        place.file if named else "",
        first if named else 0,
        last if named else 0,
        (psg.function_of(vertex) or place.name) if named else "",
        here.kind.value,
        sorted({group.rank for group in told}),
        float(lost_s),
        float(lost_s / waited_s) if waited_s > 0.0 else 0.0,
        0.0,
        evidence=Evidence(callers=callers(vertex, psg) if named else None),
    )


def _in_module(finding: Finding, told: list[_Group], costs: Costs, devices: Devices, own: Forwards) -> Finding:
    """A finding with the module in which most is lost, and at the ``forward`` of that, if it is among those of the
    program's ``own``: it is nearer to the cause than the line that calls the model."""
    lost: dict[tuple[str, str, str] | None, float] = defaultdict(float)
    for cause in (cause for group in told for cause in group.causes):
        lost[devices.kinds.module(cause[2]) if cause[2] >= 0 else None] += costs.lost_s[cause]
    module = max(lost, key=lambda one: lost[one])
    if module is None or lost[module] < LARGELY * sum(lost.values()):
        return finding
    finding = replace(finding, evidence=replace(finding.evidence, inner=InnerModule(module[1], module[2])))
    place = next((own[around] for around in _around(module, own)), None)
    if place is None:
        return finding
    function = f"{place.name.rpartition('.')[2]}.forward"
    return replace(finding, file=place.file, line=place.line, end_line=place.end_line, function=function)


def _around(module: tuple[str, str, str], own: Forwards) -> Iterator[tuple[str, str, str]]:
    """The module itself and those around it, from the innermost, as far as they are the program's own."""
    root, name, _ = module
    while True:
        yield from (one for one in own if one[0] == root and one[1] == name)
        if not name:
            return
        name = name.rpartition(".")[0]


def _evidence(
    finding: Finding,
    told: list[_Group],
    costs: Costs,
    devices: Devices,
    meetings: dict[int, Meeting],
    slow: Mapping[int, float],
) -> Evidence:
    """What speaks for a finding, with what is known of it already."""
    kind = finding.kind
    causes = [cause for group in told for cause in group.causes]
    ranks = len({group.rank for group in told})
    did = [(devices.weight_of(cause[1], did.number), did) for cause in causes for did in costs.did[cause].values()]
    time = DeviceTime(operations=len({instance for cause in causes for instance in costs.shares[cause]}))
    if devices.marked:
        marked, steps = len(devices.stands_for), round(sum(devices.stands_for.values()))
        time = replace(time, marked_steps=marked, steps=steps)
    if kind == SKEW:
        # Of steps that were marked each begins anew; else later operations only have what is left of the first one's.
        met = {i: part for cause in causes for i, part in costs.shares[cause].items()}
        first = min(met, key=lambda i: meetings[i].awaited.start_s)
        those = met if devices.marked else [first]
        late = [(_late_s(meetings[i]), _late_s(meetings[i]) * met[i]) for i in those]
        whole = sum(weight for _, weight in late)
        late_s = sum(seconds * weight for seconds, weight in late) / whole if whole > 0.0 else 0.0
        return replace(finding.evidence, device=replace(time, late_s=late_s))
    place = PlaceTime(
        seconds_here=sum(weight * one.here_s for weight, one in did) / ranks,
        seconds_others=sum(weight * one.others_s for weight, one in did) / ranks,
    )
    most = sorted(causes, key=lambda cause: -costs.lost_s[cause])
    names = list(dict.fromkeys(short(devices.kinds.text(cause[2])) for cause in most if cause[2] >= 0))
    if kind == LATE:
        time = replace(time, kernels=names[:3], kernel=names[0] if names else "")
        if slow:
            time = replace(time, slowdown=max(slow.values()), slower=f"{max(slow.values()):.2f} times")
        elif different := difference(causes, costs, devices):
            time = replace(time, different=different.reason.name.lower(), work=different.text)
    else:
        time = replace(time, host=names[:3])
        if names:
            time = replace(time, doing=names[0], cause=_host_cause(told, most, costs, devices, meetings))
    return replace(finding.evidence, place=place, device=time)


def _late_s(meeting: Meeting) -> float:
    """By how much a rank that waited came before the last, on average."""
    return sum(seconds for _, seconds, _ in meeting.waiting) / len(meeting.waiting)


def _host_cause(
    told: list[_Group], causes: list[Cause], costs: Costs, devices: Devices, meetings: dict[int, Meeting]
) -> str:
    """What a host does instead of launching, in words."""
    lost: dict[str, float] = defaultdict(float)
    for cause in causes:
        if cause[2] >= 0:
            text = devices.kinds.text(cause[2])
            word = next((word for word, names, _ in HOST_CAUSES if names.search(text)), "")
            lost[word] += costs.lost_s[cause]
    word = max(lost, key=lambda word: lost[word])
    if word:
        return word
    lengths = []
    for group in told:
        work = devices.of_rank[group.rank].work
        for instance in sorted({i for cause in group.causes for i in costs.shares[cause]})[:50]:
            end = meetings[instance].awaited.start_s
            before = devices.of_rank[group.rank].communication
            at = int(np.searchsorted(before.end_s, end)) - 1
            begin = float(before.end_s[at]) if at >= 0 else devices.of_rank[group.rank].first_s(end)
            lengths.append(np.diff(work.gaps(min(begin, end), end))[:, 0])
    gaps = np.concatenate(lengths) if lengths else np.zeros(0)
    weighted = float((gaps**2).sum() / gaps.sum()) if gaps.sum() > 0.0 else 0.0
    return LAUNCH_BOUND if 0.0 < weighted < SHORT_GAP_S else OTHER_CAUSE


def _path(
    told: list[_Group], costs: Costs, meetings: dict[int, Meeting], timeline: Timeline, psg: PSG, finding: Finding
) -> list[Hop]:
    """From the rank that waits most for it to the rank that is late."""
    instances = {instance for group in told for cause in group.causes for instance in costs.shares[cause]}
    waited: dict[tuple[int, int], float] = defaultdict(float)
    for instance in instances:
        for member, _, exposed in meetings[instance].waiting:
            waited[member.rank, instance] += exposed
    hops = []
    if waited:
        rank, instance = max(waited, key=lambda key: waited[key])
        first = timeline.instances.first
        calls = timeline.instances.members[int(first[instance]) : int(first[instance + 1])].astype(np.int64)
        ranks = timeline.locations.rank[timeline.calls.location[calls]]
        call = int(calls[int(np.argmax(ranks == rank))])
        vertex = int(timeline.calls.vertex[call])
        place, operation = psg[vertex].place, BY_CODE[int(timeline.calls.operation[call])].name
        function = psg.function_of(vertex)
        several = len({rank for rank, _ in waited})
        hops.append(Hop(rank, place.file, place.line, function, "comm", operation, finding.lost_s, several))
    last = finding.ranks[0]
    hops.append(Hop(last, finding.file, finding.line, finding.function, finding.vertex_kind, "", 0.0))
    return hops


def slow_devices(devices: Devices) -> dict[int, float]:
    """Ranks whose devices are slow, with the factor by which everything takes longer there than on the median rank."""
    ranks = sorted(devices.of_rank)
    if len(ranks) < 2:
        return {}
    kinds, width = devices.kinds, len(devices.kinds)
    seconds = np.array([devices.of_rank[rank].seconds for rank in ranks])
    count = devices.counts().astype(np.float64)
    # Kernels of one name on inputs of one shape are one kind here, wherever they were launched.
    names, inverse = np.unique(np.stack((kinds.name, kinds.inputs, kinds.direction)), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    by_name = np.zeros((width, names.shape[1]))
    by_name[np.arange(width), inverse] = 1.0
    seconds, count = seconds @ by_name, count @ by_name
    sizes = np.array([devices.of_rank[rank].elements for rank in ranks])
    found = {}
    for row, rank in enumerate(ranks):
        others = np.delete(np.arange(len(ranks)), row)
        larger = sizes[row] > SAME_SIZE * np.median(sizes[others], axis=0)
        at = inverse[larger]
        mine = count[row].copy()
        mine[at] = np.nan  # modules with more to do are no measure
        factor = _factor(seconds[row], mine, seconds[others], count[others])
        if factor is not None:
            found[rank] = factor
    return found


def _factor(seconds: FloatArray, count: FloatArray, others_s: FloatArray, others: FloatArray) -> float | None:
    """By what factor everything takes longer; None where it does not, or not everything alike."""
    usual_s, usual = np.median(others_s, axis=0), np.median(others, axis=0)
    same = (count > 0) & (np.abs(count - usual) <= (SAME_SIZE - 1.0) * usual) & (usual_s > 0.0)
    whole = float(seconds.sum())
    if whole <= 0.0 or float(seconds[same].sum()) < EXPLAINED * whole:
        return None
    ratio, weight = seconds[same] / usual_s[same], seconds[same]
    order = np.argsort(ratio)
    half = int(np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2))
    factor = float(ratio[order][min(half, len(order) - 1)])
    near = np.abs(ratio - factor) <= ONE_FACTOR * (factor - 1.0) + 0.01
    if factor < SLOWER or float(weight[near].sum()) < EXPLAINED * float(weight.sum()):
        return None
    # One kind of kernel alone tells nothing of the device.
    return factor if int(near.sum()) > 1 else None
