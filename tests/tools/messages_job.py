"""A job of pipelines written by hand over send and receive of torch.distributed, whose stages take what they are told.

    torchrun --standalone --nproc-per-node 4 tests/tools/messages_job.py --order 1f1b --slow 2:1.75

Nothing in it tells scalana of stages or microbatches. Sleeping is by deadline, as in ``pipeline_job.py``: the first
number of a message says when it was made. With ``--layers`` stages are modules with a backward of their own, those of
``pipeline_job.py``.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

WIDTH = 64
STANDARD = {"zbv": "ZBV", "dualpipev": "DualPipeV"}
"""Orders of published schedules in a V, as scalana calls them."""


class Clock:
    """A rank's time, on which nothing is late."""

    logical_s = 0.0


class Stage:
    """What one stage computes; the stages of a rank share a clock on which nothing is late."""

    def __init__(self, options: argparse.Namespace, stage: int, clock: Any) -> None:
        self.options, self.stage, self.clock = options, stage, clock
        self.factor = 1.0
        for which, factor in options.slow:
            self.factor *= factor if which == stage else 1.0

    def forward(self, x: torch.Tensor, microbatch: int) -> torch.Tensor:
        self.spend(self.options.f_ms, x, microbatch)
        return self.stamped(x)

    def backward(self, gradient: torch.Tensor, microbatch: int) -> torch.Tensor:
        self.spend(self.options.b_ms, gradient, microbatch)
        return self.stamped(gradient)

    def spend(self, cost_ms: float, came: torch.Tensor, microbatch: int) -> None:
        """Sleep for a cost, from the later of one's own logical time and that of what came."""
        cost_s = cost_ms / 1000 * self.factor
        now = time.monotonic()
        start = max(self.clock.logical_s, float(came[0]))
        start = now if now - start > self.options.slack_ms / 1000 else start
        self.clock.logical_s = start + cost_s
        rest(self.clock.logical_s - now)  # works
        for which, factor, every in self.options.straggler:
            if which == self.stage and microbatch % int(every) == 0:
                self.clock.logical_s += cost_s * (factor - 1)
                rest(self.clock.logical_s - time.monotonic())  # straggler

    def stamped(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = self.clock.logical_s
        return y


class Modules(Stage):
    """A stage of layers."""

    def __init__(self, options: argparse.Namespace, stage: int, clock: Any) -> None:
        super().__init__(options, stage, clock)
        from pipeline_job import build_stage

        self.model = build_stage(clock, stage, options.stages)
        self.kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def forward(self, x: torch.Tensor, microbatch: int) -> torch.Tensor:
        x = x.reshape(-1, 8).requires_grad_()
        y = self.model(x)
        self.kept[microbatch] = x, y
        return y.detach().reshape(-1)

    def backward(self, gradient: torch.Tensor, microbatch: int) -> torch.Tensor:
        x, y = self.kept.pop(microbatch)
        y.backward(gradient.reshape(-1, 8))
        assert x.grad is not None
        return x.grad.reshape(-1)


def rest(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)  # works


class Batches(torch.utils.data.Dataset[torch.Tensor]):
    """Inputs; loading one takes as long as it is told to."""

    def __init__(self, options: argparse.Namespace, stage: int) -> None:
        self.seconds = sum(ms for which, ms in options.data if which == stage) / 1000
        self.size = options.steps + 1

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)  # loads
        return torch.zeros(WIDTH, dtype=torch.float64)


