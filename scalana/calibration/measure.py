"""Measures what each of several processes at work at the same time can do on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalana.calibration.ceilings import Setting, here
from scalana.detectors.when.roofline import Ceilings
from scalana.errors import CommandError
from scalana.runtime.record import layout

SMALLEST, LARGEST = 1 << 16, 1 << 29
"""Bytes that operators move whose bandwidth is measured, at most."""
BEYOND_CACHES = 6
"""Times as large as the largest cache is what surely lies in memory."""
_DEVICE_BYTES = 1 << 30
"""Moved on a device: more than its caches hold."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out."""

    setting: Setting
    ceilings: Ceilings
    torch_folder: str
    """Where torch is installed."""
    torch_abi: int
    """Of its C++ library."""


def measure(processes: int, threads: int, types: Sequence[str], device: str = "cpu") -> Measured:
    """Measure it. Of each thing every process does its best, all at the same time, and the median process counts.

    Raises:
        CommandError: torch or the device cannot be used.
    """
    measures: list[tuple[str, Any]] = [("flops", dtype) for dtype in types]
    measures += [("bandwidth", size) for size in sizes(device)]
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(_child(threads, device, measures)) for _ in range(processes)]
        told = [json.loads(_line(child)) for child in children][0]
        values = []
        for _ in measures:
            for child in children:
                _line(child)
            for child in children:
                assert child.stdin is not None
                child.stdin.write("\n")
                child.stdin.flush()
            values.append(statistics.median(float(json.loads(_line(child))) for child in children))
    flops = {dtype: value for dtype, value in zip(types, values, strict=False) if value > 0.0}
    bandwidth = tuple(zip(sizes(device), values[len(types) :], strict=True))
    setting = here(told["torch"], processes, int(told["threads"]), told["device"])
    return Measured(setting, Ceilings(flops, bandwidth), told["folder"], int(told["abi"]))


def sizes(device: str) -> list[int]:
    """Bytes that operators move whose bandwidth is measured: from what fits into the fastest cache to what fits into
    none."""
    largest = min(max(BEYOND_CACHES * largest_cache(), 1 << 26), LARGEST) if device == "cpu" else _DEVICE_BYTES
    found = []
    size = SMALLEST
    while size < largest:
        found.append(size)
        size *= 4
    return [*found, largest]


def largest_cache() -> int:
    """Bytes of the largest cache of this machine; 0 where it does not say."""
    found = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = file.read_text().strip()
            found.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return max(found)


@contextlib.contextmanager
def _child(threads: int, device: str, measures: Sequence[tuple[str, Any]]) -> Iterator[subprocess.Popen[str]]:
    environment: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", layout.RUN_VARIABLE)},
        "OMP_NUM_THREADS": str(threads),
    }
    program = [sys.executable, "-m", "scalana.calibration.job", str(threads), device, json.dumps(measures)]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as child:
        try:
            yield child
        finally:
            child.kill()


def _line(child: subprocess.Popen[str]) -> str:
    """The next line of a process.

    Raises:
        CommandError: it ended.
    """
    assert child.stdout is not None and child.stderr is not None
    line = child.stdout.readline()
    if not line:
        trouble = child.stderr.read().strip().splitlines()
        raise CommandError(f"could not measure: {trouble[-1] if trouble else 'the process ended'}")
    return line
