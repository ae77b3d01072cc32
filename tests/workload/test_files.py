"""Workloads that are written and read again, what other tools write, and files that cannot be used."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scalana.workload.costs import Decode
from scalana.workload.errors import WorkloadError
from scalana.workload.profile import profile_of
from scalana.workload.sources import read_workload
from scalana.workload.trajectories import StepTimes
from scalana.workload.workload_file import write

from .examples import workload


def lines(path: Path, entries: Sequence[dict[str, Any]]) -> str:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["w.jsonl", "w.jsonl.gz"])
def test_a_workload_is_written_and_read_again(tmp_path: Path, name: str) -> None:
    times = StepTimes(np.array([2.5, 3.0]), {"training": np.array([[0.5, 0.25]])}, np.array([[np.nan, 12.0]]))
    decode = Decode(0.01, 0.002, whole_batches=True, factor=(1.0, 1.5))
    of = replace(workload([[5, 6], [7]], answers=2, clipped=True, replica=1), decode=decode, times=times)
    write(of, str(tmp_path / name))
    again = read_workload([str(tmp_path / name)])
    assert again.decode == decode and again.source == "an example"
    for column in ("step", "group", "prompt", "response", "verifier_s", "replica", "begin_s", "clipped"):
        np.testing.assert_array_equal(getattr(again, column), getattr(of, column))
    assert again.times is not None
    np.testing.assert_array_equal(again.times.wall_s, times.wall_s)
    np.testing.assert_array_equal(again.times.trained, times.trained)
    np.testing.assert_array_equal(again.times.phases["training"], times.phases["training"])


def test_some_steps_of_a_workload(tmp_path: Path) -> None:
    part = workload([[1, 2], [3], [4, 5]], answers=2).chosen(np.array([2, 0]))
    assert part.response.tolist() == [1, 2, 4, 5] and part.step.tolist() == [1, 1, 0, 0]
    assert part.turns.tokens.tolist() == [1, 2, 4, 5] and part.steps == 2


def test_lengths_of_polytrace(tmp_path: Path) -> None:
    for step in (0, 1):
        lines(
            tmp_path / f"packed_lengths_step_{step}.jsonl",
            [
                {"step": step, "rank": 4 * r, "tp_rank": 0, "dp_rank": r, "local_index": i, "input": 100 + i}
                | {"output": [50, 60 + i, 900, 900], "n_sampling": 4, "validate": False}
                for r in (0, 1)
                for i in (0, 1)
            ],
        )
        rows = [{"step": step, "rank": 4, "tp_rank": 0, "dp_rank": 1, "batch_size": 8, "reward_time_s": 16.0}]
        lines(tmp_path / f"reward_timings_step_{step}.jsonl", rows)
    found = read_workload([str(tmp_path)])
    assert len(found) == 32 and found.steps == 2 and found.clipped.sum() == 16
    assert set(found.verifier_s[found.replica == 1]) == {2.0} and np.isnan(found.verifier_s[found.replica == 0]).all()
    assert len(np.unique(found.prompts())) == 8 and set(found.prompt) == {100.0, 101.0}


def test_turns_of_polytrace(tmp_path: Path) -> None:
    turns = [
        {"turn": 0, "prompt_tokens": 300, "cached_tokens": 0, "completion_tokens": 40, "finish_reason": "tool_calls"},
        {"turn": 1, "prompt_tokens": 900, "cached_tokens": 340, "completion_tokens": 130, "finish_reason": "length"},
    ]
    calls = [
        {"turn": 0, "tool_name": "search", "latency_s": 0.25},
        {"turn": 0, "tool_name": "search", "latency_s": 0.5},
    ]
    entry = {"step": 3, "prompt_len": 300, "turns": turns, "tool_calls": calls, "prompt_group_id": 7}
    more = [entry, entry | {"turns": turns[:1], "tool_calls": []}, entry | {"validate": True}]
    found = read_workload([lines(tmp_path / "multiturn_workload_step_3.jsonl", more)])
    assert found.turns.read.tolist() == [300, 560, 300] and found.turns.tokens.tolist() == [40, 130, 40]
    assert found.turns.tool_s.tolist() == [0.75, 0.0, 0.0]
    assert found.response.tolist() == [170, 40] and found.clipped.tolist() == [True, False]
    assert found.group.tolist() == [0, 0] and profile_of(found).turns == (0.5, 0.5)


def test_sessions_of_areal(tmp_path: Path) -> None:
    phases = {
        "generate": [{"start_ts": 100.0, "end_ts": 102.0}, {"start_ts": 103.5, "end_ts": 104.0}],
        "toolcall": [{"start_ts": 102.0, "end_ts": 103.5}],
        "reward": [{"start_ts": 104.0, "end_ts": 104.25}],
    }
    one = {"task_id": 23, "session_id": 93, "rank": 0, "status": "accepted", "submit_ts": 99.5, "finalized_ts": 104.25}
    one |= {"total_s": 4.75, "generate_s": 2.5, "reward_s": 0.25, "toolcall_s": 1.5, "phases": phases}
    other = {"task_id": 23, "session_id": 94, "rank": 0, "status": "accepted", "submit_ts": 100.5, "generate_s": 1.25}
    found = read_workload([lines(tmp_path / "sessions-r0.jsonl", [one, other])])
    assert found.unit == "ms" and found.decode == Decode(1e-3)
    assert found.turns.tokens.tolist() == [2000, 500, 1250] and found.turns.tool_s.tolist() == [1.5, 0.0, 0.0]
    assert found.begin_s.tolist() == [0.0, 1.0] and found.end_s[0] == 4.75 and found.verifier_s[0] == 0.25
    assert found.group.tolist() == [0, 0]


def test_rollouts_of_slime(tmp_path: Path) -> None:
    sample = {"group_index": 4, "index": 9, "tokens": list(range(30)), "response_length": 20, "status": "completed"}
    samples = [
        sample | {"non_generation_time": 1.5},
        sample | {"status": "truncated", "response_length": 25},
        sample | {"status": "aborted"},
    ]
    path = tmp_path / "data_7.json"
    path.write_text(json.dumps({"rollout_id": 7, "samples": samples}))
    found = read_workload([str(path)])
    assert found.response.tolist() == [20, 25] and found.prompt.tolist() == [10, 5]
    assert found.clipped.tolist() == [False, True] and found.turns.tool_s.tolist() == [1.5, 0.0]
    assert found.group.tolist() == [0, 0]


@pytest.mark.slow
def test_rollouts_of_slime_as_it_saves_them(tmp_path: Path) -> None:
    """As ``torch.save`` writes them, with tensors and arrays next to the lengths; what could run code is refused."""
    torch = pytest.importorskip("torch")
    sample = {"group_index": 4, "index": 9, "tokens": list(range(30)), "response_length": 20, "status": "completed"}
    more = {"rollout_routed_experts": np.zeros((3, 2), np.int32), "train_metadata": None}
    samples = [sample | more, sample | {"tokens": torch.arange(25), "status": "truncated", "reward": 0.5}]
    path = tmp_path / "rollout_data_7.pt"
    torch.save({"rollout_id": 7, "samples": samples}, path)
    found = read_workload([str(path)])
    assert found.response.tolist() == [20, 20] and found.prompt.tolist() == [10, 5]
    assert found.clipped.tolist() == [False, True]
    torch.save({"rollout_id": 7, "samples": [sample | {"metadata": Path("x")}]}, path)
    with pytest.raises(WorkloadError, match="torch cannot load it as plain data"):
        read_workload([str(path)])


def test_rollouts_of_xtuner(tmp_path: Path) -> None:
    summary = {"reward_mean": 0.5, "response_len_mean": 15.0, "total_len": 2}
    row = {"rollout_id": 1, "group_id": "a", "prompt_len": 12, "response_len": 10, "finish_reason": "stop"}
    for step in (2, 10):
        rows = [summary, row, row | {"response_len": 20, "finish_reason": "length"}]
        lines(tmp_path / f"train_rollout_{step}.jsonl", rows)
    found = read_workload([str(tmp_path)])
    assert found.step.tolist() == [0, 0, 1, 1] and found.response.tolist() == [10, 20, 10, 20]
    assert found.clipped.tolist() == [False, True, False, True] and set(found.prompt) == {12.0}


HEAD = {"kind": "workload", "format": "scalana-rl-workload", "version": 1}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty file"),
        ("one\ntwo\n", "neither JSON lines nor a JSON document"),
        (json.dumps({"a": 1}), "not a known format"),
        (json.dumps(HEAD), "has no trajectory"),
        (json.dumps(HEAD | {"version": 9}), "line 1: version 9 of the format"),
        (json.dumps(HEAD) + '\n{"kind": "trajectory", "step": 0}', "line 2: 'response' is missing"),
        (json.dumps(HEAD) + '\n{"kind": "trajectory", "step": 0, "response": -4}', "line 2: step 0 and response -4"),
        (json.dumps(HEAD) + '\n{"kind": "trajectory", "step": "x", "response": 4}', "line 2: invalid literal"),
        (json.dumps(HEAD) + '\n{"kind": "other"}', "line 2: kind is 'other'"),
        (json.dumps(HEAD) + '\n{"kind": "trajec', r"line 2 is not JSON \(the file may be cut off\)"),
        (
            json.dumps(HEAD) + '\n{"kind": "trajectory", "step": 0, "response": 4, "turns": [[1, 4]]}',
            "line 2: a turn is",
        ),
        (json.dumps({"dp_rank": 0, "input": 3, "output": [4]}), "not as PolyTrace's lengths are: 'step' is missing"),
        (json.dumps({"response_len_mean": 3.0, "total_len": 0}), "without a trajectory of known length"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(WorkloadError, match=f"{re.escape(str(path))}: .*{says}|{re.escape(str(path))}: {says}"):
        read_workload([str(path)])


def test_paths_that_lead_nowhere_say_so(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no such file or folder"):
        read_workload([str(tmp_path / "none")])
    with pytest.raises(WorkloadError, match="contains neither a run of scalana nor files of a workload"):
        read_workload([str(tmp_path)])
    (tmp_path / "half.jsonl.gz").write_bytes(gzip.compress(b"{}")[:9])
    with pytest.raises(WorkloadError, match="not a text file of JSON"):
        read_workload([str(tmp_path / "half.jsonl.gz")])
    lines(tmp_path / "one.jsonl", [{"response_len": 4}])
    lines(tmp_path / "two.jsonl", [{"response_length": 4, "group_index": 1}])
    with pytest.raises(WorkloadError, match="different formats"):
        read_workload([str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")])
