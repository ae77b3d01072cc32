"""Calls of a step that the program could do without: one table, and a replay without them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.delays.wait_states import Rule
from scalana.detectors.evidence import Evidence, SparedCalls
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.limits.advice import ADVICE_SPARED, SPARED
from scalana.detectors.limits.causal_profile import CausalProfile
from scalana.detectors.limits.shared_cause import is_worth, step_limit
from scalana.detectors.limits.transfers.posted_calls import PostedCalls, in_steps, without_core_waits
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.source_calls import source_call, source_line
from scalana.detectors.thresholds.counts import MANY, SEVERAL
from scalana.detectors.thresholds.shares import NEARLY_ALL
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.runtime.operations import BY_NAME

KIND = "communication-bound"
_REDUCES = re.compile(r"DistributedDataParallel|FullyShardedDataParallel|(^|\.)FSDP")
"""Classes of modules that reduce gradients by themselves."""
_BACKWARD, _GRADIENTS = re.compile(r"\bbackward\("), re.compile(r"\bgrads?\b")
"""Lines in which these are reduced: by such a module, or by the program itself."""
_NUMBER_BYTES = np.dtype(np.complex128).itemsize
"""Of the largest number."""
_FLAG_BYTES = np.dtype(np.int32).itemsize
"""Of what says whether a parameter has a gradient."""
_REDUCING = tuple(BY_NAME[name].code for name in ("allreduce", "reduce", "reduce_scatter"))
_COLLECTING = (*_REDUCING, *(BY_NAME[name].code for name in ("allgather", "gather", "broadcast")))
_BROADCAST, _BARRIER = (BY_NAME[name].code for name in ("broadcast", "barrier"))


@dataclass(frozen=True, slots=True)
class LineCalls:
    """What a line posts in the steps of the steady state, in order."""

    vertex: int
    """Of the call that takes most of its time."""
    vertices: IntArray
    """Of all its calls, in several contexts ``[contexts]``."""
    operation: int
    source: str
    is_added: bool
    """Whether a library makes the calls: the line does not show them."""
    post: IntArray
    """The calls ``[posts]``."""
    cell: IntArray
    """A number that those of one thread in one step have in common, ascending ``[posts]``."""
    nbytes: IntArray
    """``[posts]``"""
    taken_s: FloatArray
    """What each is of a step of an average rank ``[posts]``."""
    moved_s: FloatArray
    """The same without waiting for other ranks ``[posts]``."""


@dataclass(frozen=True, slots=True)
class Spare:
    """Calls that a program could do without."""

    name: str
    """By which :data:`SPARED` and :data:`ADVICE_SPARED` have words."""
    goes: Callable[[LineCalls, Facts], BoolArray]
    """Which of the calls of a line go ``[posts]``."""
    is_repeated: bool = False
    """Whether they repeat the others of their line."""
    is_usual: bool = False
    """Whether programs have a few of them in each step. These count where the network makes them long, not where their
    threads only lack cores."""


def _reduced_again(line: LineCalls, facts: Facts) -> BoolArray:
    """All reductions of gradients in a step but the last, where each forward pass has the same."""
    by_itself = not line.is_added and _GRADIENTS.search(line.source) is not None
    by_module = line.is_added and is_backward(line.source)
    times = _passes(facts, _REDUCES if by_module else re.compile("")) if by_itself or by_module else 0
    if times < SEVERAL or line.operation not in _REDUCING:
        return np.zeros(len(line.post), np.bool_)
    _, first, cell, count = np.unique(line.cell, return_index=True, return_inverse=True, return_counts=True)
    part = (np.arange(len(cell)) - first[cell]) * times // count[cell]
    moved = weighted_count(cell * times + part, line.nbytes.astype(np.float64), len(count) * times)
    alike = (moved.reshape(-1, times) == moved[::times, np.newaxis]).all(axis=1) & (count % times == 0)
    return np.asarray((part < times - 1) & (alike.mean() >= NEARLY_ALL))


def _broadcasts_of_buffers(line: LineCalls, facts: Facts) -> BoolArray:
    broadcasts = line.is_added and line.operation == _BROADCAST and _passes(facts, _REDUCES) > 0
    return np.full(len(line.post), broadcasts)


def _of_unused_parameters(line: LineCalls, facts: Facts) -> BoolArray:
    sizes = [_FLAG_BYTES * count for count in facts.ppg.models.searched]
    of_module = line.is_added and is_backward(line.source) and line.operation in _REDUCING
    return np.asarray(of_module & np.isin(line.nbytes, sizes))


def _barriers(line: LineCalls, facts: Facts) -> BoolArray:
    return np.full(len(line.post), line.operation == _BARRIER)


def _of_objects(line: LineCalls, facts: Facts) -> BoolArray:
    call = source_call(line.source)
    return np.full(len(line.post), call is not None and call.nature == "pickling")


def _of_single_numbers(line: LineCalls, facts: Facts) -> BoolArray:
    collects = line.operation in _COLLECTING and not is_backward(line.source)
    single = (line.nbytes > 0) & (line.nbytes <= _NUMBER_BYTES)
    return np.full(len(line.post), collects and float(single.mean()) >= NEARLY_ALL)


SPARES = (
    Spare("reduced-again", _reduced_again, is_repeated=True),
    Spare("buffers", _broadcasts_of_buffers),
    Spare("unused", _of_unused_parameters),
    Spare("barriers", _barriers, is_usual=True),
    Spare("objects", _of_objects),
    Spare("single-numbers", _of_single_numbers, is_usual=True),
)
"""Of those of a line, the first has the word. What several lines do is one cause."""


def is_backward(source: str) -> bool:
    """Whether a line of source goes backward through a model."""
    return _BACKWARD.search(source) is not None


def _passes(facts: Facts, kinds: re.Pattern[str]) -> int:
    """How often a step goes forward through the outermost module of some kinds; 0 where that is not known."""
    times = facts.modules
    if times is None:
        return 0
    rows = [row for row, module in enumerate(times.modules) if module.parent < 0 and kinds.search(module.kind)]
    return round(float(np.nan_to_num(times.calls[rows[0], 0]).max())) if rows else 0


def spared_calls(
    profile: CausalProfile, posted: PostedCalls, busy: bool, facts: Facts
) -> list[tuple[Finding, IntArray]]:
    """A finding for each kind of calls without which a step would be clearly shorter, and the vertices of these calls.
    What their threads wait for cores comes back, but not where the job itself keeps these ``busy``."""
    lines, found = _lines(posted, facts), []
    for spare in SPARES:
        chosen = [(line, spare.goes(line, facts)) for line in lines]
        chosen = [(line, goes) for line, goes in chosen if goes.any()]
        lines = [line for line in lines if not any(line is one for one, _ in chosen)]
        moved_s = sum(float(line.moved_s[goes].sum()) for line, goes in chosen)
        if not is_worth(profile.step_s - moved_s, profile):
            continue
        vertices = np.concatenate([line.vertices for line, _ in chosen])
        part = without_core_waits(vertices, facts.waits.transfer_s(facts.timeline), facts)
        count = sum(int(goes.sum()) for _, goes in chosen) / facts.timeline.ranks / profile.steps
        few = spare.is_usual and count < MANY
        if few and not is_worth(profile.step_s - part * moved_s, profile):
            continue
        saved_s = (part if busy else 1.0) * (profile.step_s - _step_without(chosen, posted, facts))
        if is_worth(profile.step_s - saved_s, profile):
            found.append((_finding(spare, chosen, profile.step_s - saved_s, profile, facts), vertices))
    return found


def _lines(posted: PostedCalls, facts: Facts) -> list[LineCalls]:
    """The lines that post something in the steps of the steady state."""
    timeline, psg = facts.timeline, facts.psg
    calls, ranks = timeline.calls, timeline.ranks
    posts, cell = in_steps(facts)
    steps = facts.stretch.steps if facts.stretch is not None else 1
    all_s, transfer_s = (
        posted.seconds(seconds) / ranks / steps for seconds in (timeline.call_s(), facts.waits.transfer_s(timeline))
    )
    by_line: dict[tuple[str, int, int], list[int]] = {}
    found, first = np.unique(calls.vertex[posts], return_index=True)
    for vertex, row in zip(found.tolist(), first.tolist(), strict=True):
        place = psg[vertex].place
        by_line.setdefault((place.file, place.line, int(calls.operation[posts[row]])), []).append(vertex)
    result = []
    for (file, number, operation), vertices in by_line.items():
        rows = np.flatnonzero(np.isin(calls.vertex[posts], vertices))
        post = posts[rows]
        taken_s = all_s[post]
        most = vertices[int(np.argmax([float(taken_s[calls.vertex[post] == vertex].sum()) for vertex in vertices]))]
        result.append(
            LineCalls(
                most, np.array(vertices), operation, source_line(file, number), most in psg.added, post, cell[rows],
                calls.nbytes[post], taken_s, transfer_s[post],
            )
        )  # fmt: skip
    return result


def _step_without(chosen: list[tuple[LineCalls, BoolArray]], posted: PostedCalls, facts: Facts) -> float:
    """What a step takes if some calls are not made, and nobody waits in them."""
    timeline, stretch = facts.timeline, facts.stretch
    assert stretch is not None  # there are steps
    goes = np.zeros(len(timeline.calls), np.bool_)
    for line, some in chosen:
        goes[line.post[some]] = True
    pairs, gone = posted.gone(goes)
    rules = np.where(pairs, Rule.NONE, facts.replay.pairs.rule).astype(facts.replay.pairs.rule.dtype)
    replay = replace(facts.replay, pairs=replace(facts.replay.pairs, rule=rules), _unchanged_s=None)
    shorter_s = np.where(gone, timeline.calls.exit_s - timeline.calls.enter_s, 0.0)
    nothing = np.zeros(len(timeline.calls) + len(timeline.locations))
    return stretch.left_s([Change.of(nothing, None, shorter_s)], replay)[0]


def _finding(
    spare: Spare, chosen: list[tuple[LineCalls, BoolArray]], left_s: float, profile: CausalProfile, facts: Facts
) -> Finding:
    """The finding; ``left_s`` is a step without the calls that go."""
    line, goes = max(chosen, key=lambda one: float(one[0].taken_s.sum()))
    ranks = list(range(facts.timeline.ranks))
    all_of = [(one, some | spare.is_repeated) for one, some in chosen]
    taken_s = sum(float(one.taken_s[some].sum()) for one, some in all_of)
    spared = SparedCalls(
        spared=SPARED[spare.name],
        spared_calls=sum(int(some.sum()) for _, some in chosen) / len(ranks) / profile.steps,
        spared_of=sum(int(some.sum()) for _, some in all_of) / len(ranks) / profile.steps,
        spared_bytes=sum(float(one.nbytes[some].sum()) for one, some in all_of) / len(ranks) / profile.steps,
        reduced_times=round(len(goes) / (len(goes) - int(goes.sum()))) if spare.is_repeated else None,
        spared_lines=len(chosen),
    )
    finding = finding_at(
        CodeLocation(TargetKind.TRANSFER, line.vertex, -1), ranks, taken_s * profile.steps * len(ranks), facts.psg, KIND
    )
    limit = step_limit(taken_s, (profile.step_s + left_s) / 2, left_s, profile)
    return replace(
        finding,
        saving_s=(profile.step_s - left_s) * profile.steps,
        evidence=Evidence(step_limit=limit, spared=spared, callers=callers(line.vertex, facts.psg)),
        advice=ADVICE_SPARED[spare.name],
    )
