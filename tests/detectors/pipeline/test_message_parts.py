"""Parts of messages are told from messages, though one or the other is early or late."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from scalana.detectors.pipeline.recognised.chains import find_chain
from scalana.detectors.pipeline.recognised.hand_written import recognised
from scalana.detectors.pipeline.recognised.hypotheses import Known
from scalana.detectors.pipeline.recognised.message_groups import whole
from scalana.detectors.pipeline.recognised.recorded_messages import Messages, groups, several_open
from tests.detectors.pipeline.test_hand_written import program
from tests.detectors.simulator import simulate

SHAPE, DATA = 24, 4096


def sent(parts: list[tuple[int, int, float]]) -> Messages:
    """What goes from one rank to another: where it is sent, bytes, and ms since the one before."""
    site, size = (np.array(column) for column in list(zip(*parts, strict=True))[:2])
    at = np.cumsum([ms for *_, ms in parts]) / 1e3
    zero, nothing = np.zeros(len(at), np.int64), np.full(len(at), np.nan)
    return Messages(zero, zero + 1, size, site, at, at + 2e-5, nothing, nothing, at, at, at + 1e-4)


def sizes(messages: Messages, alike: bool = True) -> list[int]:
    return whole(messages, alike).bytes.tolist()


@pytest.mark.parametrize("late", [1, 3, 13, 31])
def test_a_part_that_is_late_is_one_all_the_same(late: int) -> None:
    parts = [(n % 2, (SHAPE, DATA)[n % 2], (20.0, 0.1)[n % 2]) for n in range(32)]
    parts[late] = (*parts[late][:2], 5.0)
    assert sizes(sent(parts)) == [DATA] * 16
    # All by one call, and data of many sizes: the shape is what comes again and again.
    parts = [(0, SHAPE if n % 2 == 0 else DATA + n, ms) for n, (*_, ms) in enumerate(parts)]
    assert sizes(sent(parts)) == [DATA + n for n in range(1, 32, 2)]
    # Two tensors of one size, in a loop.
    assert sizes(sent([(0, DATA, ms) for *_, ms in parts])) == [DATA] * 16
    # A shape, and then two in a loop.
    three = [(int(n % 3 > 0), DATA if n % 3 else SHAPE, 0.1 if n % 3 else 20.0) for n in range(48)]
    three[3 * (late // 2) + 2] = (1, DATA, 5.0)
    assert sizes(sent(three)) == [DATA] * 16


def test_a_message_that_comes_soon_is_none_of_the_one_before() -> None:
    for site in (lambda n: 0, lambda n: n % 2):  # one call, or two in turns
        parts = [(site(n), DATA, 20.0) for n in range(24)]
        parts[7] = (site(7), DATA, 0.1)
        assert sizes(sent(parts)) == [DATA] * 24


def test_where_messages_have_one_part_or_several_each_is_what_it_is() -> None:
    parts: list[tuple[int, int, float]] = []
    for n in range(12):  # every third one has two
        parts += [(0, DATA, 20.0), *([(0, DATA, 0.1)] if n % 3 == 0 else [])]
    assert sizes(sent(parts)) == [DATA] * 12
    assert sizes(sent(parts), alike=False) == [DATA] * 16
    # A shape before some of them, which others send alone.
    parts = []
    for n in range(12):
        parts += [(0, SHAPE, 20.0), (1, DATA, 0.1)] if n % 2 else [(2, DATA, 20.0)]
    assert sizes(sent(parts)) == [DATA] * 12


def with_shapes(messages: Messages, late: int) -> Messages:
    """Each message after its shape; the data of one is late."""
    before = replace(
        messages,
        bytes=np.full(len(messages.bytes), SHAPE),
        sent_s=messages.sent_s - 2e-4,
        passed_s=messages.sent_s - 1e-4,
        came_s=messages.came_s - 1e-4,
    )
    before.passed_s[late] -= 0.002
    before.sent_s[late] -= 0.002
    after = replace(messages, bytes=np.full(len(messages.bytes), DATA), site=messages.site + 1)
    return Messages(
        *(np.concatenate([getattr(one, column.name) for one in (before, after)]) for column in fields(Messages))
    )


def test_steps_are_told_from_evaluations_whichever_part_is_late() -> None:
    timeline, _ = simulate(program(evaluate=True, steps=6))
    (messages,) = groups(timeline)
    count = len(messages.source)
    for late in range(0, count, 23):
        found, joined = recognised(with_shapes(messages, late), Known(training=True))
        assert len(joined.source) == count and set(joined.bytes.tolist()) == {DATA}
        assert found is not None and found.microbatches.tolist() == [8] * 6
        assert int(found.beside.is_send.sum()) == 3 * 3 * 3  # three evaluations of three, over three hops


def halo(ranks: int, steps: int) -> list[list[tuple]]:
    """Ranks around a ring that send to both neighbours, and then receive from them."""
    programs = []
    for rank in range(ranks):
        near = (rank - 1) % ranks, (rank + 1) % ranks
        sends, receives = ([(what, peer) for peer in near] for what in ("send", "recv"))
        programs.append([("work", "inside", 2.0), *sends, ("work", "edge", 0.3), *receives] * steps)
    return programs


def test_ranks_that_all_send_first_are_no_chain_however_parts_are_taken_together() -> None:
    (messages,) = groups(simulate(halo(6, 12))[0])
    assert several_open(messages)
    assert all(find_chain(whole(messages, alike).ends()) is None for alike in (True, False))


@pytest.mark.parametrize("late", [0, 5, 40])
def test_a_chain_is_opened_by_one_rank_alone(late: int) -> None:
    timeline, _ = simulate(program(evaluate=True, steps=6))
    (messages,) = groups(timeline)
    parts = with_shapes(messages, late)
    assert find_chain(whole(parts).ends()) is not None
    assert not several_open(messages) and not several_open(parts)
