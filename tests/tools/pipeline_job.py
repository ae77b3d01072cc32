"""A job of torch.distributed.pipelining on gloo whose stages take the time they are told to.

    torchrun --standalone --nproc-per-node 4 tests/tools/pipeline_job.py --schedule 1F1B --nmb 8 --slow 3:1.75

Its layers sleep, as ``emulated.py`` says.

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
from emulated import (
    GARBAGE_S,
    MICROBATCH,
    TIME,
    WIDTH,
    Costs,
    Layer,
    add_costs,
    numbers,
    of_link,
    read_costs,
    sleep_until,
)
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn.parallel import DistributedDataParallel

CHUNKS = {"GPipe": 1, "1F1B": 1, "ZBVZeroBubble": 2, "DualPipeV": 2}
"""Stages a rank, where the schedule fixes it."""
V_SHAPED = ("ZBVZeroBubble", "DualPipeV")


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
        return of_link(self.options.latency, peer, self.rank)


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


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedule", default="1F1B", help="a name that torch knows: GPipe, 1F1B, Interleaved1F1B ...")
    parser.add_argument("--csv", help="an order in torch's CSV instead")
    parser.add_argument("--nmb", type=int, default=8, help="microbatches")
    parser.add_argument("--chunks", type=int, default=2, help="stages a rank, where the schedule leaves it open")
    parser.add_argument("--steps", type=int, default=3, help="steps after the first, in which torch infers shapes")
    add_costs(parser)
    parser.add_argument("--data", type=numbers, action="append", default=[], help="rank:ms for loading a batch")
    parser.add_argument("--replicas", type=int, default=1, help="so many pipelines, rank by rank")
    parser.add_argument("--sync", choices=["", "explicit", "ddp"], default="", help="reduce gradients over replicas")
    parser.add_argument("--ballast-mb", type=float, default=0.0, help="what is reduced by --sync explicit")
    parser.add_argument("--slow-replica", type=numbers, action="append", default=[], help="replica:factor")
    parser.add_argument("--optimizer-ms", type=float, default=0.0)
    parser.add_argument("--barrier", action="store_true", help="ranks meet after every step")
    parser.add_argument("--truth", help="where to write what happened when, as JSON")
    options = parser.parse_args()
    read_costs(options)
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
