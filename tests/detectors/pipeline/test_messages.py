"""Hand-written pipelines are recognised by their messages, and what only looks like one is not."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.pipeline.actions import Kind, spread_costs
from scalana.detectors.pipeline.attribution import attribute
from scalana.detectors.pipeline.lowering import ENGINES, Code, lower
from scalana.detectors.pipeline.measured import read_rows
from scalana.detectors.pipeline.messages import MessageRows, recognise_messages
from scalana.detectors.pipeline.schedules import BY_NAME, recognise
from scalana.detectors.pipeline.simulate import Setting, replay
from tests.detectors.pipeline.examples import uniform

Row = tuple[int, int, int, int, float, float]


def table(rows: list[Row]) -> MessageRows:
    """Rows (rank, peer, is_send, bytes, begin, end) as columns."""
    columns = [np.array(column) for column in zip(*rows)]
    return MessageRows(*columns[:4], *(column.astype(float) for column in columns[4:]))


def of_pipeline(
    name: str, ranks: int, microbatches: int, costs: np.ndarray, steps: int = 2, holder=None
) -> MessageRows:
    """What a recorder sees of a pipeline whose code has no names for anything."""
    holder = list(range(ranks)) if holder is None else holder
    program = BY_NAME[name].program(ranks, microbatches)
    operations = lower(program)
    setting = Setting.plain(operations, spread_costs(program, costs))
    rows: list[Row] = []
    for _ in range(steps):
        timeline = replay(operations, setting)
        for i, code in enumerate(operations.code):
            if code not in (Code.SEND, Code.RECEIVE):
                continue
            sides = [operations.sender, operations.receiver]
            own, other = sides if code == Code.SEND else sides[::-1]
            source, target = (holder[program.rank[side[operations.argument[i]]]] for side in (own, other))
            times = float(timeline.begin_s[i]), float(timeline.end_s[i])
            rows.append((source, target, int(code == Code.SEND), 4096, *times))
        setting.ready_s[:] = timeline.makespan_s
    return table(rows)


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
    found = recognise_messages(rows, training=True)
    assert found is not None and recognise(read_rows(found.read().rows, ENGINES["ideal"]).first_step()) == "GPipe"
    two = of_pipeline("1F1B", 2, 4, uniform(2))
    assert recognise_messages(two) is None
    assert recognise_messages(two, training=True) is not None


def test_one_step_does_not_repeat() -> None:
    assert recognise_messages(of_pipeline("1F1B", 4, 8, uniform(4), steps=1), training=True) is None


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


@pytest.mark.parametrize(
    "rows",
    [
        *(halo(ranks, 6) for ranks in (2, 3, 5)),
        blocking_halo(6),
        *(ring(ranks, 6) for ranks in (2, 3, 5)),
        *(manager(ranks, 6) for ranks in (3, 5)),
        *(sweep(ranks, 6, back=False) for ranks in (2, 4)),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_other_patterns_are_no_pipeline(rows: list[Row], training: bool) -> None:
    assert recognise_messages(table(rows), training) is None


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
    changed = MessageRows(rows.rank, rows.peer, rows.is_send, odd, rows.begin_s, rows.end_s)
    assert recognise_messages(rows) is not None
    assert recognise_messages(changed) is None
