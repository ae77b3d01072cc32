"""A model of a parallel job with planted causes: what every rank does when, before it is written as a record.

The ranks form a grid of rows and columns. A step has ``layers`` layers and ends with an allreduce of all ranks; a
layer is work, an allreduce in the row, work, an allreduce in the column, work, and a message around the ring of a row.
Three causes are planted, each the same number of seconds in every step on one rank:

* ``two_hops``: a rank is late for the allreduce of its row in the first layer. Its row waits for it, and all others
  wait, in their columns, for somebody who waited in that row;
* ``slow_rank``: another rank is late for the allreduce of its column in the second layer;
* ``moving``: before the allreduce of all ranks, another rank in every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scalana.runtime.operations import BY_NAME

IntArray = npt.NDArray[np.int64]
MS = 1_000_000
TRANSFER_NS = 50_000
SEND_NS = 20_000
LOOPS = 4
"""Loops, each with one line that is sampled, in every function of the program that works."""


@dataclass(frozen=True)
class Model:
    """Size of a job. Times of work are ns."""

    ranks: int
    steps: int
    layers: int = 4
    functions: int = 455
    """Functions that work; a graph has about twelve vertices for each of them."""
    work_ns: int = 5 * MS
    """Between two calls."""
    noise: float = 0.01
    """Standard deviation of the work, as a part of it."""
    two_hops_ns: int = 5 * MS
    slow_rank_ns: int = 4 * MS
    moving_ns: int = 6 * MS
    rate_hz: int = 200
    ranks_per_host: int = 64
    seed: int = 1

    @property
    def columns(self) -> int:
        """Ranks in a row of the grid: the divisor of ``ranks`` nearest to its root from above."""
        wanted = int(np.ceil(np.sqrt(self.ranks)))
        return next(width for width in range(wanted, self.ranks + 1) if self.ranks % width == 0)

    @property
    def two_hops_rank(self) -> int:
        return self.ranks // 3

    @property
    def slow_rank(self) -> int:
        return self.ranks // 2 + 1

    def moving_rank(self, step: int) -> int:
        return (step * 7 + 3) % self.ranks

    @property
    def segments(self) -> int:
        """Stretches of work in a step."""
        return 3 * self.layers + 1


@dataclass
class Slot:
    """One call of a step."""

    operation: int
    group: int
    """1 all ranks, 2 the row, 3 the column."""
    segment: int
    """Work before it, -1 for none."""
    line: int = 0
    """Of the call, in the program."""
    function: str = ""


@dataclass
class Program:
    """Source of the program that the model stands for."""

    text: str
    slots: list[Slot]
    kernels: list[list[tuple[str, int, list[int], int]]]
    """Per segment the functions that work in it: name, first line, lines sampled, and line of the call."""
    callers: list[tuple[str, int]]
    """Per segment the function that calls them, and its first line."""
    calls: dict[str, int] = field(default_factory=dict)
    """Line in ``main`` in which each caller is called."""
    main_line: int = 0
    start_line: int = 0
    """Line of the module that calls ``main``."""


def program_of(model: Model) -> Program:
    """Write the source of the model's program: a module, ``main``, a function per layer, and those that work."""
    lines: list[str] = ["import torch.distributed as dist", "", "", ""]
    kernels: list[list[tuple[str, int, list[int], int]]] = [[] for _ in range(model.segments)]
    for number in range(model.functions):
        name, first, sampled = f"kernel_{number}", len(lines) + 1, []
        lines.append(f"def {name}(x):")
        for loop in range(LOOPS):
            lines.append(f"    for i in range({64 + loop}):")
            lines.append(f"        x = x * {loop + 2} + i")
            sampled.append(len(lines))
        lines += ["    return x", "", ""]
        kernels[number % model.segments].append((name, first, sampled, 0))
    slots: list[Slot] = []
    callers: list[tuple[str, int]] = []
    names: list[str] = []

    def work(segment: int) -> None:
        for place, (name, first, sampled, _) in enumerate(kernels[segment]):
            lines.append(f"    {name}(x)")
            kernels[segment][place] = name, first, sampled, len(lines)

    def call(text: str, operation: str, group: int, segment: int, function: str) -> None:
        lines.append(f"    {text}")
        slots.append(Slot(BY_NAME[operation].code, group, segment, len(lines), function))

    for layer in range(model.layers):
        name, first = f"layer_{layer}", len(lines) + 1
        names.append(name)
        lines.append(f"def {name}(x, row, column, left, right):")
        for part, (text, operation, group) in enumerate(
            (
                ("dist.all_reduce(x, group=row)", "allreduce", 2),
                ("dist.all_reduce(x, group=column)", "allreduce", 3),
                ("dist.send(x, right)", "send", 1),
            )
        ):
            work(3 * layer + part)
            callers.append((name, first))
            call(text, operation, group, 3 * layer + part, name)
        call("dist.recv(x, left)", "recv", 1, -1, name)
        lines += ["    return x", "", ""]
    first = len(lines) + 1
    names.append("finish")
    lines.append("def finish(x):")
    callers.append(("finish", first))
    work(3 * model.layers)
    call("dist.all_reduce(x)", "allreduce", 1, 3 * model.layers, "finish")
    lines += ["    return x", "", ""]
    program = Program("", slots, kernels, callers, main_line=len(lines) + 1)
    lines += ["def main(x, row, column, left, right):", f"    for step in range({model.steps}):"]
    for name in names:
        arguments = "x" if name == "finish" else "x, row, column, left, right"
        lines.append(f"        x = {name}({arguments})")
        program.calls[name] = len(lines)
    lines += ["", "", "main(1, None, None, 0, 0)"]
    program.start_line = len(lines)
    program.text = "\n".join(lines) + "\n"
    return program


