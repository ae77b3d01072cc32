"""Idle processes in training by reinforcement learning, as a detector."""

from __future__ import annotations

import numpy as np

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.reconcile import Extent, Verdict
from scalana.detectors.rl.account import MILLISECOND, NOBODY, SEVERAL, TOKEN, RLAccount, Slow
from scalana.detectors.rl.cause_table import CAUSES
from scalana.detectors.rl.causes import (
    NUMBER,
    Rollouts,
    Split,
    always_longer,
    find_speeds,
    simulated,
    split,
    usual_factor,
)
from scalana.detectors.rl.charges import Charges, charge
from scalana.detectors.rl.decode import Decoding, fit_decoding
from scalana.detectors.rl.findings import Known, find
from scalana.detectors.rl.loop import Loop, find_loop
from scalana.detectors.rl.loop_predictions import Replayer, predict
from scalana.detectors.rl.phases import TEXT, Doing
from scalana.detectors.rl.picture import picture_of
from scalana.detectors.thresholds.factors import SLOW_PROCESS
from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans

SECTION = "rl"
"""Of the report."""
_IN_TURN = ("backpressure", "training")
"""Causes of waiting that a loop without any fault has, too."""


class RLStragglers:
    """Where the process time of a loop goes, and whom idle processes wait for. Its phases are marked, or known by
    the names of its functions."""

    kinds = tuple(BY_NAME[cause.kind] for cause in CAUSES if cause.kind)

    def detect(self, facts: Facts) -> Outcome:
        """One finding for each cause that costs much; the account of all of them as section ``rl``."""
        loop = find_loop(facts.ppg, facts.waits.wait_s)
        if loop is None:
            return Outcome()
        charges = charge(facts.timeline, facts.blame.intervals, loop)
        decoding = _decoding(loop)
        rollouts = simulated(loop, decoding) if decoding is not None else None
        speeds = find_speeds(loop, decoding, rollouts)
        if decoding is not None and speeds.slow.any():
            decoding = decoding.times(usual_factor(decoding.factor, speeds.slow, loop.that_generate()))
            rollouts = simulated(loop, decoding)
        parts = split(loop, charges, facts.timeline, decoding, rollouts, speeds)
        replayer = Replayer.of(loop, facts.replay)
        account = _account(loop, charges, parts, decoding, rollouts, facts.ppg.spans)
        if account.picture is not None:
            account.picture.unit = account.unit
        account.slow = [
            Slow(rank, TEXT[doing], float(speeds.factor[doing, rank]))
            for rank in np.flatnonzero(speeds.slow).tolist()
            for doing in Doing
            if speeds.factor[doing, rank] > SLOW_PROCESS and loop.own_s[rank, :, doing].any()
        ]
        account.what_if = predict(replayer, decoding, rollouts, speeds, _shares_prompts(loop))
        known = Known(facts.ppg, loop, charges, parts, decoding, speeds, account, replayer, facts.wait_s)
        verdicts = []
        for cause, finding in find(known):
            of_it = parts.part[:, NUMBER[cause.key]] > 0.5
            verdicts.append(Verdict(finding, _extent(finding.ranks, charges, of_it)))
        return Outcome(verdicts, _explained(loop, charges, parts), sections={SECTION: account})


def _decoding(loop: Loop) -> Decoding | None:
    """The model of generation; None where nothing is known of what was generated."""
    if not loop.timed:
        return fit_decoding(loop.trajectories, len(loop.processes))
    return Decoding.of_times(len(loop.processes)) if len(loop.index.row) else None


def _account(
    loop: Loop, charges: Charges, parts: Split, decoding: Decoding | None, rollouts: Rollouts | None, spans: Spans
) -> RLAccount:
    """The account of a loop, without predictions."""
    waited = parts.waited_s.sum(axis=2)
    tail = np.nan
    if rollouts is not None:
        made = rollouts.recorded_s.max(axis=0)
        tail = float((rollouts.longest_s / np.maximum(made, 1e-12))[made > 0.0].mean())
    return RLAccount(
        framework=_text(spans, "framework"),
        unit=MILLISECOND if loop.timed else _text(spans, "unit") or TOKEN,
        roles=_roles(spans, loop),
        step_s=loop.step_s(),
        keys=tuple(cause.key for cause in CAUSES),
        texts=tuple(cause.text for cause in CAUSES),
        seconds=parts.seconds,
        total_s=loop.total_s,
        worst=_worst(waited),
        floor_s=decoding.floor_s if decoding is not None and not loop.timed else np.nan,
        sequence_s=decoding.sequence_s if decoding is not None and not loop.timed else np.nan,
        tail=tail,
        picture=picture_of(loop, charges, parts, spans),
        first_step=loop.first,
        loop=loop,
        decoding=decoding,
    )


