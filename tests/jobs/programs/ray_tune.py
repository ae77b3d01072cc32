"""Ray Tune: three trials, the last of which is slow; it writes to a folder, the argument, how many seconds it was."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune

STEPS, SLOW_S = 6, 0.6


def trial(config: dict[str, Any]) -> None:
    seconds = 0.0
    for step in range(STEPS):
        begin = time.monotonic()
        time.sleep(config["seconds"])  # slow trial
        seconds += time.monotonic() - begin
        tune.report({"loss": step})
    if config["seconds"] == SLOW_S:
        Path(config["folder"], "trial").write_text(str(seconds))


def main(folder: str) -> None:
    ray.init(num_cpus=3, log_to_driver=False)
    tuner = tune.Tuner(
        trial,
        param_space={"seconds": tune.grid_search([0.02, 0.02, SLOW_S]), "folder": folder},
        run_config=tune.RunConfig(storage_path=tempfile.mkdtemp(), name="tuned", verbose=0),
    )
    print("tuned", len(tuner.fit()), flush=True)


main(sys.argv[1])
