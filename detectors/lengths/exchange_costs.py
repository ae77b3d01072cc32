"""What exchanges of heads take of a step, and what a ring of keys and values would take instead.

Around a ring of ``n`` ranks, keys and values of each rank's tokens are sent ``n - 1`` times, and in the backward their
gradients with them; with the parts of sequences in zigzag all ranks compute as much in each round as here. Messages
are taken to take as long a byte as the exchanges, and to pass while a block is computed, so that only what exceeds this
is left of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.lengths.head_exchanges import HeadExchange
from scalana.detectors.section_name import SectionName
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.ppg import PPG
from scalana.graphs.structure.psg import Place
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class ExchangeCost:
    """What the exchanges of some ranks take of a step; seconds are those of an average rank."""

    ranks: tuple[int, ...]
    queries_per_key: int
    place: Place
    """Where the program exchanges."""
    attentions: float
    calls: float
    nbytes: float
    """That a rank sends to others."""
    exchange_s: float
    """In these calls, with waiting."""
    wait_s: float
    """Of these, waiting for other ranks."""
    attention_s: float
    """Between the two exchanges of an attention."""
    ring_bytes: float
    """That a rank would send to the next one if keys and values went around a ring."""


@dataclass(frozen=True, slots=True)
class HeadExchanges:
    """All groups of ranks that exchange tokens for heads."""

    groups: list[ExchangeCost]
    step_s: float
    """Of the steady state, 0 where the run has no steps: then all amounts are of the whole run."""
    on_devices: bool
    """Whether devices compute: hosts only launch then, and how long they take says nothing."""
    ring_step_s: float | None
    """With a ring of keys and values instead; None where a replay cannot show it."""


HEAD_EXCHANGES: SectionName[HeadExchanges] = SectionName("head-exchanges")


def sent_bytes(group: HeadExchange) -> FloatArray:
    """What a rank sends to others in each exchange ``[exchanges]``."""
    return group.nbytes * (1.0 - 1.0 / len(group.ranks))


def ring_bytes(group: HeadExchange) -> FloatArray:
    """What a rank would send to the next one in a round, in each attention ``[attentions]``."""
    return np.where(group.forward, 1.0, 2.0) * group.keys_and_values


def cost_of(group: HeadExchange, inside: BoolArray, steps: int, wait_s: FloatArray, ppg: PPG) -> ExchangeCost:
    """What exchanges take of one of some steps, in which some attentions lie ``[attentions]``; ``wait_s`` is what every
    call waits ``[calls]``."""
    timeline = ppg.timeline
    calls, ranks = timeline.calls, len(group.ranks)
    mine = group.calls_of(inside)
    spent_s = calls.exit_s[group.came[mine]] - calls.enter_s[group.posted[mine]]
    return ExchangeCost(
        ranks=group.ranks,
        queries_per_key=group.queries_per_key,
        place=ppg.psg[max(int(calls.vertex[group.posted[0, 0]]), 0)].place,
        attentions=float(inside.sum()) / steps,
        calls=float(mine.sum()) / steps,
        nbytes=float(sent_bytes(group)[np.repeat(inside, 2)].sum()) / steps,
        exchange_s=float(spent_s.sum()) / ranks / steps,
        wait_s=float(wait_s[group.came[mine]].sum()) / ranks / steps,
        attention_s=float(group.attention_s(timeline)[inside].sum()) / ranks / steps,
        ring_bytes=float((ranks - 1) * ring_bytes(group)[inside].sum()) / steps,
    )


def hidden_in_a_ring_s(group: HeadExchange, transfer_s: FloatArray, timeline: Timeline) -> FloatArray:
    """What of the transfer of every exchange a ring would not take, as its messages pass while blocks are computed
    ``[calls]``; ``transfer_s`` is what every call takes without waiting ``[calls]``."""
    ranks = len(group.ranks)
    taken_s = weighted_count(group.exchange // 2, transfer_s[group.came].mean(axis=1), len(group.nbytes) // 2)
    byte_s = float(taken_s.sum() / sent_bytes(group).sum())
    block_s = group.attention_s(timeline).mean(axis=1) / ranks
    seen_s = (ranks - 1) * np.maximum(ring_bytes(group) * byte_s - block_s, 0.0)
    part = 1.0 - np.divide(seen_s, taken_s, out=np.zeros(len(taken_s)), where=taken_s > 0.0)
    shorter_s = np.zeros(len(timeline.calls))
    shorter_s[group.came] = transfer_s[group.came] * part[group.exchange // 2][:, None]
    return shorter_s
