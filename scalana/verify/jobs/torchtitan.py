"""Ranks of a pipeline that torchtitan builds from the settings of a plan, on gloo, with layers that sleep.

    python -m scalana.verify.jobs.torchtitan JOB.json

torchtitan's own code reads the settings, cuts the model, places its parts, and loads the order.
"""

from __future__ import annotations

import functools
import os
import types
from pathlib import Path
from typing import Any

import torch
import torch._utils

from scalana.verify.jobs import absent
from scalana.verify.jobs.emulation import Job, Sleeper, start
from scalana.verify.jobs.torch_runtime import delay_messages, loss, watch_backwards

LEFT_OUT = {
    "tyro": "tyro",
    "torchdata": "torchdata",
    "datasets": "datasets",
    "tokenizers": "tokenizers",
    "PIL": "PIL",
    "torch.utils.tensorboard": "tensorboard",
    "torchtitan.models.moe.kernels": "triton",
}
"""What torchtitan imports for its command line, data, tokenizers, logs and experts, and by which package it is there: a
pipeline needs none of it."""


def import_torchtitan() -> types.SimpleNamespace:
    """What a pipeline needs of torchtitan, on a CPU, which it is not made for."""
    absent.stand_in(LEFT_OUT)
    torch._utils._get_available_device_type = lambda: "cpu"
    torch.cpu.get_device_name = lambda *_: "cpu"
    from torchtitan.config import ConfigManager, JobConfig
    from torchtitan.distributed import ParallelDims
    from torchtitan.distributed.pipeline_parallel import pipeline_llm

    return types.SimpleNamespace(
        ConfigManager=ConfigManager, JobConfig=JobConfig, ParallelDims=ParallelDims, pipeline_llm=pipeline_llm
    )


class Model(torch.nn.Module):  # type: ignore[misc]
    """All layers, by the names of the plan, as torchtitan cuts a model: what a part does not have is None."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.names = [layer["name"] for layer in job.told["layers"]]
        for index, name in enumerate(self.names):
            layer = job.layer(index)
            group, dot, rest = name.partition(".")
            if not dot:
                setattr(self, name, layer)
                continue
            if not hasattr(self, group):
                setattr(self, group, torch.nn.ModuleDict())
            getattr(self, group)[rest] = layer

    def part(self) -> dict[int, Sleeper]:
        """What torchtitan has left of it, by the number of the layer."""
        found = {}
        for index, name in enumerate(self.names):
            group, dot, rest = name.partition(".")
            holder = getattr(self, group)
            layer = holder[rest] if dot and rest in holder else None if dot else holder
            if layer is not None:
                found[index] = layer
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Through all that is left."""
        for layer in self.part().values():
            x = layer(x)
        return x


def configured(titan: types.SimpleNamespace, job: Job) -> Any:
    """The configuration, of the settings' file, as torchtitan's own manager makes it."""
    settings = Path(job.told["settings"])
    os.chdir(settings.parent)  # where the file of the order is
    manager = titan.ConfigManager()
    values = manager._maybe_load_toml([f"--job.config_file={settings}"])
    config = manager._dict_to_dataclass(titan.JobConfig, values)
    config.parallelism.pipeline_parallel_microbatch_size = 1
    config.training.local_batch_size = job.microbatches
    return config


def main(job: Job, titan: types.SimpleNamespace) -> None:
    """Run the steps of this rank."""
    job.meet()
    delay_messages(job)
    config = configured(titan, job)
    dims = titan.ParallelDims(1, 1, 1, 1, config.parallelism.pipeline_parallel_degree, 1, 1, job.ranks)
    dims.build_mesh()
    model = Model(job)
    few = types.SimpleNamespace(n_layers=len(model.names))
    device = torch.device("cpu")
    schedule, parts, first, last = titan.pipeline_llm(model, dims, config, device, few, lambda part, *_: part, loss)
    for part in parts:  # torchtitan copies the model for every part, and the clock with it
        for layer in part.part().values():
            layer.clock = job.clock
    stages = schedule._stages if hasattr(schedule, "_stages") else [schedule._stage]
    watch_backwards(stages, job.clock)
    inputs = (job.batches(),) if first else ()
    target = {"target": torch.zeros(job.microbatches, 1)} if last else {}
    job.measure(lambda: schedule.step(*inputs, **target), [list(part.part()) for part in parts])


if __name__ == "__main__":
    start(functools.partial(main, titan=import_torchtitan()))
