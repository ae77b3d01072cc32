"""A job of torch.distributed.pipelining on gloo whose stages take the time they are told to.

    torchrun --standalone --nproc-per-node 4 tests/tools/pipeline_job.py --schedule 1F1B --nmb 8 --slow 3:1.75

Every layer sleeps for its forward, its input gradient and its weight gradient, which are branches of their own in the
graph of autograd: torch's own split of the backward calls them separately. Sleeping is by deadline: the first number
of an activation or a gradient carries when it was made, by a clock on which nothing is late; an operation sleeps until
the later of its own and its producer's time plus its cost. So that few cores are enough, and what is left of
scheduling noise is not added up; only lateness above ``--slack-ms`` is kept.

With ``--truth FILE`` the job writes down what happened when, measured by itself around torch's own calls.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn.parallel import DistributedDataParallel

WIDTH = 8
TIME, MICROBATCH = 0, 1
"""Columns of an activation."""
GARBAGE_S = 60.0
"""Times that far away come from tensors that hold anything (torch's inference of shapes)."""
CHUNKS = {"GPipe": 1, "1F1B": 1, "ZBVZeroBubble": 2, "DualPipeV": 2}
"""Stages a rank, where the schedule fixes it."""
V_SHAPED = ("ZBVZeroBubble", "DualPipeV")


class Costs:
    """Seconds that things take on this rank."""

    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.options, self.rank = options, rank
        self.slack_s = options.slack_ms / 1000
        self.logical_s = 0.0

    def factor(self, stage: int, microbatch: int) -> float:
        """What the cost of a stage at a microbatch is multiplied by."""
        options = self.options
        factor = 1.0
        for which, times in options.slow:
            factor *= times if which == stage else 1.0
        for which, times in options.slow_replica:
            factor *= times if which == options.replica else 1.0
        for rank, times, every in options.straggler:
            factor *= times if rank == self.rank and microbatch % int(every) == 0 else 1.0
        return factor * options.lengths[microbatch % len(options.lengths)]

    def spend(self, cost_s: float, made_s: float) -> float:
        """Sleep for a cost, from the later of the rank's own logical time and ``made_s``; the logical end."""
        now = time.monotonic()
        start = max(self.logical_s, made_s if abs(made_s - now) < GARBAGE_S else 0.0)
        if now - start > self.slack_s:
            start = now
        self.logical_s = start + cost_s
        sleep_until(self.logical_s)
        return self.logical_s


def sleep_until(moment_s: float) -> None:
    """Sleep until a moment of the monotonic clock."""
    left = moment_s - time.monotonic()
    if left > 0:
        time.sleep(left)


class SleepX(torch.autograd.Function):
    """The branch of the input: sleeps in forward for F and in backward for I."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, costs: Costs, stage: int, f_s: float, i_s: float) -> torch.Tensor:
        microbatch = float(x[0, MICROBATCH])
        microbatch = int(microbatch) if 0 <= microbatch < 1e6 else 1
        factor = costs.factor(stage, microbatch)
        ctx.costs, ctx.i_s = costs, i_s * factor
        y = x.clone()
        y[:, TIME] = costs.spend(f_s * factor, float(x[0, TIME]))
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        grad = grad.clone()
        grad[:, TIME] = ctx.costs.spend(ctx.i_s, float(grad[0, TIME]))
        return grad, None, None, None, None


class SleepW(torch.autograd.Function):
    """The branch of the parameter: sleeps in backward for W."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, x: torch.Tensor, costs: Costs, stage: int, w_s: float) -> torch.Tensor:
        microbatch = float(x[0, MICROBATCH])
        factor = costs.factor(stage, int(microbatch) if 0 <= microbatch < 1e6 else 1)
        ctx.costs, ctx.w_s = costs, w_s * factor
        return torch.zeros_like(x) + w.detach() * 0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        ctx.costs.spend(ctx.w_s, 0.0)
        return grad.sum(dim=0) * 0, None, None, None, None


class Layer(torch.nn.Module):
    """A layer that takes time."""

    def __init__(self, costs: Costs, stage: int, scale: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(WIDTH, dtype=torch.float64))
        self.costs, self.stage = costs, stage
        milliseconds = (costs.options.f_ms, costs.options.i_ms, costs.options.w_ms)
        self.f_s, self.i_s, self.w_s = (scale * each / 1000 for each in milliseconds)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, later."""
        y = SleepX.apply(x, self.costs, self.stage, self.f_s, self.i_s)
        return y + SleepW.apply(self.weight, x.detach(), self.costs, self.stage, self.w_s)


def build_stage(costs: Costs, stage: int, stages: int) -> torch.nn.Module:
    """The layers of a stage; the last stage has a head if one is asked for."""
    options = costs.options
    count = options.layers[stage % len(options.layers)]
    modules: dict[str, torch.nn.Module] = {
        f"layer{i}": Layer(costs, stage, 1 / options.per_stage) for i in range(count)
    }
    if stage == stages - 1 and options.head:
        modules["lm_head"] = Layer(costs, stage, options.head / options.per_stage)
    return _Chain(modules)


class _Chain(torch.nn.Module):
    """Named layers, one after the other."""

    def __init__(self, layers: dict[str, torch.nn.Module]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Through all of them. The gradient of the first stage's input is made too: all stages cost the same."""
        x = x if x.requires_grad else x.detach().requires_grad_()
        for layer in self.layers.values():
            x = layer(x)
        return x


class Links:
    """Latency of links and a slow host, put where they are in real jobs: into the wait, and before a batch is
    posted."""

    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.received: dict[int, tuple[Any, torch.Tensor, float]] = {}
        self.options, self.rank = options, rank
        self.host_s = sum(ms for which, ms in options.host if which == rank) / 1000
        inner, wait = schedules._batch_p2p, dist.Work.wait

        def batch(ops: list[dist.P2POp], desc: str | None = None) -> list[Any]:
            if ops and self.host_s:
                time.sleep(self.host_s)
            works = inner(ops, desc=desc)
            for op, work in zip(ops, works, strict=False):
                latency_s = self.latency_s(op.peer) if op.op is dist.irecv else 0.0
                if latency_s:
                    self.received[id(work)] = (work, op.tensor, latency_s)
            return works

        def delayed(work: Any, *args: Any) -> Any:
            result = wait(work, *args)
            if found := self.received.pop(id(work), None):
                made_s = float(found[1][0, TIME])
                if abs(made_s - time.monotonic()) < GARBAGE_S:
                    sleep_until(made_s + found[2])
                    found[1].detach()[:, TIME] = made_s + found[2]
            return result

        if options.latency or options.host:
            schedules._batch_p2p = batch
            dist.Work.wait = delayed

    def latency_s(self, peer: int) -> float:
        """Of what comes from another rank."""
        return sum(link[-1] for link in self.options.latency if len(link) == 1 or link[:2] == (peer, self.rank)) / 1000


class Truth:
    """What the job sees of itself."""

    def __init__(self, rank: int) -> None:
        self.rank, self.step = rank, -1
        self.rows: list[list[Any]] = []
        self.windows: list[dict[str, float]] = []
        self.waits: list[tuple[float, float, bool]] = []
        self.receives: dict[int, tuple[Any, bool]] = {}

    def install(self, stages: list[PipelineStage], pairs: set[tuple[int, int]]) -> None:
        """Wrap torch's calls in this process."""
        self.pairs = pairs
        batch, wait = schedules._batch_p2p, schedules._wait_batch_p2p

        def batched(ops: list[dist.P2POp], desc: str | None = None) -> list[Any]:
            works = batch(ops, desc=desc)
            self.receives[id(works)] = (works, any(op.op is dist.irecv for op in ops))
            return works

        def waited(works: list[Any]) -> None:
            begin = time.monotonic()
            wait(works)
            receives = self.receives.pop(id(works), (works, False))[1]
            if works:
                self.waits.append((begin, time.monotonic(), receives))

        schedules._batch_p2p, schedules._wait_batch_p2p = batched, waited
        for stage in stages:
            for name in ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk"):
                setattr(stage, name, self.timed(getattr(stage, name), name, stage.stage_index))

    def timed(self, inner: Callable[..., Any], name: str, stage: int) -> Callable[..., Any]:
        """A method of a stage that writes its time down."""

        def call(microbatch: int, *args: Any, **kwargs: Any) -> Any:
            kind = {"forward_one_chunk": "F", "backward_weight_one_chunk": "W"}.get(name, "B")
            if kind == "B" and not kwargs.get("full_backward", True):
                kind = "I"
            waits, self.waits = self.waits, []
            received = [(a, b) for a, b, receives in waits if receives] or [(None, None)]
            sent_s = sum(b - a for a, b, receives in waits if not receives)
            begin = time.monotonic()
            result = inner(microbatch, *args, **kwargs)
            joined = kind == "F" and (stage, microbatch) in self.pairs
            row = [
                self.step,
                self.rank,
                kind,
                stage,
                microbatch,
                begin,
                time.monotonic(),
                *received[-1],
                joined,
                sent_s,
            ]
            self.rows.append(row)
            return result

        return call


def pairs_of(schedule: Any, rank: int) -> set[tuple[int, int]]:
    """Forwards that run overlapped with a backward on this rank."""
    order = getattr(schedule, "pipeline_order", {}).get(rank, [])
    subs = [action.sub_actions for action in order if action is not None and action.sub_actions]
    return {(sub[0].stage_index, sub[0].microbatch_index) for sub in subs}


def build(options: argparse.Namespace, costs: Costs, rank: int, ranks: int) -> tuple[Any, list[PipelineStage]]:
    """The schedule that is asked for, and this rank's stages."""
    name, loss = options.schedule, lambda y, _: (y * 0).sum()
    if options.csv:
        rows = [line.split(",") for line in Path(options.csv).read_text().splitlines() if line.strip()]
        held = [sorted({int(part) for cell in row for part in stages_in(cell)}) for row in rows]
        count = max(map(max, held)) + 1
    else:
        chunks = CHUNKS.get(name, options.chunks)
        count = chunks * ranks
        held = [[r + c * ranks for c in range(chunks)] for r in range(ranks)]
        if name in V_SHAPED:
            held = [[r, count - 1 - r] for r in range(ranks)]
    device = torch.device("cpu")
    modules = {s: build_stage(costs, s, count) for s in held[rank]}
    if options.sync == "ddp":
        modules = {s: DistributedDataParallel(m, process_group=options.same_stage) for s, m in modules.items()}
    stages = [PipelineStage(modules[s], s, count, device, group=options.pipeline) for s in held[rank]]
    if options.csv:
        runtime = schedules._PipelineScheduleRuntime(stages, options.nmb, loss_fn=loss)
        runtime._load_csv(options.csv)
        return runtime, stages
    kind = schedules.get_schedule_class(name)
    return kind(stages[0] if name in ("GPipe", "1F1B") else stages, options.nmb, loss_fn=loss), stages


def stages_in(cell: str) -> list[str]:
    """The stages of a cell of torch's CSV."""
    parts = cell.strip().removesuffix("OVERLAP_F_B").strip("()").split(";")
    return ["".join(c for c in part[: part.find(next(x for x in part if x in "FBIW"))]) for part in parts if part]


class Batches(torch.utils.data.Dataset[torch.Tensor]):
    """Inputs; loading one takes as long as it is told to."""

    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.options = options
        self.data_s = sum(ms for which, ms in options.data if which == rank) / 1000

    def __len__(self) -> int:
        return self.options.steps + 1

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.data_s)
        batch = torch.zeros(self.options.nmb, WIDTH, dtype=torch.float64)
        batch[:, MICROBATCH] = torch.arange(self.options.nmb)
        return batch


