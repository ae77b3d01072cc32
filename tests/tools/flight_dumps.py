"""Dumps of flight recorders as PyTorch writes them, of a job whose faults are known."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MS = 1_000_000
START = 1_790_000_000_000_000_000


@dataclass
class FlightJob:
    """A job of some ranks, each of whose steps ends in an allreduce; times in ns."""

    ranks: int = 4
    steps: int = 12
    step_ns: int = 100 * MS
    late: dict[int, int] = field(default_factory=dict)
    """How much later than others ranks come to every allreduce."""
    missing: int = -1
    """Rank that does not come to the last one, which is never complete then."""
    library: str = "nccl"
    timing: bool = True
    """Whether the job measured how long collectives take on the device."""
    program: str = "/job/train.py"

    def dumps(self) -> list[dict[str, Any]]:
        """The dump of every rank."""
        return [self._dump(rank) for rank in range(self.ranks)]

    def _dump(self, rank: int) -> dict[str, Any]:
        on_device = self.library == "nccl"
        lateness = [self.late.get(number, 0) for number in range(self.ranks)]
        entries = []
        for step in range(self.steps):
            stuck = self.missing >= 0 and step == self.steps - 1
            if stuck and rank == self.missing:
                break
            came = START + (step + 1) * self.step_ns + step * max(lateness) + lateness[rank]
            end = START + (step + 1) * self.step_ns + (step + 1) * max(lateness) + MS
            entries.append(
                {
                    "frames": [
                        {"name": "all_reduce", "filename": "/lib/python3.11/site-packages/torch/x.py", "line": 9},
                        {"name": "average", "filename": self.program, "line": 31},
                        {"name": "<module>", "filename": self.program, "line": 50},
                    ],
                    "record_id": step,
                    "pg_id": 0,
                    "process_group": ("0", "default_pg"),
                    "collective_seq_id": step + 1,
                    "p2p_seq_id": 0,
                    "op_id": step + 1,
                    "profiling_name": f"{self.library}:all_reduce",
                    "time_created_ns": came,
                    "input_sizes": [[1024, 2]],
                    "input_dtypes": ["Float"],
                    "output_sizes": [[1024, 2]],
                    "output_dtypes": ["Float"],
                    "state": ("started" if stuck else "completed") if on_device else "scheduled",
                    "time_discovered_started_ns": came + MS if on_device else None,
                    "time_discovered_completed_ns": end + 2 * MS if on_device and not stuck else None,
                    "retired": not stuck,
                    "timeout_ms": 60_000,
                    "is_p2p": False,
                    **({"duration_ms": (end - came) / 1e6} if on_device and self.timing and not stuck else {}),
                }
            )
        name, description = ("0", "default_pg") if on_device else ("", "")
        config = {name: {"name": name, "desc": description, "ranks": str(list(range(self.ranks)))}}
        return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}

    def write(self, folder: Path, as_json: bool = False) -> Path:
        """Write the dumps, one file a rank, as they are called by default."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank, dump in enumerate(self.dumps()):
            data = json.dumps(dump).encode() if as_json else pickle.dumps(dump, 2)
            (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
        return folder
