"""Ray Train and Ray Data: two workers that train, then take batches of a pipeline whose map function is slow.

What is slow is measured where it is, and written to a folder, the argument: one file for each.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
import ray.data
import ray.train
import ray.train.torch
import torch

STEPS, CHECKPOINTS, BLOCKS, ROWS = 20, 6, 20, 8
SLOW_S, CHECKPOINT_S, MAP_S = 0.15, 0.4, 0.4


class Truth:
    """Seconds that were spent somewhere, told by the last line of a file."""

    def __init__(self, folder: str, name: str) -> None:
        self.file, self.seconds, self.begin = Path(folder) / name, 0.0, 0.0

    def __enter__(self) -> None:
        self.begin = time.monotonic()

    def __exit__(self, *failure: object) -> None:
        self.seconds += time.monotonic() - self.begin
        self.file.write_text(str(self.seconds))


class Crop:
    """The map function of a pipeline, as an actor."""

    def __init__(self, folder: str) -> None:
        self.truth = Truth(folder, "map")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        with self.truth:
            time.sleep(MAP_S)  # slow map
        return {"x": batch["id"].astype("float32")}


def augmented(x: torch.Tensor, truth: Truth) -> torch.Tensor:
    with truth:
        time.sleep(SLOW_S)  # slow line
    return x


def train(config: dict[str, Any]) -> None:
    rank = ray.train.get_context().get_world_rank()
    slow, checkpoints, data = (Truth(config["folder"], name) for name in ("slow", "checkpoint", f"data{rank}"))
    model = ray.train.torch.prepare_model(torch.nn.Linear(ROWS, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

    def step(x: torch.Tensor) -> float:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)

    loss = 0.0
    for _ in range(STEPS):
        x = torch.ones(1, ROWS)
        loss = step(augmented(x, slow) if rank == 1 else x)
    for _ in range(CHECKPOINTS):
        loss = step(torch.ones(1, ROWS))
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                with checkpoints:
                    torch.save(model.state_dict(), Path(folder) / "model.pt")
                    time.sleep(CHECKPOINT_S)  # slow checkpoint
                checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": loss}, checkpoint=checkpoint)
    batches = iter(ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=ROWS))
    more = True
    while more:
        with data:
            batch = next(batches, None)  # waits for data
        more = batch is not None
        if batch is not None:
            loss = step(batch["x"].reshape(1, -1))
    ray.train.report({"loss": loss})


def main(folder: str) -> None:
    ray.init(num_cpus=6, log_to_driver=False)
    rows = ray.data.range(BLOCKS * ROWS, override_num_blocks=BLOCKS)
    pool = ray.data.ActorPoolStrategy(size=1)  # too small
    cropped = rows.map_batches(Crop, fn_constructor_args=(folder,), batch_size=ROWS, compute=pool)
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"folder": folder},
        datasets={"train": cropped},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=tempfile.mkdtemp(), name="trained"),
    )
    result = trainer.fit()
    print("trained", sorted(result.metrics or {}), flush=True)


main(sys.argv[1])
