"""Sessions of AReaL's tracer (``sessions-r*.jsonl``): times without lengths, so that a length is milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from scalana.workload.formats.entries import EntryFile
from scalana.workload.formats.rows import Groups, Turn, row

UNIT = "ms"


def is_session(entry: dict[str, Any]) -> bool:
    """Whether an entry is a session."""
    return {"session_id", "submit_ts", "status"} <= entry.keys() or {"task_id", "generate_s"} <= entry.keys()


def sessions(files: Sequence[EntryFile]) -> Iterator[dict[str, Any]]:
    """A row a session that generated something: sessions have no steps, so that all belong to one."""
    groups = Groups()
    every = [entry for file in files for _, entry in file.entries if entry.get("generate_s")]
    zero = {
        rank: min(e["submit_ts"] for e in every if e.get("rank") == rank) for rank in {e.get("rank") for e in every}
    }
    for entry in every:
        rank = entry.get("rank")
        task = entry.get("task_id")
        begin = float(entry["submit_ts"]) - zero[rank]  # clocks begin with each process
        end = entry.get("finalized_ts")
        reward = entry.get("reward_s")
        yield row(
            0,
            groups.number(0, None if task is None else (rank, task)),
            math.nan,
            _turns(entry),
            verifier_s=math.nan if reward is None else float(reward),
            replica=-1 if rank is None else int(rank),
            begin_s=begin,
            end_s=math.nan if end is None else float(end) - zero[rank],
        )


def _turns(entry: dict[str, Any]) -> list[Turn]:
    """A turn for each time that it generates; what tools take goes to the last turn before them."""
    phases = entry.get("phases") or {}
    made = [(float(one["start_ts"]), float(one["end_ts"])) for one in phases.get("generate", []) if one.get("end_ts")]
    tools = [(float(one["start_ts"]), float(one["end_ts"])) for one in phases.get("toolcall", []) if one.get("end_ts")]
    if not made:
        return [(0.0, 1e3 * float(entry["generate_s"]), float(entry.get("toolcall_s") or 0.0))]
    result: list[Turn] = []
    for number, (begin, end) in enumerate(made):
        until = made[number + 1][0] if number + 1 < len(made) else math.inf
        tool = sum(last - first for first, last in tools if begin <= first < until)
        result.append((0.0, 1e3 * (end - begin), tool))
    return result
