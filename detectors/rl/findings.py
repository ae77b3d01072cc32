"""Findings about a loop: who makes the others wait, with what, how often, and what it is not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import AtLine, Evidence, LibraryPlace, LoopWait
from scalana.detectors.finding import Finding, Hop, Series, Where
from scalana.detectors.rl import advice
from scalana.detectors.rl.account import Prediction, RLAccount
from scalana.detectors.rl.cause_table import CAUSES, Cause
from scalana.detectors.rl.causes import Speeds, Split, tokens_of
from scalana.detectors.rl.charges import Charges
from scalana.detectors.rl.decode import Decoding
from scalana.detectors.rl.loop import DOINGS, Loop
from scalana.detectors.rl.loop_predictions import Replayer
from scalana.detectors.rl.phases import TEXT, Doing
from scalana.detectors.rl.picture import name_of
from scalana.detectors.rl.work_lines import WorkPlace, place_of
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.detectors.thresholds.factors import AS_MUCH, COMPARABLE, SLOW_PROCESS
from scalana.detectors.thresholds.limits import NAMED
from scalana.detectors.thresholds.shares import EXPLAINED, MINOR, MOST_STEPS, NEXT_TO_NOTHING
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.ppg import PPG
from scalana.runtime.operations import BY_CODE


@dataclass(slots=True)
class Known:
    """All that is known of a loop when its findings are made."""

    ppg: PPG
    loop: Loop
    charges: Charges
    parts: Split
    decoding: Decoding | None
    speeds: Speeds
    account: RLAccount
    replayer: Replayer
    waiting_s: float
    """All waiting of the run, in rank-seconds."""


def find(known: Known) -> list[tuple[Cause, Finding]]:
    """One finding for each cause that costs enough, with its cause: of slow processes one for each kind of work."""
    least_s = NEXT_TO_NOTHING * max(known.loop.total_s, 1e-12)
    told = [
        (number, part)
        for number, cause in enumerate(CAUSES)
        if cause.kind
        for part in _parts_of(known, number)
        if _lost(part, number).sum() >= least_s
    ]
    saved = known.replayer.saved_s([known.replayer.without(_excess(part, number)) for number, part in told])
    predicted, now_s = _predictions(known.account), float(known.account.step_s.mean())
    found, off = [], known.replayer.error()
    for (number, part), saving in zip(told, saved, strict=True):
        mended = predicted.get(CAUSES[number].change)
        if mended is not None and mended.trusted and len(_parts_of(known, number)) == 1:
            saving = (now_s - mended.step_s) * known.loop.steps
        lost_s = float(_lost(part, number).sum())
        finding = _finding(part, number, lost_s, max(saving, 0.0) if off <= TRUSTED_REPLAY else 0.0)
        if off > TRUSTED_REPLAY:
            finding = replace(finding, evidence=replace(finding.evidence, replay_off=off))
        found.append((CAUSES[number], finding))
    return found


def _parts_of(known: Known, number: int) -> list[Known]:
    """What is known of a cause, by the kind of work in which processes are slow, where it is about these."""
    parts, change = known.parts, CAUSES[number].change
    kinds = np.unique(parts.doing[number][parts.waited_s[number] > 0.0]).tolist()
    if CAUSES[number].key != "slow-hardware" or len(kinds) < 2:
        return [known]
    found = []
    for doing in kinds:
        those = parts.doing[number] == doing
        part, waited_s = parts.part.copy(), parts.waited_s.copy()
        excess_s, done = parts.excess_s.copy(), parts.doing.copy()
        part[known.charges.doing != doing, number] = 0.0
        waited_s[number], excess_s[number] = waited_s[number] * those, excess_s[number] * those
        done[number] = np.where(those, done[number], -1)
        # What is predicted is of all of them together.
        account = replace(known.account, what_if=[each for each in known.account.what_if if each.change != change])
        found.append(replace(known, parts=Split(parts.seconds, waited_s, excess_s, done, part), account=account))
    return found


def _lost(known: Known, number: int) -> FloatArray:
    """Seconds that a cause costs, by who makes them ``[ranks, steps]``."""
    cause, waited = CAUSES[number], known.parts.waited_s[number]
    if not cause.own:
        return waited
    # Not waiting for those that generate, where others train: in turn, that is how such a loop is made.
    return np.where(known.parts.doing[number] == cause.doing, waited, 0.0) + known.loop.own_s[:, :, cause.doing]


def _own_s(known: Known) -> float:
    """Seconds of phases that are waiting, but no calls: in queues."""
    return sum(float(known.loop.own_s[:, :, cause.doing].sum()) for cause in CAUSES if cause.own)


def _excess(known: Known, number: int) -> FloatArray:
    """What a cause is in excess, by process, step and what is done ``[ranks, steps, doings]``."""
    parts = known.parts
    less = np.zeros((*parts.excess_s.shape[1:], DOINGS))
    rank, step = np.nonzero((parts.doing[number] >= 0) & (parts.doing[number] < DOINGS))
    less[rank, step, parts.doing[number][rank, step]] = parts.excess_s[number][rank, step]
    # More than one that never does it itself is all of it: what the least of the others takes stays.
    for doing, those in ((Doing.GENERATION, known.loop.that_generate()), (Doing.TRAINING, known.loop.that_train())):
        if len(those):
            own_s = known.loop.own_s[:, :, doing]
            more_s = np.maximum(own_s - own_s[those].min(axis=0), 0.0)
            less[:, :, doing] = np.minimum(less[:, :, doing], more_s)
    return less


def _finding(known: Known, number: int, lost_s: float, saving_s: float) -> Finding:
    """The finding about a cause."""
    cause, loop, parts = CAUSES[number], known.loop, known.parts
    waited = _lost(known, number)
    ranks = culprits(waited.sum(axis=1))
    kinds = parts.doing[number][ranks]
    kinds = kinds[(kinds >= 0) & (kinds < DOINGS)]
    doing = Doing(int(np.bincount(kinds).argmax())) if len(kinds) else cause.doing
    psg = known.ppg.psg
    at = place_of(loop, doing, ranks, known.ppg.timeline, psg)
    vertex = at.vertex if at is not None else -1
    place = psg[max(vertex, 0)].place
    line = (at.line if at is not None else 0) or place.line
    finding = Finding(
        cause.kind,
        vertex,
        place.file,
        line,
        line,
        psg.function_of(vertex) if vertex >= 0 else "",
        psg[max(vertex, 0)].kind.value,
        ranks,
        lost_s,
        lost_s / max(known.waiting_s + _own_s(known), 1e-300),
        saving_s,
    )
    wait = _loop_wait(known, number, doing, ranks)
    finding = replace(
        finding,
        evidence=_at_line(wait, at, cause, known.ppg.run.names.many(ranks)),
        where=Where(phase=TEXT[doing], trajectories=wait.trajectories),
        path=_path(known, number, finding),
        series=Series("idle", loop.first + np.arange(loop.steps), waited.sum(axis=0), np.ones(loop.steps)),
    )
    return replace(finding, advice=advice.advice_of(cause, finding, known.account, _predictions(known.account)))


def _at_line(wait: LoopWait, at: WorkPlace | None, cause: Cause, name: str) -> Evidence:
    """What speaks for a cause, with what its processes (``name``) do at the line that is named."""
    if at is None:
        return Evidence(loop=wait)
    library, line = None, None
    if at.inside is not None:
        calls = at.calls if at.calls != at.inside.name else ""
        library = LibraryPlace(at.inside.file, at.inside.line, at.inside.name, calls)
    if at.here_s > 0.0:
        line = AtLine(at.here_s, at.others_s, at.others_s <= MINOR * at.here_s and cause.key == "slow-hardware")
        if line.own_line:
            wait = replace(wait, recurrence=_at_its_line(wait, name))
    return replace(Evidence(loop=wait), library=library, at_line=line)


def _predictions(account: RLAccount) -> dict[str, Prediction]:
    return {each.change: each for each in account.what_if}


def culprits(waited_s: FloatArray) -> list[int]:
    """The fewest processes that make most of some waiting ``[ranks]``, and others that make as much as these."""
    order = np.argsort(-waited_s, kind="stable")
    enough = int(np.searchsorted(np.cumsum(waited_s[order]), EXPLAINED * waited_s.sum()))
    least_s = AS_MUCH * float(waited_s[order[enough]])
    return sorted(np.flatnonzero((waited_s > 0.0) & (waited_s >= least_s)).tolist())


def _loop_wait(known: Known, number: int, doing: Doing, ranks: list[int]) -> LoopWait:
    """What speaks for a cause."""
    loop, waited = known.loop, _lost(known, number)
    own = loop.own_s[:, :, doing]
    by_step = waited.sum(axis=0)
    steps = np.flatnonzero(by_step >= NEXT_TO_NOTHING * loop.step_s() * len(loop.processes))
    if not len(steps):
        steps = np.array([int(by_step.argmax())])
    who = waited[:, steps].argmax(axis=0)
    # Where training, or generating, has processes of its own, these are compared.
    alike = {Doing.GENERATION: loop.that_generate(), Doing.TRAINING: loop.that_train()}.get(doing, np.arange(len(own)))
    here, others = own[who, steps], _of_others(own[:, steps], who, alike)
    most = np.bincount(who)
    times, by_phase = _times(known, ranks)
    found = LoopWait(
        phase=TEXT[doing],
        in_steps=len(steps),
        of_steps=loop.steps,
        phase_s_here=float(here.mean()),
        phase_s_others=float(others.mean()),
        unit=f"{known.account.unit}s",
        lost_s_a_step=float(waited.sum() / max(waited.size, 1)),
        recurrence=_recurrence(CAUSES[number], len(ranks), int(most.max()), int(most.argmax()), len(steps), known),
        in_turns=len(ranks) > 1 and bool(most.max() < MOST_STEPS * len(steps)),
        times=times,
        times_by_phase=by_phase,
        not_the_cause=_not_the_cause(known, number, ranks, steps.tolist(), who.tolist()),
    )
    if known.decoding is not None and doing == Doing.GENERATION:
        found = _with_trajectories(found, known, steps[np.argsort(-by_step[steps])].tolist(), waited)
        found = replace(found, lambda_=known.account.tail, floor_s_per_token=known.decoding.floor_s)
    if doing == Doing.TRAINING and not np.isnan(loop.tokens).any():
        tokens = loop.tokens[:, steps]
        mine, theirs = float(loop.tokens[who, steps].mean()), float(_of_others(tokens, who, alike).mean())
        found = replace(found, trained_tokens_here=mine, trained_tokens_others=theirs)
    return found


def _at_its_line(wait: LoopWait, name: str) -> str:
    """What speaks for it that a process is at a line where others hardly ever are."""
    return advice.AT_OWN_LINE.format(name=name, waited=wait.in_steps, steps=wait.of_steps)


def _of_others(amount: FloatArray, who: IntArray, alike: IntArray) -> FloatArray:
    """The mean of an amount ``[ranks, steps]`` over all but one ``who`` in each step, of those that are ``alike``
    ``[steps]``."""
    others = np.zeros(amount.shape, np.bool_)
    others[alike] = True
    others[who, np.arange(len(who))] = False
    return (amount * others).sum(axis=0) / np.maximum(others.sum(axis=0), 1)


def _times(known: Known, ranks: list[int]) -> tuple[str | None, str | None]:
    """How many times as long some processes take in all in which they are slow, and in which by how much if that is
    not the same."""
    own_s = known.loop.own_s[ranks, :, :DOINGS].sum(axis=1)
    factor = known.speeds.factor[:, ranks].T
    slow = (factor > 1.0) & (own_s > 0.0)
    if not slow.any():
        return None, None
    times = f"{own_s[slow].sum() / (own_s / factor)[slow].sum():.2f}"
    by_doing = {TEXT[doing]: float(factor[:, doing].max()) for doing in Doing if slow[:, doing].any()}
    if max(by_doing.values()) <= SLOW_PROCESS * min(by_doing.values()):
        return times, None
    return times, ", ".join(f"{name} {slower:.2f}" for name, slower in by_doing.items())


def _recurrence(cause: Cause, ranks: int, most: int, rank: int, told: int, known: Known) -> str:
    """Whether it is always the same process, and what that speaks for."""
    steps, name = known.loop.steps, known.ppg.run.names.one(rank)
    if cause.own and ranks > 1:
        return advice.TOO_FEW.format(ranks=ranks, waited=told, steps=steps)
    if told == 1:
        return advice.IN_ONE_STEP.format(name=name, steps=steps) if steps > 1 else advice.ONLY_STEP
    if cause.doing == Doing.WEIGHT_SYNC and ranks > 1:
        return advice.ONE_AFTER_THE_OTHER.format(ranks=ranks, waited=told, steps=steps)
    if most < MOST_STEPS * told:
        return advice.IN_TURNS.format(waited=told, steps=steps)
    reason = cause.always
    if cause.doing == Doing.GENERATION and known.loop.timed:
        reason = advice.ITS_CALLS
    elif cause.doing == Doing.GENERATION and known.decoding is not None and not known.speeds.slow[rank]:
        reason = advice.ITS_INPUT
    who = (advice.EACH_TIME if most == told else advice.SOME_TIMES).format(name=name, most=most)
    return advice.AGAIN.format(who=who, waited=told, steps=steps, reason=reason)


def _with_trajectories(wait: LoopWait, known: Known, steps: list[int], waited: FloatArray) -> LoopWait:
    """With the longest trajectories of those that others wait for, in the steps that cost most first."""
    made, names, tokens, usual = known.loop.trajectories, [], [], []
    for step in steps:
        rank = int(waited[:, step].argmax())
        rows = known.loop.index.rows(rank, step)
        everything = known.loop.index.rows(None, step)
        if not len(rows):
            continue
        middle = float(np.median(made.tokens[everything]))
        long = rows[made.tokens[rows] >= COMPARABLE * middle]
        if not len(long) and made.tokens[rows].max() <= middle:
            continue  # none is longer than others
        long = long if len(long) else rows[[int(made.tokens[rows].argmax())]]
        for row in long[np.argsort(-made.tokens[long], kind="stable")].tolist():
            names.append(name_of(known.ppg.spans, int(made.span[row])) if not known.loop.timed else "")
            tokens.append(int(made.tokens[row]))
            usual.append(middle)
    if not names:
        return wait
    if known.loop.timed:
        return replace(wait, longest=advice.LONGEST_CALL.format(took=tokens[0], usual=usual[0]))
    why = advice.LONG[bool(known.speeds.slow[int(waited.sum(axis=1).argmax())])]
    text = advice.LONGEST.format(why=why, name=names[0], tokens=tokens[0], unit=known.account.unit, usual=usual[0])
    return replace(
        wait,
        trajectories=names[:NAMED],
        trajectory_tokens=tokens[:NAMED],
        trajectories_in_all=len(names),
        longest=text,
    )


def _not_the_cause(known: Known, number: int, ranks: list[int], steps: list[int], who: list[int]) -> list[str]:
    """What one might suspect, and what speaks against it."""
    cause, loop, speeds, unit = CAUSES[number], known.loop, known.speeds, known.account.unit
    found: list[str] = []
    if loop.timed:
        return found  # lengths are nothing but times
    generated = np.array([[tokens_of(loop, r, k).sum() for k in steps] for r in range(len(loop.processes))])
    if cause.key == "long-tail" and generated.any():
        worst = int(np.argmax(known.parts.waited_s[number][:, steps].sum(axis=0)))
        rank, other = who[worst], int(generated[:, worst].argmax())
        here, most = int(generated[rank, worst]), int(generated[other, worst])
        if other != rank and 0 < here < most:
            name, step = known.ppg.run.names.one, known.loop.first + steps[worst]
            text = advice.NOT_SUMS
            found.append(text.format(unit=unit, name=name(rank), here=here, step=step, other=name(other), most=most))
    if cause.key in ("long-tail", "assignment") and not speeds.slow[ranks].any() and known.decoding is not None:
        factor = float(speeds.measured[ranks].max())
        found.append(advice.NOT_SPEED.format(who=advice.TAKES[len(ranks) == 1], factor=factor, unit=unit))
    if cause.key == "slow-hardware" and generated[ranks].any():
        mean, usual = float(generated[ranks].mean()), float(generated[loop.that_generate()].mean())
        found.append(advice.NOT_LENGTHS.format(mean=mean, unit=unit, usual=usual))
    return found


def _path(known: Known, number: int, finding: Finding) -> list[Hop]:
    """From the call in which most is waited to the phase that is waited for."""
    timeline, psg = known.ppg.timeline, known.ppg.psg
    amount = known.charges.seconds * known.parts.part[:, number]
    vertex = timeline.calls.vertex[known.charges.call]
    path: list[Hop] = []
    if CAUSES[number].own and not amount.any():
        return path  # nobody waits for those that wait in their own phase
    if amount.sum() > 0.0:
        where = int(np.bincount(vertex, amount).argmax())
        here = vertex == where
        ranks = np.unique(known.charges.waiter[here & (amount > 0.0)])
        place = psg[where].place
        operation = BY_CODE[int(timeline.calls.operation[known.charges.call[here][0]])].name
        most = int(np.bincount(known.charges.waiter[here], amount[here]).argmax())
        path.append(
            Hop(
                most,
                place.file,
                place.line,
                psg.function_of(where),
                psg[where].kind.value,
                operation,
                float(amount[here].sum()),
                len(ranks),
            )
        )
    worst = int(known.parts.waited_s[number].sum(axis=1).argmax())
    path.append(Hop(worst, finding.file, finding.line, finding.function, finding.vertex_kind, "", 0.0))
    return path
