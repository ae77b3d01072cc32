"""Ranks that exchange tokens for heads around attention, and back: context parallelism as in Ulysses (Jacobs et al.,
2023).

Every rank has a part of each sequence with all heads. An all-to-all gives it all tokens of some heads, it computes the
attention of these, and another one gives the tokens back. Only messages are needed to see that: the first exchange
carries queries, keys and values, and the second one the result, which is as large as the queries. With ``g`` heads of
queries for each one of keys and values, they are as ``1 + 2/g`` to 1, and the other way round in the backward. Experts
that get tokens and give them back move as many bytes both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scalana.detectors.lengths.context_groups import last_waits
from scalana.detectors.thresholds.counts import SHOWS_THE_USUAL
from scalana.detectors.thresholds.factors import LARGER_INPUT, SAME_SIZE
from scalana.detectors.thresholds.shares import MINOR
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME

_ALL_TO_ALL = BY_NAME["alltoall"].code


@dataclass(frozen=True, slots=True)
class HeadExchange:
    """Ranks that exchange tokens for heads, and all that they exchanged. An attention has two exchanges."""

    ranks: tuple[int, ...]
    posted: IntArray
    """The calls that begin to exchange ``[calls, ranks]``."""
    came: IntArray
    """The calls after which all is there, the same where a call blocks ``[calls, ranks]``."""
    exchange: IntArray
    """Of each call, ascending from 0: queries, keys and values may come one by one ``[calls]``."""
    nbytes: FloatArray
    """What a rank gives to each exchange ``[exchanges]``."""
    queries_per_key: int
    """Heads of queries for each head of keys and values."""

    @property
    def forward(self) -> BoolArray:
        """Whether an attention is one of a forward ``[attentions]``."""
        first, second = self.nbytes.reshape(-1, 2).T
        return np.asarray(first > second)

    @property
    def keys_and_values(self) -> FloatArray:
        """Bytes of keys and values of a rank's own tokens in each attention ``[attentions]``."""
        return np.asarray(np.abs(np.diff(self.nbytes.reshape(-1, 2), axis=1))[:, 0])

    @property
    def begins(self) -> IntArray:
        """The first call of each exchange ``[exchanges]``."""
        return np.flatnonzero(np.diff(self.exchange, prepend=-1))

    def calls_of(self, attentions: BoolArray) -> BoolArray:
        """Which calls belong to some ``[attentions]``; ``[calls]``."""
        return attentions[self.exchange // 2]

    def attention_s(self, timeline: Timeline) -> FloatArray:
        """What lies between the two exchanges of each attention ``[attentions, ranks]``."""
        calls = timeline.calls
        first = self.begins
        last = np.append(first[1:], len(self.exchange)) - 1
        return np.asarray(calls.enter_s[self.posted[first[1::2]]] - calls.exit_s[self.came[last[0::2]]])


def head_exchanges(timeline: Timeline) -> Iterator[HeadExchange]:
    """All communicators of which the messages are such ones."""
    if timeline.unwritten is not None:
        return
    instances = timeline.instances
    found = np.flatnonzero(instances.complete & (instances.operation == _ALL_TO_ALL) & (instances.communicator >= 0))
    for communicator in np.unique(instances.communicator[found]).tolist():
        group = _group(timeline, found[instances.communicator[found] == communicator])
        if group is not None:
            yield group


def _group(timeline: Timeline, instances: IntArray) -> HeadExchange | None:
    """The exchanges of one communicator; None where these are others."""
    calls, first = timeline.calls, timeline.instances.first
    count = np.diff(first)[instances]
    if count[0] < 2 or (count != count[0]).any():
        return None
    posted = timeline.instances.members[first[instances][:, None] + np.arange(count[0])].astype(np.int64)
    order = np.argsort(calls.enter_s[posted[:, 0]], kind="stable")
    posted, instances = posted[order], instances[order]
    came = np.stack([last_waits(timeline, calls.location[one], instances) for one in posted.T], axis=1)
    nbytes = calls.nbytes[posted]
    if (came < 0).any() or (nbytes != nbytes[:, :1]).any() or (nbytes <= 0).any():
        return None
    ranks = tuple(timeline.locations.rank[calls.location[posted[0]]].tolist())
    apart_s = np.median(calls.enter_s[posted[1:]] - calls.exit_s[came[:-1]], axis=1)
    joined = np.concatenate(([0], np.cumsum(apart_s > MINOR * float(apart_s.mean())))) if len(apart_s) else None
    for exchange in (joined, np.arange(len(posted))):
        if exchange is None:
            continue
        given = weighted_count(exchange, nbytes[:, 0].astype(np.float64), int(exchange[-1]) + 1)
        queries_per_key = _queries_per_key(given)
        if queries_per_key:
            return HeadExchange(ranks, posted, came, exchange, given, queries_per_key)
    return None


def _queries_per_key(nbytes: FloatArray) -> int:
    """Heads of queries for each head of keys and values if exchanges of some bytes are those of attention, in turn
    before it and after it, forwards first; 0 where they are not ``[exchanges]``."""
    if len(nbytes) % 2 or len(nbytes) < 2 * SHOWS_THE_USUAL or nbytes[0] <= nbytes[1]:
        return 0
    pairs = nbytes.reshape(-1, 2)
    times = pairs.max(axis=1) / pairs.min(axis=1)
    usual = float(np.median(times))
    if usual <= LARGER_INPUT or float(times.max()) > SAME_SIZE * usual or float(times.min()) * SAME_SIZE < usual:
        return 0
    queries = 2.0 / (usual - 1.0)
    whole = max(round(queries), 1)
    return whole if max(queries / whole, whole / queries) <= SAME_SIZE else 0
