"""Parts of one message (a shape, a mask, the data), which a program sends one right after the other.

That the next send follows at once shows it, but any one of them may be late: its process had no core. So where two
calls follow each other again and again, most of these times decide: a program that sends the data after the shape does
so each time. Where one call is made after itself with as many bytes (a loop over tensors), each time may be another
thing; there messages have as many parts as usual.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.recognised.recorded_messages import Messages
from scalana.detectors.thresholds.certainty import USUAL_RANGE
from scalana.detectors.thresholds.differences import EVEN
from scalana.detectors.thresholds.seconds import NO_WORK_S
from scalana.graphs.arrays.hashing import distinct
from scalana.graphs.arrays.segments import quantile_by_key
from scalana.graphs.arrays.types import BoolArray, IntArray


def whole(messages: Messages, alike: bool = True) -> Messages:
    """Messages, the parts of one taken together, in the order of their sending.

    Those of which one usually follows the other in its channel far faster than messages do are parts of one, which is
    as large as the largest, and there with the last. With ``alike``, messages of one size may be parts as well;
    without, they are none: a forward and a gradient that go together.
    """
    channel = distinct(messages.source * (int(messages.target.max()) + 1) + messages.target)[2]
    order = np.lexsort((messages.sent_s, channel))
    rows, channel = messages.take(order), channel[order]
    first = np.flatnonzero(_begins(rows, channel, alike))
    last = np.append(first[1:], len(channel)) - 1
    joined = replace(
        rows.take(first),
        bytes=np.maximum.reduceat(rows.bytes, first),
        passed_s=rows.passed_s[last],
        taken_begin_s=rows.taken_begin_s[last],
        taken_s=rows.taken_s[last],
        came_s=rows.came_s[last],
    )
    return joined.take(np.argsort(joined.sent_s, kind="stable"))


def _begins(rows: Messages, channel: IntArray, alike: bool) -> BoolArray:
    """Whether a message begins with each of these parts, which are sorted by channel and time ``[parts]``."""
    begins = np.ones(len(channel), bool)
    follows = np.flatnonzero(channel[1:] == channel[:-1]) + 1
    if not len(follows):
        return begins
    pause = np.maximum(rows.sent_s[follows] - rows.passed_s[follows - 1], 0.0)
    limit = np.zeros(int(channel.max()) + 1)
    number, usual = quantile_by_key(channel[follows], pause, USUAL_RANGE)
    limit[number] = np.minimum(NO_WORK_S, EVEN * usual)
    call = _calls(rows)
    before, after = call[follows - 1], call[follows]
    begins[follows] = _mostly(before * len(call) + after, pause >= limit[channel[follows]], before == after)
    if not alike:
        begins[follows] |= rows.bytes[follows - 1] == rows.bytes[follows]
    repeats = np.zeros(len(channel), bool)
    repeats[follows] = before == after
    return _as_many_as_usual(begins, repeats, call)


def _calls(rows: Messages) -> IntArray:
    """A number for what sends each part: a place in the program, with a size if that is common there ``[parts]``."""
    number = distinct(rows.site * (int(rows.bytes.max()) + 1) + rows.bytes)[2]
    common = np.bincount(number)[number] >= EVEN * np.bincount(rows.site)[rows.site]
    return distinct(np.where(common, number, int(number.max()) + 1 + rows.site))[2]


def _mostly(pair: IntArray, apart: BoolArray, alone: BoolArray) -> BoolArray:
    """Whether most of the same pair are apart; but each of those that stand ``alone`` by itself ``[pairs]``."""
    number = distinct(pair)[2]
    return np.asarray(np.where(alone, apart, 2 * np.bincount(number, apart)[number] >= np.bincount(number)[number]))


def _as_many_as_usual(begins: BoolArray, repeats: BoolArray, call: IntArray) -> BoolArray:
    """``begins`` once more: where one call ``repeats`` the one before, so that what it sends are runs of parts of a
    message. Runs next to each other that have seldom such a length, and together that of several usual ones, are
    these.

    ``call`` is as :func:`_calls` has it ``[parts]``, as the others are.
    """
    first = np.flatnonzero(begins | ~repeats)
    length = np.diff(np.append(first, len(begins)))
    lengths = int(length.max()) + 1
    pair, _, number = distinct(call[first] * lengths + length)
    pair = pair[np.argsort(np.bincount(number), kind="stable")]
    usual = np.zeros(int(call.max()) + 1, np.int64)
    usual[pair // lengths] = pair % lengths  # the last one stays
    usual = usual[call[first]]
    odd = length != usual
    # Odd runs of a call next to each other.
    opens = odd & ~(repeats[first] & np.concatenate(([False], odd[:-1])))
    group = np.cumsum(opens)
    parts = np.bincount(group[odd], length[odd], minlength=len(first) + 1)
    size = int(call.max()) + 1
    seldom = np.bincount(call[first[opens]], minlength=size) < EVEN * np.bincount(call[first], minlength=size)
    mended = odd & seldom[call[first]] & (parts[group] % usual == 0)
    begins = begins.copy()
    for at in np.flatnonzero(mended & opens).tolist():
        begin, end = first[at], first[at] + int(parts[group[at]])
        begins[begin + 1 : end] = False
        begins[begin : end : usual[at]] |= np.arange(begin, end, usual[at]) > begin
    return begins