class Pipe:
    """One rank's place in a line of ranks."""

    def __init__(self, options: argparse.Namespace, ranks: list[int], stage: int) -> None:
        self.options, self.stage = options, stage
        self.before = ranks[stage - 1] if stage > 0 else -1
        self.after = ranks[stage + 1] if stage + 1 < len(ranks) else -1
        self.ranks, self.ahead = ranks, min(len(ranks) - 1 - stage, options.nmb)
        kind: Any = Stage
        clock: Any = Clock()
        if options.layers:
            from pipeline_job import Costs  # which imports much

            kind, clock = Modules, Costs(options, stage)
        self.works = [kind(options, self.stage_of(chunk), clock) for chunk in range(options.chunks)]
        self.work = self.works[0]
        self.kept: list[Any] = []

    def stage_of(self, chunk: int) -> int:
        """Which stage the rank's chunk is: round and round, or there and back in a V."""
        turned = self.options.order in ("v", *STANDARD) and chunk % 2
        return chunk * len(self.ranks) + (len(self.ranks) - 1 - self.stage if turned else self.stage)

    def receive(self, peer: int, size: int = WIDTH, tag: int = 0) -> torch.Tensor:
        x = torch.zeros(size, dtype=torch.float64)
        if peer >= 0:
            if self.options.shapes:
                dist.recv(torch.zeros(3, dtype=torch.int64), peer)
            dist.recv(x, peer, tag=tag)
        return x

    def send(self, x: torch.Tensor, peer: int, tag: int = 0) -> None:
        if peer >= 0:
            if self.options.shapes:
                dist.send(torch.zeros(3, dtype=torch.int64), peer)
            if self.options.isend:
                self.kept.append((x, dist.isend(x, peer, tag=tag)))
            else:
                dist.send(x, peer, tag=tag)

    def exchange(self, x: torch.Tensor, peer: int) -> torch.Tensor:
        """Send to a neighbour and receive from it."""
        got = torch.zeros(WIDTH, dtype=torch.float64)
        if peer >= 0:
            ops = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, got, peer)]
            for work in dist.batch_isend_irecv(ops):
                work.wait()
        return got

    def finish(self) -> None:
        for _, work in self.kept:
            work.wait()
        self.kept.clear()

    def one_f_one_b(self) -> None:
        """A few forwards ahead, then in turns."""
        work, count = self.work, self.options.nmb
        for m in range(self.ahead):
            self.send(work.forward(self.receive(self.before), m), self.after)
        came = self.receive(self.before) if self.ahead < count else None
        for m in range(count - self.ahead):
            gradient = self.exchange(work.forward(came, self.ahead + m), self.after)
            made = work.backward(gradient, m)
            if m + 1 < count - self.ahead:
                came = self.exchange(made, self.before)
            else:
                self.send(made, self.before)
        for m in range(count - self.ahead, count):
            self.send(work.backward(self.receive(self.after), m), self.before)
        self.finish()

    def gpipe(self) -> None:
        """All forwards, then all backwards."""
        for m in range(self.options.nmb):
            self.send(self.work.forward(self.receive(self.before), m), self.after)
        for m in range(self.options.nmb):
            self.send(self.work.backward(self.receive(self.after), m), self.before)
        self.finish()

    def prefetching(self) -> None:
        """All forwards, then all backwards; all receives of a phase are asked for in advance."""
        for peer, to, step in (
            (self.before, self.after, self.work.forward),
            (self.after, self.before, self.work.backward),
        ):
            buffers = [torch.zeros(WIDTH, dtype=torch.float64) for _ in range(self.options.nmb)]
            works = [dist.irecv(x, peer) for x in buffers] if peer >= 0 else []
            for m, x in enumerate(buffers):
                if works:
                    works[m].wait()
                self.send(step(x, m), to)
            self.finish()

    def interleaved(self) -> None:
        """Several stages a rank, in rounds of as many microbatches as there are ranks: all that lies between two
        actions, or a forward and the backward after it, is one batch."""
        ranks, chunks, count = len(self.ranks), self.options.chunks, self.options.nmb
        total = chunks * count
        ahead = min((chunks - 1) * ranks + 2 * (ranks - 1 - self.stage), total)

        def action(step: int, backward: bool) -> tuple[bool, int, int]:
            chunk = step // ranks % chunks
            return backward, chunks - 1 - chunk if backward else chunk, step // (ranks * chunks) * ranks + step % ranks

        units = [[action(step, False)] for step in range(ahead)]
        units += [[action(ahead + step, False), action(step, True)] for step in range(total - ahead)]
        units += [[action(step, True)] for step in range(total - ahead, total)]
        came = self.batch([], units[0])
        for unit, following in zip(units, [*units[1:], []], strict=True):
            made = [
                (one, (self.works[one[1]].backward if one[0] else self.works[one[1]].forward)(x, one[2]))
                for one, x in zip(unit, came, strict=True)
            ]
            came = self.batch(made, following)

    def in_a_v(self) -> None:
        """Two stages a rank in a V, in rounds of as many microbatches as there are ranks: one action after the other,
        the same on all ranks."""
        ranks, count = len(self.ranks), self.options.nmb
        rounds = [range(first, first + ranks) for first in range(0, count, ranks)]
        forwards = [(False, chunk, m) for one in rounds for chunk in (0, 1) for m in one]
        backwards = [(True, chunk, m) for one in rounds for chunk in (1, 0) for m in one]
        ahead = min(3 * ranks - 2, len(forwards))
        turns = [one for pair in zip(forwards[ahead:], backwards, strict=False) for one in pair]
        self.work_off([*forwards[:ahead], *turns, *backwards[len(forwards) - ahead :]])

    def in_the_order_of(self, name: str) -> None:
        """Two stages a rank in a V, in the order of a published schedule, with whole backwards: forwards and backwards
        have tags, as a neighbour asks for them in another order than they are sent."""
        from scalana.detectors.pipeline.model.schedules import BY_NAME, W

        ranks, kept = len(self.ranks), []
        for action in BY_NAME[name].orders(ranks, self.options.nmb, 2)[self.stage]:
            if action.kind is not W:
                kept.append((action.kind.name != "F", int(action.stage >= ranks), action.microbatch))
        self.work_off(kept, tags=True)

    def work_off(self, actions: list[tuple[bool, int, int]], tags: bool = False) -> None:
        """Actions in a V: whether it is a backward, chunk and microbatch of each."""
        here: dict[tuple[bool, int, int], torch.Tensor] = {}
        for backward, chunk, m in actions:
            up = backward == bool(chunk)  # on to the next rank, or there from the one before
            source, target = (self.before, self.after) if up else (self.after, self.before)
            x, tag = here.pop((backward, chunk, m), None), int(backward and tags)
            x = self.receive(source, tag=tag) if x is None else x
            work = self.works[chunk]
            made = work.backward(x, m) if backward else work.forward(x, m)
            if target >= 0:
                self.send(made, target, tag)
            elif self.stage:  # the V turns here
                here[backward, 1 - chunk, m] = made
            elif chunk and not backward:
                here[True, 1, m] = made
        self.finish()

    def batch(self, made: list[Any], needed: list[tuple[bool, int, int]]) -> list[torch.Tensor]:
        """Send what was made, and receive what is needed."""
        stages, ops, came = self.options.chunks * len(self.ranks), [], []
        for (backward, chunk, _), x in made:
            to = chunk * len(self.ranks) + self.stage + (-1 if backward else 1)
            if 0 <= to < stages:
                ops.append(dist.P2POp(dist.isend, x, self.ranks[to % len(self.ranks)]))
        for backward, chunk, _ in needed:
            x = torch.zeros(WIDTH, dtype=torch.float64)
            came.append(x)
            source = chunk * len(self.ranks) + self.stage + (1 if backward else -1)
            if 0 <= source < stages:
                ops.append(dist.P2POp(dist.irecv, x, self.ranks[source % len(self.ranks)]))
        for work in dist.batch_isend_irecv(ops) if ops else ():
            work.wait()
        return came

    def tell_loss(self) -> None:
        """The last rank tells the first one the loss."""
        if self.stage == len(self.ranks) - 1:
            dist.send(torch.zeros(1), self.ranks[0])
        elif self.stage == 0:
            dist.recv(torch.zeros(1), self.ranks[-1])

    def evaluate(self) -> None:
        """Forwards alone."""
        for m in range(self.options.nmb):
            self.send(self.work.forward(self.receive(self.before), m + 1), self.after)
        self.finish()

    def decode(self) -> None:
        """Forwards alone; what the last rank makes goes back to the first one for the next token."""
        first, last = self.stage == 0, self.stage == len(self.ranks) - 1
        for token in range(self.options.tokens):
            for m in range(self.options.nmb):
                before = (self.ranks[-1] if token else -1) if first else self.before
                x = self.receive(before, 1 if first else WIDTH)
                made = self.work.forward(x if len(x) == WIDTH else x.repeat(WIDTH), m)
                if not last:
                    self.send(made, self.after)
                elif token + 1 < self.options.tokens:
                    self.send(made[:1].clone(), self.ranks[0])
        self.finish()


