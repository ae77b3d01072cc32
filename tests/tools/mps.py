"""CUDA's Multi-Process Service, by which processes run on parts of one GPU at the same time instead of in turns."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

CONTROL = "nvidia-cuda-mps-control"
FOLDERS = ("/usr/local/nvidia/bin", "/usr/bin", "/usr/local/cuda/bin")
"""Where drivers put it, if not on the PATH."""


def control() -> str:
    """The path of its control program; empty where there is none."""
    return shutil.which(CONTROL, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *FOLDERS])) or ""


@contextmanager
def sharing(folder: str, ranks: int) -> Iterator[dict[str, str]]:
    """Serve from a folder; gives the environment in which each of some ranks has its part of the GPU's processors.

    Raises:
        OSError, subprocess.SubprocessError: it does not start.
    """
    places = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
    for place in places.values():
        os.makedirs(place)
    environment = {**os.environ, **places}
    subprocess.run([control(), "-d"], env=environment, check=True, timeout=20, capture_output=True)
    try:
        yield {**places, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(100 // ranks)}
    finally:
        subprocess.run([control()], env=environment, input="quit\n", text=True, timeout=20, capture_output=True)
