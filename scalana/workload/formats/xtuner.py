"""Rollouts that xtuner writes for each step (``train_rollout_*.jsonl``), a trajectory a line below a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scalana.workload.formats.entries import EntryFile
from scalana.workload.formats.rows import Groups, row


def is_rollout(entry: dict[str, Any]) -> bool:
    """Whether an entry is a trajectory, or the summary above them."""
    return "response_len" in entry or {"response_len_mean", "total_len"} <= entry.keys()


def rollouts(files: Sequence[EntryFile]) -> Iterator[dict[str, Any]]:
    """A row a trajectory; the step is the number of its file."""
    groups = Groups()
    for file in files:
        for _, entry in file.entries:
            tokens = float(entry.get("response_len") or 0.0)
            if tokens <= 0:
                continue
            length = entry.get("prompt_len")
            prompt = float("nan") if length is None else float(length)
            group = groups.number(file.number, entry.get("group_id"))
            yield row(file.number, group, prompt, [(prompt, tokens, 0.0)], entry.get("finish_reason") == "length")
