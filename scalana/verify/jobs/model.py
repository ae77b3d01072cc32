"""Ranks of torch's runtime that carries a plan out with the layers of a user's model, on gloo and the CPU.

python -m scalana.verify.jobs.model JOB.json
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.pipelining import PipelineStage

from scalana.verify.jobs.emulation import Job, start
from scalana.verify.jobs.torch_runtime import schedule_of

KINDS = {"forward_one_chunk": "F", "backward_one_chunk": "B", "backward_weight_one_chunk": "W"}
"""Methods of a stage, and the actions that they are (a backward that is no whole one is I)."""


def made(spec: str) -> tuple[torch.nn.Module, tuple[Any, ...], Callable[[Any], torch.Tensor]]:
    """The model, what a microbatch calls it with, and its loss."""
    name, _, attribute = spec.partition(":")
    torch.manual_seed(0)
    found = getattr(importlib.import_module(name), attribute)()
    if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[0], torch.nn.Module):
        raise SystemExit(f"--model {spec} must return (model, inputs of a microbatch) or (model, inputs, loss)")
    inputs = found[1] if isinstance(found[1], (tuple, list)) else (found[1],)
    loss = found[2] if len(found) == 3 else lambda output: output.float().square().mean()
    return found[0], tuple(inputs), loss


def layers_of(model: torch.nn.Module, names: Sequence[str]) -> list[torch.nn.Module]:
    """The layers of a model: by their names in the plan, or its children one after the other."""
    modules = dict(model.named_modules())
    missing = [name for name in names if name not in modules]
    if not missing:
        return [modules[name] for name in names]
    children = list(model.children())
    if len(children) != len(names):
        raise SystemExit(
            f"the model lacks module {missing[0]}: it has {len(children)} children, the plan {len(names)} layers"
        )
    return children


def check_chain(model: torch.nn.Module, layers: Sequence[torch.nn.Module], inputs: tuple[Any, ...]) -> None:
    """Raise where a model is not its layers, one after the other."""
    results = []
    for whole in (model, torch.nn.Sequential(*layers)):
        torch.manual_seed(1)
        with torch.no_grad():
            results.append(whole(*inputs))
    same = isinstance(results[0], torch.Tensor) and torch.allclose(*results, rtol=1e-3, atol=1e-5)
    if not same:
        raise SystemExit("the model is not a sequence of its layers: they give a different result")


def timed(stage: PipelineStage, rows: list[tuple[str, int, float]]) -> None:
    """Let a stage write down what its actions take."""
    for name, kind in KINDS.items():
        inner = getattr(stage, name)

        def call(*args: Any, _inner: Any = inner, _kind: str = kind, **named: Any) -> Any:
            begin = time.monotonic()
            result = _inner(*args, **named)
            split = _kind == "B" and not named.get("full_backward", True)
            rows.append(("I" if split else _kind, stage.stage_index, time.monotonic() - begin))
            return result

        setattr(stage, name, call)


def main(job: Job) -> None:
    """Run the steps of this rank."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // job.ranks))
    model, inputs, loss = made(job.told["model"])
    layers = layers_of(model, [layer["name"] for layer in job.told["layers"]])
    if job.rank == 0:
        check_chain(model, layers, inputs)
    job.meet()
    count = len(job.told["stages"])
    held = [s for s, one in enumerate(job.told["stages"]) if one["rank"] == job.rank]
    parts = [torch.nn.Sequential(*(layers[i] for i in job.held(s))) for s in held]
    stages = [PipelineStage(part, s, count, torch.device("cpu")) for s, part in zip(held, parts, strict=True)]
    rows: list[tuple[str, int, float]] = []
    for stage in stages:
        timed(stage, rows)
    runtime = schedule_of(job, stages, lambda output, _: loss(output))
    batch = tuple(torch.cat([one] * job.microbatches) for one in inputs)
    arguments = batch if any(stage.is_first for stage in stages) else ()
    target = {"target": torch.zeros(job.microbatches, 1)} if any(stage.is_last for stage in stages) else {}
    first: list[int] = []

    def step() -> None:
        first.append(len(rows))
        for part in parts:
            part.zero_grad()
        runtime.step(*arguments, **target)

    job.measure(step, [job.held(s) for s in held], lambda: rows[first[1] :])


if __name__ == "__main__":
    start(main)
