"""The standard schedules as orders of actions, one function each, and their table.

All are written as the formulas of the papers and of `torch.distributed.pipelining` give them; the tests compare each
with torch's own order. ``ranks`` hold ``chunks`` stages each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scalana.detectors.pipeline.model.actions import Action, Kind, OrderError, Program

Order = list[Action]
F, B, I, W = Kind.F, Kind.B, Kind.I, Kind.W  # noqa: E741


def gpipe(ranks: int, microbatches: int, chunks: int = 1) -> list[Order]:
    """All forwards, then all backwards (Huang et al., NeurIPS 2019)."""
    del chunks
    every = range(microbatches)
    return [[Action(F, rank, m) for m in every] + [Action(B, rank, m) for m in every] for rank in range(ranks)]


def one_f_one_b(ranks: int, microbatches: int, chunks: int = 1) -> list[Order]:
    """1F1B: a backward as soon as there is one, then a forward (PipeDream-Flush, Narayanan et al. 2021)."""
    del chunks
    orders = []
    for rank in range(ranks):
        ahead = min(ranks - 1 - rank, microbatches)
        order = [Action(F, rank, m) for m in range(ahead)]
        for m in range(microbatches - ahead):
            order += [Action(F, rank, ahead + m), Action(B, rank, m)]
        orders.append(order + [Action(B, rank, m) for m in range(microbatches - ahead, microbatches)])
    return orders


def looped_bfs(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """All microbatches of a chunk, then the next chunk (Lamy-Poirier, MLSys 2023)."""
    orders = []
    for rank in range(ranks):
        stages = range(rank, ranks * chunks, ranks)
        order = [Action(F, stage, m) for stage in stages for m in range(microbatches)]
        orders.append(order + [Action(B, s, m) for s in reversed(stages) for m in reversed(range(microbatches))])
    return orders


def _round_size(ranks: int, microbatches: int) -> int:
    rounds = max(1, microbatches // ranks)
    if microbatches % rounds:
        raise OrderError(
            f"{microbatches} microbatches cannot be cut into {rounds} equal rounds; take a multiple of {ranks}"
        )
    return microbatches // rounds


def _interleaved(rank: int, ranks: int, microbatches: int, chunks: int, split: bool) -> Order:
    """The order of one rank: forwards ahead, then in turns, then the rest of the backwards; W ``rank`` backwards
    later."""
    size = _round_size(ranks, microbatches)
    total = chunks * microbatches
    ahead = min((chunks - 1) * size + (1 if split else 2) * (ranks - 1 - rank), total)

    def microbatch(step: int) -> int:
        """The step's microbatch: rounds of ``size``, each going through all chunks."""
        return step // (size * chunks) * size + step % size

    def forward(step: int) -> Action:
        return Action(F, step // size % chunks * ranks + rank, microbatch(step))

    def backward(step: int, kind: Kind) -> Action:
        return Action(kind, (chunks - 1 - step // size % chunks) * ranks + rank, microbatch(step))

    order = [forward(step) for step in range(ahead)]
    weights = 0
    for step in range(total):
        if step < total - ahead:
            order.append(forward(ahead + step))
        order.append(backward(step, I if split else B))
        if split and step >= rank:
            order.append(backward(weights, W))
            weights += 1
    return order + [backward(step, W) for step in range(weights, total) if split]


def interleaved(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """Interleaved 1F1B: every rank holds several chunks in a ring (Narayanan et al., SC 2021)."""
    return [_interleaved(rank, ranks, microbatches, chunks, split=False) for rank in range(ranks)]


def interleaved_zero_bubble(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """Interleaved 1F1B with W put off to where a rank would be idle (Qi et al., ICLR 2024: ZB1P)."""
    return [_interleaved(rank, ranks, microbatches, chunks, split=True) for rank in range(ranks)]


def zb_h1(ranks: int, microbatches: int, chunks: int = 1) -> list[Order]:
    """ZB-H1: zero bubble at the memory of 1F1B (Qi et al., ICLR 2024)."""
    del chunks
    return [_zb_h1(rank, ranks, microbatches) for rank in range(ranks)]


def _zb_h1(rank: int, ranks: int, microbatches: int) -> Order:
    """As 1F1B, with I for B; the W of a rank begin as many backwards later as there are ranks before it."""
    ahead = min(ranks - 1 - rank, microbatches)
    order = [Action(F, rank, m) for m in range(ahead)]
    weights = 0
    for m in range(microbatches):
        if ahead + m < microbatches:
            order.append(Action(F, rank, ahead + m))
        order.append(Action(I, rank, m))
        if m >= rank:
            order.append(Action(W, rank, weights))
            weights += 1
    return order + [Action(W, rank, m) for m in range(weights, microbatches)]


def zb_v(ranks: int, microbatches: int, chunks: int = 2) -> list[Order]:
    """ZB-V: two chunks in a V, the first and the last stage on one rank (Qi et al., ICLR 2024, section 6)."""
    del chunks
    return [_zb_v(rank, ranks, microbatches) for rank in range(ranks)]


def _zb_v(rank: int, ranks: int, microbatches: int) -> Order:
    count = max(2 * ranks - 1, microbatches)
    order: Order = []
    done = {(kind, chunk): 0 for kind in (F, I, W) for chunk in (0, 1)}

    def run(kind: Kind, chunk: int) -> None:
        m = done[kind, chunk]
        done[kind, chunk] = m + 1
        if m < microbatches:
            order.append(Action(kind, rank if chunk == 0 else 2 * ranks - 1 - rank, m))

    def sequence(*steps: tuple[Kind, int]) -> None:
        for kind, chunk in steps:
            run(kind, chunk)

    for _ in range(2 * (ranks - rank) - 1):
        run(F, 0)
    for _ in range(rank):
        sequence((F, 1), (F, 0))
    for _ in range(ranks - rank):
        sequence((F, 1), (I, 1), (W, 1))
    while done[F, 1] < done[F, 0] or done[F, 0] < count:
        if done[F, 0] < count:
            run(F, 0)
        sequence((I, 0), (W, 0), (F, 1), (I, 1), (W, 1))
    for _ in range(rank):
        sequence((I, 0), (I, 1))
    for _ in range(ranks - rank):
        sequence((I, 0), (W, 0))
    for chunk in (1, 0):
        while done[W, chunk] < done[I, chunk]:
            run(W, chunk)
    return order


def dualpipe_v(ranks: int, microbatches: int, chunks: int = 2) -> list[Order]:
    """DualPipeV: two chunks in a V, a forward and a backward overlapped (DeepSeek-AI 2024, "cut in half")."""
    del chunks
    if microbatches < 2 * ranks:
        raise OrderError(f"DualPipeV needs as many microbatches as stages: at least {2 * ranks}, not {microbatches}")
    return [_dualpipe_v(rank, ranks, microbatches) for rank in range(ranks)]


def _dualpipe_v(rank: int, ranks: int, microbatches: int) -> Order:
    stages = (rank, 2 * ranks - 1 - rank)
    order: Order = []
    forwards, backwards = [0, 0], [0, 0]
    weights: list[tuple[int, int]] = []

    def forward(chunk: int, joined: bool = False) -> None:
        order.append(Action(F, stages[chunk], forwards[chunk], joined))
        forwards[chunk] += 1

    def backward(chunk: int, kind: Kind = B) -> None:
        order.append(Action(kind, stages[chunk], backwards[chunk]))
        if kind is I:
            weights.append((stages[chunk], backwards[chunk]))
        backwards[chunk] += 1

    def weight() -> None:
        if weights:
            order.append(Action(W, *weights.pop(0)))

    behind = ranks - rank - 1
    for _ in range(2 * behind):
        forward(0)
    for _ in range(rank + 1):
        forward(0)
        forward(1)
    for _ in range(behind):
        backward(1, I)
        weight()
        forward(1)
    for turn in range(microbatches - 2 * ranks + rank + 1):
        forward(0, joined=turn > 0 or rank < ranks - 1)
        backward(1)
        forward(1, joined=True)
        backward(0)
    for _ in range(behind):
        backward(1)
        forward(1, joined=True)
        backward(0)
    split = False
    for turn in range(rank + 1):
        middle = turn == (rank + 1) // 2
        split = split or (middle and rank % 2 == 1)
        backward(1, I if split else B)
        split = split or (middle and rank % 2 == 0)
        backward(0, I if split else B)
    for _ in range(behind):
        weight()
        backward(0, I if split else B)
    for _ in range(rank + 1):
        weight()
    return order


@dataclass(frozen=True, slots=True)
class Schedule:
    """A standard schedule."""

    name: str
    """As people write it."""
    torch_class: str
    """Its class in `torch.distributed.pipelining.schedules`, "" if it has none."""
    chunks: int
    """Stages that a rank holds; 0 if it can be any number from 2."""
    placement: str
    """`loop`: stage s on rank s modulo ranks; `v`: there and back."""
    splits: bool
    """Whether the backward is split into I and W."""
    orders: Callable[[int, int, int], list[Order]]
    """The order of every rank from the number of ranks, microbatches and chunks."""

    def program(self, ranks: int, microbatches: int, chunks: int = 0) -> Program:
        """The program of this schedule.

        Raises:
            OrderError: where the schedule cannot be run with these numbers.
        """
        return Program.of(self.orders(ranks, microbatches, self.chunks or chunks or 2))


SCHEDULES: tuple[Schedule, ...] = (
    Schedule("GPipe", "ScheduleGPipe", 1, "loop", False, gpipe),
    Schedule("1F1B", "Schedule1F1B", 1, "loop", False, one_f_one_b),
    Schedule("Interleaved1F1B", "ScheduleInterleaved1F1B", 0, "loop", False, interleaved),
    Schedule("LoopedBFS", "ScheduleLoopedBFS", 0, "loop", False, looped_bfs),
    Schedule("InterleavedZeroBubble", "ScheduleInterleavedZeroBubble", 0, "loop", True, interleaved_zero_bubble),
    Schedule("ZB-H1", "", 1, "loop", True, zb_h1),
    Schedule("ZBV", "ScheduleZBVZeroBubble", 2, "v", True, zb_v),
    Schedule("DualPipeV", "ScheduleDualPipeV", 2, "v", True, dualpipe_v),
)
"""All that are known."""

BY_NAME: dict[str, Schedule] = {schedule.name: schedule for schedule in SCHEDULES}


def stage_placement(placement: str, ranks: int, chunks: int) -> list[int]:
    """The rank of every stage for `loop` or `v`."""
    if placement == "v":
        return [s % ranks if s // ranks % 2 == 0 else ranks - 1 - s % ranks for s in range(ranks * chunks)]
    return [stage % ranks for stage in range(ranks * chunks)]


def recognise(program: Program) -> str:
    """The name of the standard schedule that a program is, on whatever ranks; "" if it is none of them."""
    chunks = program.stages // program.ranks
    if not program.ranks or program.stages != chunks * program.ranks:
        return ""
    given = _by_first_stage(program.orders())
    for schedule in SCHEDULES:
        if schedule.chunks not in (0, chunks) or (schedule.chunks == 0 and chunks < 2):
            continue
        try:
            expected = schedule.orders(program.ranks, program.microbatches, chunks)
        except OrderError:
            continue
        if _by_first_stage(expected) == given:
            return schedule.name
    return ""


def _by_first_stage(orders: list[Order]) -> list[list[tuple[Kind, int, int]]]:
    """Orders without what is joined, the rank with the first stage first."""
    plain = [[(action.kind, action.stage, action.microbatch) for action in order] for order in orders]
    return sorted(plain, key=lambda order: min((stage for _, stage, _ in order), default=-1))
