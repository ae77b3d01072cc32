"""Context parallelism as in Ulysses: ranks that exchange tokens for heads, what that takes, and a ring instead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.detectors.annotator import Annotated
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.lengths.exchange_costs import HEAD_EXCHANGES, HeadExchanges, cost_of, hidden_in_a_ring_s
from scalana.detectors.lengths.head_exchanges import HeadExchange, head_exchanges
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.dependences.progress import of_mpi


class ExchangingHeads:
    """See :mod:`scalana.detectors.lengths.head_exchanges`."""

    needs: frozenset[Need] = frozenset({Need.CALLS})

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """The same findings, and what exchanges of heads take of a step."""
        if facts.is_part or any(of_mpi(one.name) for one in facts.run.communicators):
            return Annotated(findings)
        groups = list(head_exchanges(facts.timeline))
        inside = [_in_steps(group, facts) for group in groups]
        there = [(group, rows) for group, rows in zip(groups, inside, strict=True) if rows.any()]
        if not there:
            return Annotated(findings)
        steps = _steps(facts)
        costs = [cost_of(group, rows, max(steps, 1), facts.waits.wait_s, facts.ppg) for group, rows in there]
        step_s = facts.steps.steady_s() / steps if facts.steps is not None and steps else 0.0
        on_devices = facts.has(Need.DEVICE)
        ring_s = _ring_step_s(there, step_s, steps, facts) if steps and not on_devices else None
        return Annotated(findings, {HEAD_EXCHANGES.name: HeadExchanges(costs, step_s, on_devices, ring_s)})


def _steps(facts: Facts) -> int:
    """Steps of the steady state."""
    return len(facts.steps.number[facts.steps.steady()]) if facts.steps is not None else 0


def _in_steps(group: HeadExchange, facts: Facts) -> BoolArray:
    """Which attentions lie in the steady state; all where there is none ``[attentions]``."""
    first = group.begins[0::2]
    if not _steps(facts) or facts.steps is None:
        return np.ones(len(first), np.bool_)
    start_s, end_s = (times[facts.steps.steady()] for times in facts.steps.on_all_ranks())
    at_s, rank = facts.timeline.calls.enter_s[group.posted[first, 0]], group.ranks[0]
    return np.asarray((at_s >= start_s[0, rank]) & (at_s <= end_s[-1, rank]))


def _ring_step_s(
    there: Sequence[tuple[HeadExchange, BoolArray]], step_s: float, steps: int, facts: Facts
) -> float | None:
    """A step with rings of keys and values instead, by a replay; None where that is off."""
    if facts.replay.error() > TRUSTED_REPLAY:
        return None
    timeline = facts.timeline
    transfer_s = facts.waits.transfer_s(timeline)
    hidden_s = np.zeros(len(timeline.calls))
    for group, rows in there:
        mine = group.came[group.calls_of(rows)]
        hidden_s[mine] += hidden_in_a_ring_s(group, transfer_s, timeline)[mine]
    none = np.zeros(len(timeline.calls) + len(timeline.locations))
    measured_s, (end_s,) = facts.replay.run_ends_s([Change.of(none, shorter_s=hidden_s)])
    return step_s - (measured_s - end_s) / steps