def numbers(text: str) -> tuple[float, ...]:
    """`3:1.75` as numbers."""
    return tuple(float(part) for part in text.split(":"))


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--order",
        choices=["1f1b", "gpipe", "prefetch", "interleaved", "v", *STANDARD, "forward", "decode"],
        default="1f1b",
    )
    parser.add_argument("--nmb", type=int, default=8, help="microbatches")
    parser.add_argument("--steps", type=int, default=5, help="steps after the first")
    parser.add_argument("--f-ms", type=float, default=20.0, help="forward of a usual stage")
    parser.add_argument("--b-ms", type=float, default=40.0, help="its backward")
    parser.add_argument("--slow", type=numbers, action="append", default=[], help="stage:factor")
    parser.add_argument("--straggler", type=numbers, action="append", default=[], help="stage:factor:every")
    parser.add_argument("--data", type=numbers, action="append", default=[], help="stage:ms for loading a batch")
    parser.add_argument("--isend", action="store_true", help="send without waiting until the end of a step")
    parser.add_argument("--shapes", action="store_true", help="send the shape before a tensor")
    parser.add_argument("--evaluate", action="store_true", help="evaluate after every second step")
    parser.add_argument("--chunks", type=int, default=1, help="stages a rank")
    parser.add_argument("--tokens", type=int, default=8, help="of each microbatch, for --order decode")
    parser.add_argument("--loss", action="store_true", help="the last rank tells the first one the loss of a step")
    parser.add_argument("--layers", type=lambda text: [int(n) for n in text.split(",")], help="4,4,4,4: of the stages")
    parser.add_argument("--head", type=float, default=0.0, help="cost of the last stage's head, in layers")
    parser.add_argument("--replicas", type=int, default=1, help="so many pipelines; gradients are reduced over them")
    parser.add_argument("--reduce-ms", type=float, default=0.0, help="work of each rank before it reduces")
    parser.add_argument("--slack-ms", type=float, default=15.0, help="lateness that is not kept")
    options = parser.parse_args()
    # As pipeline_job has them.
    options.i_ms = options.w_ms = options.b_ms / 2
    options.per_stage, options.lengths, options.slow_replica, options.replica = 4, [1.0], [], 0
    return options


