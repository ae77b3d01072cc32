"""Hand-written pipelines are recognised by their messages, and what only looks like one is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.pipeline.diagnosis.attribution import attribute
from scalana.detectors.pipeline.measured.replayable import read_rows
from scalana.detectors.pipeline.model.actions import Action, Kind, Program, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.lowering import Code, lower
from scalana.detectors.pipeline.model.schedules import BY_NAME, recognise
from scalana.detectors.pipeline.model.simulate import Setting, replay
from scalana.detectors.pipeline.recognised.chains import MessageRows, occurrence
from scalana.detectors.pipeline.recognised.hypotheses import Known
from scalana.detectors.pipeline.recognised.messages import recognise_messages
from tests.detectors.pipeline.examples import uniform
from tests.detectors.pipeline.own_orders import RULES, own_order
from tests.long import also

Row = tuple[int, int, int, int, float, float]


def table(rows: list[Row]) -> MessageRows:
    """Rows (rank, peer, is_send, bytes, begin, end) as columns."""
    columns = [np.array(column) for column in zip(*rows)]
    rank, peer, is_send, size = columns[:4]
    begin, end = (column.astype(float) for column in columns[4:])
    # Messages from one rank to another come in the order in which they went.
    source, target = np.where(is_send > 0, rank, peer), np.where(is_send > 0, peer, rank)
    order = np.lexsort((end, begin))
    number = np.empty(len(rows), np.int64)
    number[order] = occurrence(((source * 100 + target) * 2 + is_send)[order])
    return MessageRows(rank, peer, is_send, size, begin, end, (number * 100 + source) * 100 + target)


def of_pipeline(
    name: str, ranks: int, microbatches: int, costs: np.ndarray, steps: int = 2, holder=None, chunks: int = 1
) -> MessageRows:
    """What a recorder sees of a pipeline whose code has no names for anything."""
    return of_program(BY_NAME[name].program(ranks, microbatches, chunks), costs, steps, holder)


def of_program(program: Program, costs: np.ndarray, steps: int = 2, holder=None) -> MessageRows:
    """The same of any order; ``costs`` may be those of every action."""
    holder = list(range(program.ranks)) if holder is None else holder
    operations = lower(program)
    setting = Setting.plain(operations, costs if costs.ndim == 1 else spread_costs(program, costs))
    rows: list[Row] = []
    messages: list[int] = []  # receivers may ask for them in another order than they go in
    for step in range(steps):
        timeline = replay(operations, setting)
        for i, code in enumerate(operations.code):
            if code not in (Code.SEND, Code.RECEIVE):
                continue
            sides = [operations.sender, operations.receiver]
            own, other = sides if code == Code.SEND else sides[::-1]
            source, target = (holder[program.rank[side[operations.argument[i]]]] for side in (own, other))
            times = float(timeline.begin_s[i]), float(timeline.end_s[i])
            rows.append((source, target, int(code == Code.SEND), 4096, *times))
            messages.append(step * len(operations.code) + int(operations.argument[i]))
        setting.ready_s[:] = timeline.makespan_s
    return replace(table(rows), message=np.array(messages))


@pytest.mark.parametrize("ranks", [3, 4])
def test_a_hand_written_1f1b_is_recognised(ranks: int) -> None:
    costs = uniform(ranks)
    costs[:, 1] *= 1.5
    holder = [2, 0, 3, 1][:ranks] if ranks == 4 else [2, 0, 1]
    found = recognise_messages(of_pipeline("1F1B", ranks, 6, costs, steps=3, holder=holder))
    assert found is not None
    assert found.ranks == tuple(holder)
    assert found.microbatches.tolist() == [6, 6, 6]
    measured = read_rows(found.read().rows, ENGINES["ideal"])
    assert recognise(measured.first_step()) == "1F1B"
    result = attribute(measured)
    assert [round(stage.load, 2) for stage in result.stages] == pytest.approx(
        list(costs[Kind.F] / costs[Kind.F].mean()), abs=0.02
    )
    assert result.step_s == pytest.approx(replay_s(ranks, 6, costs), rel=0.03)  # the first forward is not seen


def replay_s(ranks: int, microbatches: int, costs: np.ndarray) -> float:
    """The step as it was."""
    program = BY_NAME["1F1B"].program(ranks, microbatches)
    operations = lower(program)
    return replay(operations, Setting.plain(operations, spread_costs(program, costs))).makespan_s


def test_what_looks_like_sweeps_too_needs_to_be_known_as_training() -> None:
    rows = of_pipeline("GPipe", 4, 4, uniform(4))
    assert recognise_messages(rows) is None
    found = recognise_messages(rows, Known(training=True))
    assert found is not None and recognise(read_rows(found.read().rows, ENGINES["ideal"]).first_step()) == "GPipe"
    two = of_pipeline("1F1B", 2, 4, uniform(2))
    assert recognise_messages(two) is None
    assert recognise_messages(two, Known(training=True)) is not None
    assert recognise_messages(of_pipeline("GPipe", 2, 4, uniform(2), steps=4)) is None
    assert recognise_messages(of_pipeline("1F1B", 2, 4, uniform(2), steps=4)) is not None  # all alike, in this order


@pytest.mark.parametrize(
    "name, ranks, microbatches, chunks",
    [("Interleaved1F1B", 4, 8, 2), ("Interleaved1F1B", 3, 6, 3), ("LoopedBFS", 4, 8, 2), ("Interleaved1F1B", 4, 4, 2)],
)
def test_several_stages_a_rank_are_recognised(name: str, ranks: int, microbatches: int, chunks: int) -> None:
    costs = uniform(ranks * chunks)
    costs[:, ranks] *= 1.5  # the second stage of the first rank
    holder = [2, 0, 3, 1][:ranks] if ranks == 4 else [2, 0, 1]
    program = BY_NAME[name].program(ranks, microbatches, chunks)
    if name == "LoopedBFS":
        program = looped(ranks, microbatches, chunks)
    found = recognise_messages(of_program(program, costs, 3, holder))
    assert found is not None and found.ranks == tuple(holder) and found.microbatches.tolist() == [microbatches] * 3
    measured = read_rows(found.read().rows, ENGINES["ideal"])
    told, first = measured.first_step(), measured.program.rank_of_stage.tolist()
    assert first == [s % ranks for s in range(ranks * chunks)]
    assert told.orders() == program.orders()
    result = attribute(measured)
    assert [stage.load for stage in result.stages] == pytest.approx(list(costs[0] / costs[0].mean()), abs=0.05)


def looped(ranks: int, microbatches: int, chunks: int) -> Program:
    """As LoopedBFS; but written by hand, backwards go in the order of forwards."""
    orders = BY_NAME["LoopedBFS"].program(ranks, microbatches, chunks).orders()
    return Program.of(
        [sorted(order, key=lambda one: (one.kind, one.stage * (-1) ** one.kind, one.microbatch)) for order in orders]
    )


def in_a_v(ranks: int, microbatches: int, size: int, ahead: int) -> Program:
    """Two stages a rank in a V, in rounds of so many microbatches."""
    forwards = [(c, m) for at in range(0, microbatches, size) for c in (0, 1) for m in range(at, at + size)]
    steps = [(Kind.F, c, m) for c, m in forwards[:ahead]]
    for (c, m), (back, number) in zip(forwards[ahead:], forwards, strict=False):
        steps += [(Kind.F, c, m), (Kind.B, 1 - back, number)]
    steps += [(Kind.B, 1 - c, m) for c, m in forwards[len(forwards) - ahead :]]
    last = 2 * ranks - 1
    return Program.of([[Action(kind, last - r if c else r, m) for kind, c, m in steps] for r in range(ranks)])


@pytest.mark.parametrize(
    "program",
    [
        BY_NAME["Interleaved1F1B"].program(2, 4, 2),
        BY_NAME["Interleaved1F1B"].program(2, 8, 3),
        looped(2, 8, 3),
        in_a_v(2, 8, 2, 4),
        in_a_v(2, 8, 8, 16),  # all forwards, then all backwards
        in_a_v(4, 8, 4, 10),
        in_a_v(4, 8, 8, 16),
    ],
)
@pytest.mark.parametrize("slow", [0, *also(None, 2)])
def test_forwards_and_backwards_that_share_a_way_are_told_apart(program: Program, slow: int | None) -> None:
    costs = uniform(program.stages)
    if slow is not None:
        costs[:, slow] *= 1.5
    holder = [2, 0, 3, 1] if program.ranks == 4 else [1, 0]
    rows = of_program(program, costs, 3, holder)
    found = recognise_messages(rows, Known(training=True))
    assert found is not None and found.ranks == tuple(holder)
    measured = read_rows(found.read().rows, ENGINES["ideal"])
    assert measured.first_step().orders() == program.orders()
    loads = [stage.load for stage in attribute(measured).stages]
    assert loads == pytest.approx(list(costs[0] / costs[0].mean()), abs=0.05)
    other = recognise_messages(rows)  # it may be something else
    assert other is None or other.stages is None


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ranks, most", [(3, 6), (3, 16), (4, 8), (4, 16)])
@pytest.mark.parametrize("slow, factor", [(None, 1.0), (1, 1.5), (1, 3.0), (5, 2.0)])
def test_orders_in_a_v_that_nobody_published(rule: str, ranks: int, most: int, slow: int | None, factor: float) -> None:
    program = own_order(ranks, 8, RULES[rule], most)
    costs = uniform(program.stages)
    if slow is not None:
        costs[:, slow] *= factor
    found = recognise_messages(of_program(program, costs, 3), Known(training=True))
    assert found is not None and not found.doubtful and found.microbatches.tolist() == [8] * 3
    measured = read_rows(found.read().rows, ENGINES["ideal"])
    assert measured.first_step().orders() == program.orders()
    loads = [stage.load for stage in attribute(measured).stages]
    assert loads == pytest.approx(list(costs[0] / costs[0].mean()), abs=0.05)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("most", [4, 16])
def test_on_two_ranks_such_an_order_is_doubtful(rule: str, most: int) -> None:
    found = recognise_messages(of_program(own_order(2, 8, RULES[rule], most), uniform(4), 3), Known(training=True))
    assert found is None or found.doubtful or found.stages is not None


def test_one_stage_a_rank_is_no_v_and_beyond_doubt() -> None:
    """Microbatches of several lengths in a standard order; and an order of its own in which actions are alike."""
    program = BY_NAME["1F1B"].program(4, 8)
    long = spread_costs(program, uniform(4))
    later = [[m >= 4 for m in range(8)], [m % 2 == 1 for m in range(8)], [m in (1, 5, 6) for m in range(8)]]
    for which in later:
        rows = of_program(program, np.where(np.array(which)[program.microbatch], 2.0, 1.0) * long, 3)
        found = recognise_messages(rows, Known(training=True))
        assert found is not None and found.stages is None and not found.doubtful
    orders = []
    for stage in range(4):  # one forward more ahead than in 1F1B
        ahead = min(4 - stage + (stage < 3), 8)
        order = [Action(Kind.F, stage, m) for m in range(ahead)]
        for m in range(8):
            order += [Action(Kind.B, stage, m)] + [Action(Kind.F, stage, m + ahead)] * (m + ahead < 8)
        orders.append(order)
    found = recognise_messages(of_program(Program.of(orders), uniform(4), 3), Known(training=True))
    assert found is not None and found.stages is None and not found.doubtful
    assert read_rows(found.read().rows, ENGINES["ideal"]).first_step().orders() == orders


def test_targets_and_losses_between_the_ends_do_not_matter() -> None:
    rows = of_pipeline("1F1B", 4, 6, uniform(4), steps=3)
    for source, target, side in ((0, 3, 1), (3, 0, 0)):
        first = (rows.rank == 0) & (rows.peer == 1) & (rows.is_send == side)  # beside each of these
        at = rows.begin_s[first]
        more = [(source, target, 1, 8, t, t) for t in at] + [(target, source, 0, 8, t + 0.5, t + 0.5) for t in at]
        both = joined(rows, table(more))
        found = recognise_messages(both)
        assert found is not None and found.ranks == (0, 1, 2, 3)
        assert found.between_ends is not None and len(found.between_ends.place) == 2 * len(at)


def joined(one: MessageRows, other: MessageRows) -> MessageRows:
    names = MessageRows.__dataclass_fields__
    return MessageRows(*(np.concatenate((getattr(one, name), getattr(other, name))) for name in names))


def test_forwards_alone_count_where_tensors_go_along_ranks_that_compute() -> None:
    order = [[Action(Kind.F, s, m) for m in range(12)] for s in range(4)]
    costs = uniform(4)
    costs[:, 2] *= 1.75
    rows = of_program(Program.of(order), costs, steps=1)
    assert recognise_messages(rows) is None and recognise_messages(rows, Known(training=True, tensors=True)) is None
    found = recognise_messages(rows, Known(tensors=True))
    assert found is not None and found.forwards_only and found.microbatches.tolist() == [11]
    result = attribute(read_rows(found.read().rows, ENGINES["ideal"]))
    assert [round(stage.load, 2) for stage in result.stages] == pytest.approx([0.84, 0.84, 1.47, 0.84], abs=0.02)
    # Handed on as it came: a broadcast along the line.
    rows = of_program(Program.of(order), uniform(4) * 1e-5, steps=1)
    assert recognise_messages(rows, Known(tensors=True)) is None
    # All ranks meet between the sixth and the seventh microbatch.
    rows = of_program(Program.of(order), costs, steps=1)
    moments = [np.sort(rows.begin_s[(rows.rank == rank) & (rows.is_send == (rank == 0))]) for rank in range(4)]
    met = {rank: at[5:7].mean(keepdims=True) for rank, at in enumerate(moments)}
    found = recognise_messages(rows, Known(tensors=True, met_s=lambda: met))
    assert found is not None and found.microbatches.tolist() == [5, 6]


def test_what_is_one_message_too_many_at_one_place_makes_no_other_steps() -> None:
    """An evaluation of which one forward counts twice: what follows has other numbers there than elsewhere."""
    order, evaluation = (
        of_program(Program.of(lists), uniform(4), steps=1)
        for lists in (
            BY_NAME["1F1B"].program(4, 8).orders(),
            [[Action(Kind.F, s, m) for m in range(8)] for s in range(4)],
        )
    )
    parts, at = [], 0.0
    for one in (order, order, evaluation, order, order, evaluation):
        parts.append(
            replace(one, begin_s=one.begin_s + at, end_s=one.end_s + at, message=one.message + len(parts) * 10**7)
        )
        at += float(one.end_s.max()) + 1
    rows = parts[0]
    for one in parts[1:]:
        rows = joined(rows, one)
    found = recognise_messages(rows, Known(training=True))
    assert found is not None and found.microbatches.tolist() == [8] * 4
    for rank, peer in ((0, 1), (1, 2)):
        begin_s = parts[2].begin_s[(parts[2].rank == rank) & (parts[2].is_send > 0)]
        came_s = parts[2].end_s[(parts[2].rank == peer) & (parts[2].is_send == 0)]
        more = [(rank, peer, 1, 4096, begin_s[2], begin_s[2]), (peer, rank, 0, 4096, came_s[2], came_s[2])]
        assert recognise_messages(joined(rows, table(more)), Known(training=True)) is None


def test_one_step_does_not_repeat() -> None:
    assert recognise_messages(of_pipeline("1F1B", 4, 8, uniform(4), steps=1), Known(training=True)) is None


def decoding(ranks: int, prompts: int, tokens: int, batches: int, work_s: list[float]) -> list[Row]:
    """What the last rank makes goes back to the first one, for the next token."""
    rows: list[Row] = []
    free = [0.0] * ranks
    for _ in range(batches):
        back: dict[int, float] = {}
        for token in range(tokens + 1):
            for prompt in range(prompts):
                if token:
                    rows.append((0, ranks - 1, 0, 8, free[0], max(free[0], back[prompt])))
                    free[0] = max(free[0], back[prompt])
                for rank in range(ranks) if token < tokens else ():
                    free[rank] += work_s[rank]
                    following = (rank + 1) % ranks
                    rows.append((rank, following, 1, 8, free[rank], free[rank]))
                    if following:
                        rows.append((following, rank, 0, 8, free[following], max(free[following], free[rank])))
                        free[following] = max(free[following], free[rank])
                    else:
                        back[prompt] = free[rank]
    return rows


def test_tokens_go_back_to_the_first_rank() -> None:
    rows = table(decoding(4, 3, 6, 3, [0.1, 0.1, 0.15, 0.1]))
    assert recognise_messages(rows) is None
    found = recognise_messages(rows, Known(tensors=True))
    assert found is not None and found.forwards_only and found.microbatches.tolist() == [53]
    measured = read_rows(found.read().rows, ENGINES["ideal"])
    result = attribute(measured)
    assert abs(result.replay_error) < 0.02 and result.shares["host"] < 0.02
    assert [round(stage.load, 2) for stage in result.stages] == pytest.approx([0.89, 0.89, 1.33, 0.89], abs=0.02)
    assert (
        result.shares["schedule"] > 0.2
    )  # three prompts over four ranks: at each token they wait for one to come back
    one = table(decoding(4, 1, 12, 2, [0.1, 0.1, 0.15, 0.1]))
    assert recognise_messages(one, Known(tensors=True)) is None  # a token that goes around alone
    # Another size comes back than went along: one microbatch at a time.
    along = np.abs(one.rank - one.peer) == 1
    one = replace(one, bytes=np.where(along, 4096, 8))
    assert recognise_messages(one) is None and recognise_messages(one, Known(training=True, tensors=True)) is None
    found = recognise_messages(one, Known(tensors=True))
    assert found is not None and found.forwards_only and found.first == 1
    result = attribute(read_rows(found.read().rows, ENGINES["ideal"]))
    assert [round(stage.load, 2) for stage in result.stages] == pytest.approx([0.89, 0.89, 1.33, 0.89], abs=0.02)
    assert result.shares["schedule"] + result.shares["imbalance"] == pytest.approx(0.75, abs=0.03)


def halo(ranks: int, steps: int) -> list[Row]:
    """Every rank sends to both neighbours, then receives from both."""
    rows: list[Row] = []
    for step in range(steps):
        for rank in range(ranks):
            near = [peer for peer in (rank - 1, rank + 1) if 0 <= peer < ranks]
            rows += [(rank, peer, 1, 64, step + 0.1, step + 0.1) for peer in near]
            rows += [(rank, peer, 0, 64, step + 0.2, step + 0.3) for peer in near]
    return rows


def blocking_halo(steps: int) -> list[Row]:
    """Three ranks, the outer ones send first, the middle one serves them in turn."""
    rows: list[Row] = []
    for step in range(steps):
        for side, at in ((0, 0.1), (2, 0.3)):
            rows += [(side, 1, 1, 64, step + at, step + at + 0.05), (1, side, 0, 64, step + at, step + at + 0.05)]
            rows += [(1, side, 1, 64, step + at + 0.06, step + at + 0.1)]
            rows += [(side, 1, 0, 64, step + at + 0.06, step + at + 0.1)]
    return rows


def ring(ranks: int, steps: int) -> list[Row]:
    """A ring allreduce."""
    rows: list[Row] = []
    for step in range(steps):
        for rank in range(ranks):
            rows.append((rank, (rank + 1) % ranks, 1, 64, step + 0.1, step + 0.1))
            rows.append((rank, (rank - 1) % ranks, 0, 64, step + 0.2, step + 0.3))
    return rows


def manager(ranks: int, tasks: int) -> list[Row]:
    """Rank 0 hands tasks out and takes results."""
    rows: list[Row] = []
    for task in range(tasks):
        for worker in range(1, ranks):
            rows.append((0, worker, 1, 64, task + 0.1, task + 0.1))
            rows.append((worker, 0, 0, 64, task, task + 0.1))
            rows.append((worker, 0, 1, 64, task + 0.6, task + 0.6))
            rows.append((0, worker, 0, 64, task + 0.5, task + 0.6))
    return rows


def sweep(ranks: int, blocks: int, back: bool) -> list[Row]:
    """A wavefront along a line of ranks, and one back where asked for."""
    rows: list[Row] = []
    for block in range(blocks):
        for rank in range(ranks - 1):
            at = block + 0.1 * rank
            rows += [(rank, rank + 1, 1, 64, at, at), (rank + 1, rank, 0, 64, at - 0.05, at)]
    for block in range(blocks) if back else ():
        for rank in range(ranks - 1, 0, -1):
            at = blocks + block + 0.1 * (ranks - rank)
            rows += [(rank, rank - 1, 1, 64, at, at), (rank - 1, rank, 0, 64, at - 0.05, at)]
    return rows


def attention(ranks: int, steps: int) -> list[Row]:
    """Keys and values go around a ring, forwards and backwards: every rank sends first."""
    there = ring(ranks, steps)
    back = [(rank, (2 * rank - peer) % ranks, *rest) for rank, peer, *rest in ring(ranks, steps)]
    return there + [(a, b, c, d, e + 0.5, f + 0.5) for a, b, c, d, e, f in back]


def token(ranks: int, times: int) -> list[Row]:
    """One token that goes around a ring."""
    rows: list[Row] = []
    for at in range(times * ranks):
        rank, following = at % ranks, (at + 1) % ranks
        rows += [(rank, following, 1, 8, at + 0.5, at + 0.5), (following, rank, 0, 8, at, at + 0.5)]
    return rows


def exchange(ranks: int, steps: int, partners) -> list[Row]:
    """Every rank exchanges with a partner a round."""
    rows: list[Row] = []
    for step in range(steps):
        for rank in range(ranks):
            for at, peer in enumerate(partners(rank)):
                rows += [(rank, peer, 1, 64, step + at / 10, step + at / 10)]
                rows += [(rank, peer, 0, 64, step + at / 10, step + at / 10 + 0.05)]
    return rows


@pytest.mark.parametrize(
    "rows",
    [
        *(attention(ranks, 6) for ranks in (3, 4)),
        *(token(ranks, 6) for ranks in (3, 4)),
        exchange(4, 6, lambda rank: [rank ^ 1, rank ^ 2]),  # a butterfly of four ranks is a ring
        exchange(3, 6, lambda rank: [(rank + 1) % 3, (rank + 2) % 3]),  # all to all of three ranks is one, too
        *(halo(ranks, 6) for ranks in (2, 3, 5)),
        blocking_halo(6),
        *(ring(ranks, 6) for ranks in (2, 3, 5)),
        *(manager(ranks, 6) for ranks in (3, 5)),
        *(sweep(ranks, 6, back=False) for ranks in (2, 4)),
        manager(2, 12),  # a question and its answer, again and again
        exchange(2, 12, lambda rank: [1 - rank, 1 - rank]),
    ],
)
@pytest.mark.parametrize("known", [Known(), Known(training=True), Known(tensors=True)])
def test_other_patterns_are_no_pipeline(rows: list[Row], known: Known) -> None:
    assert recognise_messages(table(rows), known) is None


def test_questions_and_answers_and_sweeps_there_and_back_are_no_pipeline() -> None:
    assert recognise_messages(table(manager(2, 6))) is None
    assert recognise_messages(table(sweep(4, 6, back=True))) is None
    twice = sweep(4, 6, back=True)
    later = [(*row[:4], row[4] + 20, row[5] + 20) for row in twice]
    assert recognise_messages(table(twice + later)) is None


def test_gradients_of_another_size_are_none() -> None:
    rows = of_pipeline("1F1B", 4, 6, uniform(4))
    odd = rows.bytes.copy()
    odd[(rows.rank == 1) & (rows.peer == 0) & (rows.is_send == 1)] = 8
    odd[(rows.rank == 0) & (rows.peer == 1) & (rows.is_send == 0)] = 8
    changed = MessageRows(rows.rank, rows.peer, rows.is_send, odd, rows.begin_s, rows.end_s, rows.message)
    assert recognise_messages(rows) is not None
    assert recognise_messages(changed) is None