@dataclass
class Times:
    """When every rank was in which call; all ``[calls, ranks]``, in ns since the start."""

    enter: IntArray
    exit: IntArray
    extra: npt.NDArray[np.int32]
    """Of the work before a call, what was planted; it comes last."""


def simulate(model: Model, slots: list[Slot], progress: Callable[[int], None] | None = None) -> Times:
    """Let the ranks run, with everything that they wait for."""
    random = np.random.default_rng(model.seed)
    ranks, width = model.ranks, model.columns
    shape = (len(slots) * model.steps, ranks)
    enter, leave, extra = np.empty(shape, np.int64), np.empty(shape, np.int64), np.zeros(shape, np.int32)
    now = np.zeros(ranks, np.int64)
    row = 0
    send, recv = BY_NAME["send"].code, BY_NAME["recv"].code
    last = 3 * model.layers
    for step in range(model.steps):
        sent = now
        for slot in slots:
            if slot.segment >= 0:
                work = model.work_ns * (1.0 + model.noise * random.standard_normal(ranks, np.float32))
                now = now + np.rint(work).astype(np.int64)
                planted = {
                    0: (model.two_hops_rank, model.two_hops_ns),
                    4 if model.layers > 1 else 1: (model.slow_rank, model.slow_rank_ns),
                    last: (model.moving_rank(step), model.moving_ns),
                }.get(slot.segment)
                if planted is not None:
                    extra[row, planted[0]] = planted[1]
                    now[planted[0]] += planted[1]
            enter[row] = now
            if slot.operation == send:
                now = now + SEND_NS
                sent = enter[row]
            elif slot.operation == recv:
                # From the left neighbour in the row.
                posted = np.roll(sent.reshape(-1, width), 1, axis=1).reshape(-1)
                now = np.maximum(now, posted) + TRANSFER_NS
            else:
                grid = now.reshape(-1, width)
                latest = {1: grid.max(), 2: grid.max(axis=1, keepdims=True), 3: grid.max(axis=0, keepdims=True)}
                now = (np.zeros_like(grid) + latest[slot.group] + TRANSFER_NS).reshape(-1)
            leave[row] = now
            row += 1
        if progress is not None:
            progress(step)
    return Times(enter, leave, extra)
