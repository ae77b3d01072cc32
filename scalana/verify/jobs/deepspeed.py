"""Ranks of DeepSpeed's pipeline engine on gloo and the CPU, with layers that sleep.

    python -m scalana.verify.jobs.deepspeed JOB.json

The module that the plan wrote is what cuts the layers.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.pipe import PipelineModule  # noqa: E402
from deepspeed.runtime.pipe import p2p  # noqa: E402

from scalana.verify.jobs.emulation import WIDTH, Job, start  # noqa: E402

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]  # it would be compiled


def planned(settings: Path) -> Any:
    """The class that the plan wrote."""
    names = {"PipelineModule": PipelineModule}
    exec(compile(settings.read_text(encoding="utf-8"), str(settings), "exec"), names)
    return names["PlannedModule"]


def delay_messages(job: Job) -> None:
    """Emulate the links, where DeepSpeed has received."""
    inner = p2p.recv

    def receive(tensor: torch.Tensor, source: int, *args: Any, **named: Any) -> Any:
        result = inner(tensor, source, *args, **named)
        if tensor.dtype is torch.float64:
            job.wait_for_link(tensor, source)
        return result

    p2p.recv = receive


def main(job: Job) -> None:
    """Run the steps of this rank."""
    job.meet()
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    deepspeed.init_distributed(dist_backend="gloo")
    delay_messages(job)
    modules = [job.layer(index) for index in range(len(job.told["layers"]))]
    model = planned(Path(job.told["settings"]))(
        modules, num_stages=job.ranks, loss_fn=lambda output, _: (output * 0).sum()
    )
    settings = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": job.microbatches}
    settings["steps_per_print"] = 1_000_000
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    held = list(range(model.parts[job.rank], model.parts[job.rank + 1]))

    def batches() -> Iterator[Any]:
        for row in job.batches():
            yield row.reshape(1, WIDTH), torch.zeros(1, 1)

    job.measure(lambda: engine.train_batch(batches()), [held])


if __name__ == "__main__":
    start(main)
