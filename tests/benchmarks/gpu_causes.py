"""Faults planted in DDP over NCCL on two ranks, which may share one GPU, beside what a report says of them; as JSON.

Run: python -m tests.benchmarks.gpu_causes [FAULT ...]

Records `tests/runtime/programs/gpu_ddp.py` without a fault and with each. Of each: whether the first finding has its
kind and rank, the saving, and by how much all steps but the first are longer, as rank 0 prints it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import scalana

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "runtime" / "programs" / "gpu_ddp.py"
FAULTS = {"host": "launch-gap", "kernels": "device-late", "rows": "device-late"}
STEPS = 39
"""Those that a saving is of: all but the first, of which nothing is marked."""


def recorded(fault: str, folder: Path) -> float:
    """Milliseconds of a step of a recorded job."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", *launcher]
    environment = {**os.environ, "TORCH_NCCL_ENABLE_TIMING": "1"}
    done = subprocess.run([*command, str(PROGRAM), fault], cwd=ROOT, env=environment, capture_output=True, text=True)
    found = re.search(r"rank 0: ([0-9.]+) ms a step", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{fault} ended with {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return float(found[1])


def main() -> None:
    """Record, and print what is told."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as work:
        base_ms = recorded("nothing", Path(work, "nothing"))
        found["nothing"] = {"right": not scalana.analyze(Path(work, "nothing")).findings, "step_ms": base_ms}
        for fault in sys.argv[1:] or FAULTS:
            step_ms = recorded(fault, Path(work, fault))
            findings = scalana.analyze(Path(work, fault)).findings
            right = bool(findings) and (findings[0].kind, findings[0].ranks) == (FAULTS[fault], [1])
            found[fault] = {
                "right": right,
                "step_ms": step_ms,
                "costs_s": STEPS * (step_ms - base_ms) / 1e3,
                "saving_s": findings[0].saving_s if findings else 0.0,
            }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
