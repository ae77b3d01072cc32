"""The standard schedules are torch's own, and the papers' bubbles and memory come out exactly."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from scalana.detectors.pipeline.model.actions import Kind, OrderError, Program, peak_activations, spread_costs
from scalana.detectors.pipeline.model.engines import ENGINES
from scalana.detectors.pipeline.model.lowering import Code, lower
from scalana.detectors.pipeline.model.schedules import BY_NAME, SCHEDULES, recognise, stage_placement
from scalana.detectors.pipeline.model.simulate import simulate
from scalana.detectors.pipeline.model.torch_csv import parse_torch_csv, write_torch_csv
from tests.detectors.pipeline.examples import uniform
from tests.long import also_rows

SIZES = [(2, 4), (4, 8), (4, 12), *also_rows((2, 8), (4, 16), (8, 16), (8, 32))]


def torch_schedule(name: str, ranks: int, microbatches: int, chunks: int):
    """A schedule of torch with stages that compute nothing."""
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    count = ranks * chunks
    stages = [
        SimpleNamespace(
            submod=None, num_stages=count, group_size=ranks, group_rank=0, group=None, stage_index=s, is_first=s == 0,
            is_last=s == count - 1, has_backward=True, stage_index_to_group_rank=None, device="cpu",
        )
        for s in range(chunks)
    ]  # fmt: skip
    kind = getattr(schedules, BY_NAME[name].torch_class)
    single = name in ("GPipe", "1F1B")
    return kind(stages[0] if single else stages, microbatches, loss_fn=lambda y, t: y)


def torch_csv(schedule) -> str:
    """Its order as torch writes it."""
    order = schedule._get_pipeline_order() if hasattr(schedule, "_get_pipeline_order") else schedule.pipeline_order
    rows = []
    for rank in sorted(order):
        actions = order[rank]
        if type(schedule).__name__ == "Schedule1F1B" and rank == max(order):
            # What torch says of its last rank (not what it does) counts the forwards from 1.
            actions = [
                a and (a._replace(microbatch_index=a.microbatch_index - 1) if str(a)[1] == "F" else a) for a in actions
            ]
        cells = ["" if action is None else str(action) for action in actions]
        rows.append(",".join(cells))
    return "\n".join(rows) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("ranks, microbatches", SIZES)
@pytest.mark.parametrize("name", [schedule.name for schedule in SCHEDULES if schedule.torch_class])
def test_orders_are_those_of_torch(name: str, ranks: int, microbatches: int) -> None:
    schedule = BY_NAME[name]
    for chunks in [schedule.chunks] if schedule.chunks else [2, 3]:
        expected = parse_torch_csv(torch_csv(torch_schedule(name, ranks, microbatches, chunks)))
        assert schedule.program(ranks, microbatches, chunks).orders() == expected.orders()


@pytest.mark.slow
@pytest.mark.parametrize("name", [s.name for s in SCHEDULES if s.torch_class and s.name not in ("GPipe", "1F1B")])
def test_receives_are_posted_where_torch_posts_them(name: str) -> None:
    schedule = torch_schedule(name, 4, 8, 2)
    program = BY_NAME[name].program(4, 8, 2)
    operations = lower(program, ENGINES["torch"])
    names = {Code.SEND: ("SEND_F", "SEND_B"), Code.POST: ("RECV_F", "RECV_B")}
    for rank in range(4):
        expected = [
            text
            for item in schedule.pipeline_order_with_comms[rank]
            for text in str(item).replace("(", "").replace(")OVERLAP_F_B", "").split(";")
            if not any(other in text for other in ("SHARD", "REDUCE"))
        ]
        given = []
        for at in range(operations.first[rank], operations.first[rank + 1]):
            code, argument = Code(operations.code[at]), operations.argument[at]
            if code is Code.RUN:
                given.append(str(program.action(argument)))
            elif code in names:
                side = operations.sender if code is Code.SEND else operations.receiver
                action = program.action(side[argument])
                word = names[code][0 if action.kind is Kind.F else 1]
                given.append(f"{action.stage}{word}{action.microbatch}")
        assert given == expected


@pytest.mark.parametrize("ranks, microbatches", [(4, 8), (8, 32), (16, 64)])
def test_published_bubbles_come_out_exactly(ranks: int, microbatches: int) -> None:
    P, M = ranks, microbatches
    for name, chunks, makespan in (
        ("GPipe", 1, 3 * (M + P - 1)),  # Huang et al. 2019
        ("1F1B", 1, 3 * (M + P - 1)),  # Narayanan et al. 2021
        ("Interleaved1F1B", 2, 3 * (M + (P - 1) / 2)),
        ("Interleaved1F1B", 4, 3 * (M + (P - 1) / 4)),
        ("LoopedBFS", 2, 3 * (M + (P - 1) / 2)),
        ("ZB-H1", 1, 3 * M + (P - 1)),  # Qi et al. 2024: (p-1)(F + B - W)
        ("InterleavedZeroBubble", 2, 3 * M + (P - 1) / 2),
        ("ZBV", 2, 3 * M + (P - 1) / 2),  # all but the fill before the last rank's first forward
        ("DualPipeV", 2, 3 * M + (P - 1)),
    ):
        program = BY_NAME[name].program(P, M, chunks)
        timeline = simulate(program, spread_costs(program, uniform(program.stages) / chunks))
        assert timeline.makespan_s == pytest.approx(makespan, rel=1e-12), name
        assert timeline.bubble_share() == pytest.approx(1 - 3 * M / makespan, abs=1e-12)


def test_published_memory_comes_out_exactly() -> None:
    for P, M in ((4, 8), (8, 32)):
        for name, chunks, peak in (
            ("GPipe", 1, M),
            ("1F1B", 1, P),
            ("ZB-H1", 1, P),
            ("ZBV", 2, P),
            ("LoopedBFS", 2, M),
        ):
            program = BY_NAME[name].program(P, M, chunks)
            assert peak_activations(program).max() / chunks == peak, name
    # Interleaved 1F1B: p (1 + (p-1)/(p v)), and one more of a chunk while it computes (Narayanan et al. 2021)
    assert peak_activations(BY_NAME["Interleaved1F1B"].program(8, 32, 2)).max() == 2 * 7 + 8 + 1
    # The first rank of 1F1B holds most, the last one microbatch.
    assert peak_activations(BY_NAME["1F1B"].program(4, 8)).tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_orders_survive_the_csv_and_are_recognised(schedule) -> None:
    program = schedule.program(4, 8, 2)
    again = parse_torch_csv(write_torch_csv(program))
    assert again.orders() == program.orders()
    assert recognise(again) == schedule.name
    assert recognise(Program.of(program.orders()[::-1])) == schedule.name
    placement = stage_placement(schedule.placement, 4, program.stages // 4)
    assert program.rank_of_stage.tolist() == placement


@pytest.mark.slow
def test_torch_reads_what_is_written() -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    text = write_torch_csv(BY_NAME["DualPipeV"].program(2, 4))
    cells = [cell for row in text.splitlines() for cell in row.split(",")]
    assert [str(schedules._Action.from_str(cell)) for cell in cells] == cells


def test_a_lowered_order_is_read_without_its_communication() -> None:
    text = "0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0,0REDUCE_GRAD\n,1RECV_F0,1F0,1B0,1SEND_B0\n"
    assert write_torch_csv(parse_torch_csv(text)) == "0F0,0B0\n1F0,1B0\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("0F0,0X0\n", "'0X0' is not an action"),
        ("0F0,0F0\n", "0F0 occurs twice"),
        ("0F0,0B0\n1F0,1B0,0F1,0B1\n", "stage 0 stands on ranks"),
        ("0F0,0B0\n1F0\n", "1B0 is missing"),
        ("0F0,0B1\n", "0F1 is missing"),
        ("0F0,0W0\n", "0W0 has no 0I0"),
        ("0F0,0W0,0I0\n", "would run 0W0 before 0I0"),
        ("1F0,0F0,1B0,0B0\n", "would run 1F0 before 0F0"),
        ("\n", "no actions"),
    ],
)
def test_orders_that_nobody_can_run_are_refused(text: str, message: str) -> None:
    with pytest.raises(OrderError, match=f"plan.csv.*{message}"):
        parse_torch_csv(text, "plan.csv")


def test_numbers_that_a_schedule_cannot_have_are_refused() -> None:
    with pytest.raises(OrderError, match="at least 8"):
        BY_NAME["DualPipeV"].program(4, 7)
    with pytest.raises(OrderError, match="multiple of 4"):
        BY_NAME["Interleaved1F1B"].program(4, 9)


def test_what_is_no_standard_schedule_has_no_name() -> None:
    assert recognise(Program.of(BY_NAME["GPipe"].orders(1, 2, 1))) == "GPipe"
    changed = BY_NAME["GPipe"].orders(2, 4, 1)
    changed[0][:2] = changed[0][1::-1]
    assert recognise(Program.of(changed)) == ""
    assert np.array_equal(Program.of(changed).first, [0, 8, 16])