def _worst(waited_s: FloatArray) -> IntArray:
    """Which process makes most of the waiting of each cause, by ``[causes, ranks]`` ``[causes]``."""
    total, most = waited_s.sum(axis=1), waited_s.max(axis=1)
    return np.where(total <= 0.0, NOBODY, np.where(most > total / 2, waited_s.argmax(axis=1), SEVERAL))


def _text(spans: Spans, key: str) -> str:
    """What spans say, as which trainer set them; empty where they say nothing."""
    texts = spans.texts(key)
    return spans.names[int(texts.max())] if texts.max(initial=-1) >= 0 else ""


def _roles(spans: Spans, loop: Loop) -> dict[str, list[int]]:
    """Which processes are what: as they say, or else by what they do; all are trainers where all do all of it, and
    none says anything."""
    role = spans.texts("role")
    rows = np.flatnonzero(role >= 0)
    found: dict[str, list[int]] = {}
    for number in np.unique(role[rows]).tolist():
        found[spans.names[number]] = np.unique(spans.rank[rows[role[rows] == number]]).tolist()
    told = {rank for ranks in found.values() for rank in ranks}
    generate, verify, train = (
        set(loop.that_do(doing).tolist()) - told for doing in (Doing.GENERATION, Doing.VERIFIER, Doing.TRAINING)
    )
    if not found and not train - generate:
        return {"trainer": list(range(len(loop.processes)))}
    parts = {
        "driver": train & generate,
        "rollout": generate - train,
        "trainer": train - generate,
        "verifier": verify - generate - train,
    }
    for name, ranks in parts.items():
        if ranks:
            found[name] = sorted(ranks | set(found.get(name, [])))
    return found


def _shares_prompts(loop: Loop) -> bool:
    """Whether several trajectories of a step have one prompt."""
    made = loop.trajectories
    known = (made.group >= 0) & (made.step >= 0)
    pairs = np.stack((made.step[known], made.group[known]), axis=1)
    return len(np.unique(pairs, axis=0)) < len(pairs)


def _explained(loop: Loop, charges: Charges, parts: Split) -> list[Extent]:
    """What processes did in the intervals whose lateness this detector has a kind of finding for; and of a loop that is
    known by names, training that others wait for in turn, as that is how such a loop is made."""
    known = [number for number, cause in enumerate(CAUSES) if cause.kind or (loop.timed and cause.key in _IN_TURN)]
    mostly = parts.part[:, known].sum(axis=1) > 0.5
    if loop.timed and not len(loop.index.row):  # no lengths are known: whoever takes longer may be slow, or have more
        longer = np.isin(charges.culprit, always_longer(loop))
        mostly &= ~(longer & (charges.doing == Doing.GENERATION))
    return [_extent(list(range(len(loop.processes))), charges, mostly)] if mostly.any() else []


def _extent(ranks: list[int], charges: Charges, rows: BoolArray) -> Extent:
    """All own work of some ranks in the intervals that some charges are about, where these outweigh the others."""
    intervals: dict[tuple[int, float, float], float] = {}
    for row in range(len(charges)):
        key = int(charges.culprit[row]), float(charges.begin_s[row]), float(charges.end_s[row])
        sign = 1.0 if rows[row] else -1.0
        intervals[key] = intervals.get(key, 0.0) + sign * float(charges.seconds[row])
    windows = [key[1:] for key, amount in intervals.items() if amount > 0.0]
    return Extent(tuple(ranks), None, np.zeros(0, np.int64), joined(np.array(windows).reshape(-1, 2)))
