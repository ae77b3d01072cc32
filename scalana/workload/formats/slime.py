"""Rollouts that slime saves (``--save-debug-rollout-data``), and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scalana.workload.formats.entries import EntryFile
from scalana.workload.formats.rows import Groups, row


def is_sample(entry: dict[str, Any]) -> bool:
    """Whether an entry is one of its samples."""
    return {"response_length", "group_index"} <= entry.keys()


def samples(files: Sequence[EntryFile]) -> Iterator[dict[str, Any]]:
    """A row a sample; those that were aborted are left out."""
    groups = Groups()
    for file in files:
        for _, entry in file.entries:
            tokens = float(entry["response_length"])
            status = str(entry.get("status", "")).lower()
            if tokens <= 0 or status == "aborted":
                continue
            step = int(entry.get("rollout_id", file.number))
            every = entry.get("tokens")
            prompt = float("nan") if every is None or not len(every) else float(len(every)) - tokens
            tool = float(entry.get("non_generation_time") or 0.0)
            group = groups.number(step, entry.get("group_index"))
            yield row(step, group, prompt, [(prompt, tokens, tool)], status == "truncated")
