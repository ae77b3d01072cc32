"""The messages of a run, group by group of ranks that send each other any, as what a pipeline is recognised by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.measured.reductions import find_reductions
from scalana.detectors.pipeline.model.engines import Engine, SendWait
from scalana.detectors.pipeline.recognised.between_messages import Pause, PauseRows
from scalana.detectors.pipeline.recognised.chains import MessageRows
from scalana.detectors.thresholds.seconds import NO_WORK_S
from scalana.detectors.thresholds.shares import MINOR
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.hashing import distinct
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import OPERATIONS

SENDS = np.array([row.code for row in OPERATIONS if row.name in ("send", "blocking_send")])
RECEIVES = np.array([row.code for row in OPERATIONS if row.name == "recv"])


@dataclass(frozen=True)
class Messages(ColumnTable):
    """Messages of which both ends are in the record, ``[messages]`` all; times of both ends."""

    source: IntArray
    target: IntArray
    bytes: IntArray
    site: IntArray
    """The vertex of the structure that sends it."""
    sent_s: FloatArray
    """When the call that sends it began."""
    passed_s: FloatArray
    """When that call was over."""
    taken_begin_s: FloatArray
    """When its sender began to wait until it was taken; NaN where it never did."""
    taken_s: FloatArray
    """Until when; NaN where it never did."""
    posted_s: FloatArray
    """When it was asked for."""
    asked_s: FloatArray
    """When its receiver began to wait for it."""
    came_s: FloatArray
    """When its receiver could go on."""

    def ends(self) -> MessageRows:
        """Each message as a send and a receive."""
        count = len(self.source)
        return MessageRows(
            rank=np.concatenate((self.source, self.target)),
            peer=np.concatenate((self.target, self.source)),
            is_send=np.repeat([1, 0], count),
            bytes=np.concatenate((self.bytes, self.bytes)),
            begin_s=np.concatenate((self.sent_s, self.asked_s)),
            end_s=np.concatenate((self.passed_s, self.came_s)),
            message=np.tile(np.arange(count), 2),
        )


def groups(timeline: Timeline) -> list[Messages]:
    """The messages of every group of ranks in which they could go along a line or around a ring: no rank has more than
    two others.

    None where calls were left out of the record: then what follows what is not known.
    """
    pair = _pairs(timeline)
    if pair is None:
        return []
    sent, received, source, target = pair
    ranks = timeline.ranks
    keys, _, number = distinct(np.minimum(source, target) * ranks + np.maximum(source, target))
    one, other = keys // ranks, keys % ranks
    label = _connected(one, other, ranks)
    degree = np.bincount(one, minlength=ranks) + np.bincount(other, minlength=ranks)
    linked = label >= 0
    most, ends = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
    np.maximum.at(most, label[linked], degree[linked])
    np.add.at(ends, label[linked], degree[linked] == 1)
    group = label[one][number]
    rows = np.flatnonzero((most[group] <= 2) & ((ends[group] == 2) | (ends[group] == 0)))
    if not len(rows):
        return []
    rows = rows[np.argsort(group[rows], kind="stable")]
    messages, known = _read(timeline, sent[rows], received[rows], source[rows], target[rows])
    bounds = np.flatnonzero(np.diff(group[rows])) + 1
    parts = np.split(np.arange(len(rows)), bounds)
    return [messages.take(part) for part in parts if known[part].all()]


def several_open(messages: Messages) -> bool:
    """Whether several ranks of a group send before they receive anything, of a line several of its ends: then it is no
    chain (:func:`~scalana.detectors.pipeline.recognised.chains.find_chain`), however parts are taken together. True
    only where times leave no doubt."""
    ranks = int(max(messages.source.max(), messages.target.max())) + 1
    sent_s, asked_s = np.full(ranks, np.inf), np.full(ranks, np.inf)
    np.minimum.at(sent_s, messages.source, messages.sent_s)
    np.minimum.at(asked_s, messages.target, messages.asked_s)
    there, back = messages.source * ranks + messages.target, messages.target * ranks + messages.source
    pairs = distinct(np.concatenate((there, back)))[0]
    ends = np.bincount(pairs // ranks, minlength=ranks) == 1
    opens = sent_s < asked_s
    return int((opens & ends if ends.any() else opens).sum()) > 1


def _pairs(timeline: Timeline) -> tuple[IntArray, IntArray, IntArray, IntArray] | None:
    """The sending and the receiving call of every message, and their ranks; None where there are no such, or calls were
    left out."""
    calls, instances = timeline.calls, timeline.instances
    if timeline.unwritten is not None or not len(instances):
        return None
    size = np.diff(instances.first)
    rows = np.flatnonzero(instances.complete & (size == 2) & np.isin(instances.operation, SENDS))
    first = instances.members[instances.first[rows]].astype(np.int64)
    second = instances.members[instances.first[rows] + 1].astype(np.int64)
    kept = np.isin(calls.operation[second], RECEIVES) & np.isin(calls.operation[first], SENDS)
    first, second = first[kept], second[kept]
    rank = timeline.locations.rank
    source, target = rank[calls.location[first]].astype(np.int64), rank[calls.location[second]].astype(np.int64)
    apart = source != target
    return (first[apart], second[apart], source[apart], target[apart]) if apart.any() else None


def _connected(one: IntArray, other: IntArray, ranks: int) -> IntArray:
    """The lowest rank that each rank is linked to, over others too; -1 for those with no link ``[ranks]``."""
    label = np.full(ranks, -1, np.int64)
    label[one], label[other] = one, other
    while True:
        least = np.minimum(label[one], label[other])
        before = label.copy()
        np.minimum.at(label, one, least)
        np.minimum.at(label, other, least)
        label[label >= 0] = label[label[label >= 0]]
        if (label == before).all():
            return label


def _read(
    timeline: Timeline, sent: IntArray, received: IntArray, source: IntArray, target: IntArray
) -> tuple[Messages, BoolArray]:
    """Messages by their sending and receiving calls, and whether it was seen when each came ``[messages]``."""
    calls = timeline.calls
    rank = timeline.locations.rank
    instances = calls.posts[sent]
    row = np.full(len(timeline.instances), -1, np.int64)
    row[instances] = np.arange(len(sent))
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    message = row[calls.waits]
    call, message = call[message >= 0], message[message >= 0]
    waited = []
    for end in (source, target):
        mine = rank[calls.location[call]] == end[message]
        last = np.full(len(sent), -1, np.int64)
        last[message[mine]] = call[mine]
        waited.append(last)
    taken, asked = waited
    messages = Messages(
        source,
        target,
        calls.nbytes[sent].astype(np.int64),
        calls.vertex[sent].astype(np.int64),
        calls.enter_s[sent],
        calls.exit_s[sent],
        np.where(taken >= 0, calls.enter_s[taken], np.nan),
        np.where(taken >= 0, calls.exit_s[taken], np.nan),
        calls.enter_s[received],
        calls.enter_s[asked],
        calls.exit_s[asked],
    )
    return messages, asked >= 0


def sending(messages: Messages) -> Engine:
    """How the program sends, in the terms of engines, by what most of its messages show."""
    waits = ~np.isnan(messages.taken_s)
    # Whether a message goes only when it is asked for shows where that was later, and the sender waited.
    late = waits & (messages.posted_s > messages.sent_s + NO_WORK_S)
    rendezvous = bool(late.any()) and bool(np.mean(messages.taken_s[late] >= messages.posted_s[late] - NO_WORK_S) > 0.5)
    following = np.full(len(messages.source), np.inf)
    asked = np.full(len(messages.source), np.inf)
    for source, target in np.unique(np.stack((messages.source, messages.target)), axis=1).T.tolist():
        mine = np.flatnonzero((messages.source == source) & (messages.target == target))
        following[mine[:-1]] = messages.sent_s[mine[1:]]
        posts = np.sort(messages.posted_s[messages.target == source])
        at = np.searchsorted(posts, messages.sent_s[mine])
        asked[mine] = np.append(posts, np.inf)[at]
    at_once = waits & (messages.taken_begin_s <= messages.passed_s + NO_WORK_S)
    together = at_once & (asked < messages.taken_begin_s)
    soon = waits & ~at_once & (messages.taken_begin_s <= following)
    modes = {
        SendWait.AT_ONCE: together,
        SendWait.BLOCKING: at_once & ~together,
        SendWait.NEXT_SEND: soon,
        SendWait.NEVER: ~at_once & ~soon,
    }
    # Only where the direction turns can both be asked for at once: it takes but some to show it.
    if together.sum() > MINOR * at_once.sum():
        modes[SendWait.AT_ONCE] = at_once
    most = max(modes, key=lambda mode: int(modes[mode].sum()))
    return Engine("messages", rendezvous, send_wait=most if rendezvous else SendWait.NEVER)


def pauses(messages: Messages, timeline: Timeline, spans: Spans) -> PauseRows:
    """What the ranks of these messages do besides: waits for own messages, data, optimizers, other calls that wait."""
    ranks = np.unique(np.concatenate((messages.source, messages.target)))
    parts = []

    def add(what: Pause, rank: IntArray, begin_s: FloatArray, end_s: FloatArray) -> None:
        kept = np.isin(rank, ranks) & (end_s > begin_s)
        parts.append((rank[kept], np.full(int(kept.sum()), what), begin_s[kept], end_s[kept]))

    apart = messages.taken_begin_s >= messages.passed_s
    add(Pause.SEND, messages.source[apart], messages.taken_begin_s[apart], messages.taken_s[apart])
    for what, kind in ((Pause.DATA, "data"), (Pause.OPTIMIZER, "optimizer")):
        rows = spans.rows(kind)
        add(what, spans.rank[rows], spans.start_s(rows), spans.end_s(rows))
    calls, operation = timeline.calls, timeline.instances.operation
    rank = timeline.locations.rank[calls.location].astype(np.int64)
    call = np.repeat(np.arange(len(calls)), np.diff(calls.wait_first))
    other = np.zeros(len(calls), bool)
    other[call[~np.isin(operation[calls.waits], SENDS)]] = True
    reducing = np.zeros(len(calls), bool)
    reducing[find_reductions(timeline, tuple(ranks.tolist())).call] = True
    for what, chosen in ((Pause.GRADIENTS, reducing), (Pause.OTHER, other & ~reducing)):
        add(what, rank[chosen], calls.enter_s[chosen], calls.exit_s[chosen])
    return PauseRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