def train(options: argparse.Namespace, rank: int, ranks: int) -> dict[str, Any]:
    """All steps of one rank; what it saw."""
    costs = Costs(options, rank)
    Links(options, rank)
    schedule, stages = build(options, costs, rank, ranks)
    truth = Truth(rank)
    if options.truth:
        truth.install(stages, pairs_of(schedule, rank))
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    first, last = any(stage.is_first for stage in stages), any(stage.is_last for stage in stages)
    loader = torch.utils.data.DataLoader(Batches(options, rank), batch_size=None)
    batches = iter(loader)
    ballast = torch.zeros(int(options.ballast_mb * (1 << 18)))
    for step in range(options.steps + 1):
        asked_s = time.monotonic()
        batch = next(batches)
        truth.step = step
        enter_s = time.monotonic()
        arguments = (batch,) if first else ()
        schedule.step(*arguments, **({"target": torch.zeros(options.nmb, 1)} if last else {}))
        truth.waits.clear()
        computed_s = time.monotonic()
        if options.sync == "explicit":
            dist.all_reduce(ballast, group=options.same_stage)
        done_s = time.monotonic()
        time.sleep(options.optimizer_ms / 1000)
        optimizer.step()
        optimizer.zero_grad()
        left_s = time.monotonic()
        if options.barrier:
            dist.barrier()
        truth.windows.append({"asked_s": asked_s, "enter_s": enter_s, "done_s": done_s, "left_s": left_s})
        truth.windows[-1]["reduced_s"] = done_s - computed_s
    return {"rank": rank, "rows": truth.rows, "windows": truth.windows}