def main() -> None:
    """Run the job on this rank."""
    options = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size() // options.replicas
    replica, stage = divmod(rank, ranks)
    groups = [dist.new_group(list(range(s, dist.get_world_size(), ranks))) for s in range(ranks)]
    options.stages = ranks * options.chunks
    pipe = Pipe(options, [replica * ranks + s for s in range(ranks)], stage)
    weight = torch.nn.Parameter(torch.zeros(1 << 16))
    weight.grad = torch.zeros(1 << 16)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    train = {
        "1f1b": pipe.one_f_one_b,
        "gpipe": pipe.gpipe,
        "prefetch": pipe.prefetching,
        "interleaved": pipe.interleaved,
        "v": pipe.in_a_v,
        **{order: partial(pipe.in_the_order_of, name) for order, name in STANDARD.items()},
        "forward": pipe.evaluate,
        "decode": pipe.decode,
    }
    for step, _ in enumerate(torch.utils.data.DataLoader(Batches(options, stage), batch_size=None)):
        train[options.order]()
        if options.replicas > 1:
            dist.all_reduce(weight.grad, group=groups[stage])
        if options.loss:
            pipe.tell_loss()
        if options.order not in ("forward", "decode"):
            optimizer.step()
        if options.evaluate and step % 2:
            pipe.evaluate()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
