"""Records a job of verl on CPUs, as its users start it: where `make verl` has installed it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [ROOT / "build" / name / "site-packages" for name in ("verl", "ray")]
PROGRAMS = ROOT / "tests" / "detectors" / "rl" / "programs"
LIMIT_S = 900
SETTINGS = {
    "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # whose engine trains on any device
    "RAY_AUTH_MODE": "disabled",
    "RAY_ADDRESS": "local",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_worker_niceness": "0",  # as it is without Ray
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}

BY_QUEUE = (
    "trainer.use_v1=True",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "ray_kwargs.ray_init.num_cpus=16",
)
"""Of a job whose processes hand batches to each other by verl's queue, on few cores."""


def is_installed() -> bool:
    """Whether there are verl and Ray."""
    return all((path / name).is_dir() for path, name in zip(PACKAGES, ("verl", "ray"), strict=True))


def record(folder: Path, steps: int, planted: str, *settings: str) -> str:
    """Record one into ``run`` of a folder; returns what it prints.

    Args:
        folder: for the run, and what the job writes.
        steps: of training.
        planted: what is, see ``verl_planted.py`` beside the program.
        settings: of verl, as ``name=value``, beside those of the program.

    Raises:
        RuntimeError: it failed.
    """
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )  # whatever shell it is started from
    packages = os.pathsep.join(map(str, (*PACKAGES, PROGRAMS)))
    done = subprocess.run(
        [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder / "run"), "--"]
        + [sys.executable, str(PROGRAMS / "verl_grpo.py"), str(folder / "out"), str(steps), *settings],
        cwd=ROOT,
        env={**os.environ, **SETTINGS, "PATH": path, "PYTHONPATH": packages, "PLANTED": planted},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    return done.stdout
