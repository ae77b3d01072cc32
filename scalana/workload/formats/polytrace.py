"""Logs of PolyTrace (arXiv:2509.25279): lengths by prompt, times of rewards by data-parallel rank, turns and tools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scalana.workload.formats.entries import EntryFile
from scalana.workload.formats.rows import Groups, Turn, row


def has_lengths(entry: dict[str, Any]) -> bool:
    """Whether an entry is of ``packed_lengths_step_*.jsonl``, or of ``reward_timings_step_*.jsonl`` beside it."""
    return {"dp_rank", "input", "output"} <= entry.keys() or {"dp_rank", "reward_time_s"} <= entry.keys()


def lengths(files: Sequence[EntryFile]) -> Iterator[dict[str, Any]]:
    """A row an answer; the time of a rank's rewards is divided over its answers."""
    entries = [entry for file in files for _, entry in file.entries if not entry.get("validate")]
    prompts = [entry for entry in entries if "output" in entry]
    limit = max((tokens for entry in prompts for tokens in entry["output"]), default=0)
    at_limit = sum(tokens == limit for entry in prompts for tokens in entry["output"])
    answers: Counter[tuple[int, int]] = Counter()
    for entry in prompts:
        answers[entry["step"], entry["dp_rank"]] += len(entry["output"])
    rewards = {(one["step"], one["dp_rank"]): float(one["reward_time_s"]) for one in entries if "reward_time_s" in one}
    groups = Groups()
    for number, entry in enumerate(prompts):
        step, replica, prompt = int(entry["step"]), int(entry["dp_rank"]), float(entry["input"])
        group = groups.number(step, number)
        seconds = rewards.get((step, replica), math.nan) / answers[step, replica]
        for tokens in entry["output"]:
            clipped = tokens == limit and at_limit > 2
            yield row(step, group, prompt, [(prompt, float(tokens), 0.0)], clipped, verifier_s=seconds, replica=replica)


def has_turns(entry: dict[str, Any]) -> bool:
    """Whether an entry is of ``multiturn_workload_step_*.jsonl``."""
    return {"turns", "tool_calls", "prompt_len"} <= entry.keys()


def turns(files: Sequence[EntryFile]) -> Iterator[dict[str, Any]]:
    """A row a trajectory."""
    groups = Groups()
    for file in files:
        for _, entry in file.entries:
            if entry.get("validate"):
                continue
            step = int(entry["step"])
            tools: Counter[int] = Counter()
            for call in entry["tool_calls"]:
                tools[int(call["turn"])] += float(call["latency_s"])  # type: ignore[assignment]
            made: list[Turn] = [
                (
                    float(max(turn["prompt_tokens"] - turn.get("cached_tokens", 0), 0)),
                    float(turn["completion_tokens"]),
                    float(tools[int(turn["turn"])]),
                )
                for turn in entry["turns"]
                if turn["completion_tokens"] > 0
            ]
            if made:
                clipped = entry["turns"][-1].get("finish_reason") == "length"
                yield row(step, groups.number(step, entry.get("prompt_group_id")), entry["prompt_len"], made, clipped)