def numbers(text: str) -> tuple[float, ...]:
    """`3:1.75` as numbers."""
    return tuple(float(part) for part in text.split(":"))


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", default="1F1B", help="a name that torch knows: GPipe, 1F1B, Interleaved1F1B ...")
    parser.add_argument("--csv", help="an order in torch's CSV instead")
    parser.add_argument("--nmb", type=int, default=8, help="microbatches")
    parser.add_argument("--chunks", type=int, default=2, help="stages a rank, where the schedule leaves it open")
    parser.add_argument("--steps", type=int, default=3, help="steps after the first, in which torch infers shapes")
    parser.add_argument("--f-ms", type=float, default=20.0, help="forward of a usual stage")
    parser.add_argument("--i-ms", type=float, default=20.0, help="its gradient of the input")
    parser.add_argument("--w-ms", type=float, default=20.0, help="its gradient of the weights")
    parser.add_argument("--layers", default="1", help="layers of the stages: 4,4,4,4 (repeated if there are more)")
    parser.add_argument("--per-stage", type=float, default=0, help="layers of a usual stage (the first of --layers)")
    parser.add_argument("--head", type=float, default=0.0, help="a head at the end that costs this many layers")
    parser.add_argument("--slow", type=numbers, action="append", default=[], help="stage:factor")
    parser.add_argument("--straggler", type=numbers, action="append", default=[], help="rank:factor:every")
    parser.add_argument("--lengths", default="1", help="factors of the microbatches in turn: 1,1.5")
    parser.add_argument(
        "--latency", type=numbers, action="append", default=[], help="source:target:ms, or ms for all links"
    )
    parser.add_argument(
        "--host", type=numbers, action="append", default=[], help="rank:ms before every send and receive"
    )
    parser.add_argument("--data", type=numbers, action="append", default=[], help="rank:ms for loading a batch")
    parser.add_argument("--replicas", type=int, default=1, help="so many pipelines, rank by rank")
    parser.add_argument("--sync", choices=["", "explicit", "ddp"], default="", help="reduce gradients over replicas")
    parser.add_argument("--ballast-mb", type=float, default=0.0, help="what is reduced by --sync explicit")
    parser.add_argument("--slow-replica", type=numbers, action="append", default=[], help="replica:factor")
    parser.add_argument("--optimizer-ms", type=float, default=0.0)
    parser.add_argument("--barrier", action="store_true", help="ranks meet after every step")
    parser.add_argument("--slack-ms", type=float, default=15.0, help="lateness that is not kept")
    parser.add_argument("--truth", help="where to write what happened when, as JSON")
    options = parser.parse_args()
    options.layers = [int(part) for part in options.layers.split(",")]
    options.lengths = [float(part) for part in options.lengths.split(",")]
    options.per_stage = options.per_stage or options.layers[0]
    return options


def main() -> None:
    """Run the job on this rank."""
    options = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    ranks = world // options.replicas
    options.replica, place = divmod(rank, ranks)
    options.pipeline = options.same_stage = None
    if options.replicas > 1:
        pipelines = [dist.new_group(list(range(r * ranks, (r + 1) * ranks))) for r in range(options.replicas)]
        same_stage = [dist.new_group(list(range(s, world, ranks))) for s in range(ranks)]
        options.pipeline, options.same_stage = pipelines[options.replica], same_stage[place]
    seen = train(options, place, ranks)
    if options.truth:
        everyone: list[Any] = [None] * world
        dist.gather_object(seen, everyone if rank == 0 else None)
        if rank == 0:
            names = ("schedule", "nmb", "chunks", "steps", "f_ms", "i_ms", "w_ms", "layers", "head")
            result = {"options": {name: getattr(options, name) for name in names}, "ranks": everyone}
            Path(options.truth).write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
