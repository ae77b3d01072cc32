"""What is recorded of each trainer's own marks: of stand-ins with the same signatures, and that they are the same in
the packages that are installed."""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from scalana.detectors.rl.phases import Doing, doing_of
from scalana.runtime.hooks import HOOKS
from scalana.runtime.record.format import ATTRIBUTE_TEXT, SPAN_TYPE, ProcessRecord
from scalana.runtime.rl.answers import ANSWERS
from scalana.runtime.rl.methods import MANAGERS, METHODS
from scalana.runtime.rl.rllib import ITERATES, LEARNER, NAMED, RUNNERS
from scalana.runtime.rl.timers import TIMERS

from . import jobs

PROGRAM = Path(__file__).parent / "programs" / "rl_frameworks.py"


def recorded(argument: str, folder: Path) -> tuple[ProcessRecord, str]:
    done = jobs.run([jobs.sys.executable, PROGRAM, argument], folder)
    assert done.returncode == 0, done.stderr
    (record,) = (folder / "records").glob("*.rec")
    return ProcessRecord.read(record), done.stdout


def test_each_trainer_is_recorded_and_goes_on_as_it_was(tmp_path: Path) -> None:
    record, out = recorded("known", tmp_path / "run")
    assert out == jobs.run([jobs.sys.executable, PROGRAM, "known"]).stdout
    assert record.notes == []
    phases = Counter(
        record.names[name]
        for name, kind in zip(record.spans.name.tolist(), record.spans.type.tolist(), strict=True)
        if kind == SPAN_TYPE["phase"]
    )
    assert phases == {
        "generation": 1,
        "idle/buffer_starvation": 1,
        "train_wait": 1,
        "update_weights": 2,
        "compute_ref_log_prob": 1,
        "compute_log_prob": 1,
        "update_actor": 3,
        "_wait_for_next_poll": 3,
        "compute_score": 1,
        "ref_logp": 1,
        "train_step": 1,
        "compute_advantage": 2,
        "run_training": 1,
        "actor/recv_traj": 1,
        "generate_samples": 1,
        "make_experience_batch": 1,
        "compute_advantages_and_returns": 1,
        "ppo_train": 1,
        "broadcast_to_vllm": 1,
        "sample": 2,
        "evaluate": 3,
        "set_state": 2,
        "get_batch": 1,
        "update": 1,
        "_make_batch_if_necessary": 1,
        "sync_weights": 2,
        "sync_env_runner_states": 1,
    }
    assert all(doing_of(name) != Doing.OTHER for name in phases)
    assert [each["tokens"] for each in attributes(record, "phase") if "tokens" in each] == [5, 70, 70, 70, 80, 90]
    told = attributes(record)
    # AReaL, verl twice, OpenRLHF twice, slime, NeMo-RL, SkyRL twice, RLlib; and the two that failed.
    assert sorted(each.get("tokens", -1) for each in told) == [-1, -1, 15, 16, 22, 30, 40, 40, 50, 60, 70, 140]
    assert {each["id"] for each in told} >= {"r1", "r2", "3.5.1", "i.2", 8, "3.0", "3.1"}
    assert {each["unit"] for each in told if "unit" in each} == {"env step"}
    steps = [each["source"] for each in attributes(record, "step")]
    assert steps == ["trainer"] * 2
    assert {each.get("prompt_tokens") for each in told} == {None, 3, 2, 4, 5, 6, 1}
    # A poll in verl's queue waits for the prompt that is answered next.
    given, taken = ([call.seq for call in jobs.calls(record) if call.operation == name] for name in ("put", "get"))
    assert len(set(given)) == 2 and taken == [given[0], given[1], given[1]]


def attributes(record: ProcessRecord, of: str = "trajectory") -> list[dict[str, int | str]]:
    """Of every span of a kind."""
    made = []
    columns, last = record.attributes, record.spans.last.tolist()
    for row, kind in enumerate(record.spans.type.tolist()):
        if kind != SPAN_TYPE[of]:
            continue
        own = range(last[row - 1] if row else 0, last[row])
        values = [int(columns.value[at]) for at in own]
        made.append(
            {
                record.names[columns.key[at]]: record.names[value] if columns.tag[at] == ATTRIBUTE_TEXT else value
                for at, value in zip(own, values, strict=True)
            }
        )
    return made


def test_what_is_not_there_any_more_is_a_note(tmp_path: Path) -> None:
    record, _ = recorded("renamed", tmp_path / "run")
    text = " ".join(record.notes)
    known = *TIMERS, *METHODS, *MANAGERS, *RUNNERS, *NAMED, LEARNER, ITERATES
    rows = [*((row[0], row[1]) for row in known), *((row.home, row.kind) for row in ANSWERS)]
    for home, kind in rows:
        if not home.startswith(("trl", "codetiming", "skyrl.train.utils")):
            assert f"{home}.{kind}".rstrip(".") in text


def test_every_row_is_waited_for() -> None:
    functions = {
        "mark_timers": TIMERS,
        "mark_methods": METHODS,
        "mark_managers": MANAGERS,
        "mark_runners": RUNNERS,
        "name_actors": NAMED,
        "mark_learners": (LEARNER,),
        "mark_iterations": (ITERATES,),
    }
    for function, table in functions.items():
        assert {row[0] for row in HOOKS if row[2] == function} == {row[0] for row in table}
    assert {row[0] for row in HOOKS if row[2] == "mark_answers"} == {row.home for row in ANSWERS}


ARGUMENTS = {
    ("RemoteInfEngine", "agenerate"): {1: "req"},
    ("AgentLoopWorker", "_run_agent_loop"): {2: "trajectory"},
    ("AgentLoopWorker", "_agent_loop_postprocess"): {1: "output"},
    ("AgentLoopWorkerTQ", "_agent_loop_postprocess"): {1: "output"},
    ("SkyRLGymGenerator", "agent_loop"): {7: "trajectory_id"},
    ("", "generate"): {1: "sample"},
    ("", "async_generate_response_for_sample_turn"): {1: "sample_message_log"},
    ("SingleTurnAgentExecutor", "execute"): {1: "prompt"},
    ("MultiTurnAgentExecutor", "execute"): {1: "prompt"},
    ("DistributedStatsTracker", "record_timing"): {1: "key"},
    ("Worker", "worker_timer"): {1: "tag"},
}
"""Arguments that are looked at, by their places."""


def markers() -> list[tuple[str, str, str, dict[int, str]]]:
    """Module, class, method and arguments of all that is wrapped."""
    found: list[tuple[str, str, str, dict[int, str]]] = []
    for home, kind, begin, end, key, _ in TIMERS:
        found += [(home, kind, method, {} if "." in key else {1: key}) for method in (begin, end)]
    found += [(home, kind, method, {}) for home, kind, method, _ in METHODS]
    found += [(home, kind, method, ARGUMENTS[kind, method]) for home, kind, method, *_ in MANAGERS]
    found += [(*row, {}) for row in (*RUNNERS, *NAMED, LEARNER[:3], ITERATES)]
    found.append((LEARNER[0], LEARNER[1], LEARNER[3], {}))
    for row in ANSWERS:
        found += [
            (row.home, row.kind, method, ARGUMENTS[row.kind, method]) for method in (row.method, row.ended_by) if method
        ]
    return found


@pytest.mark.parametrize("package", sorted({home.partition(".")[0] for home, *_ in markers()}))
def test_markers_are_those_of_the_installed_package(package: str) -> None:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        pytest.skip(f"{package} is not installed")
    for home, kind, method, arguments in markers():
        if home.partition(".")[0] != package:
            continue
        files = [path for place in places for path in candidates(Path(place).joinpath(*home.split(".")[1:]))]
        if home == "slime.utils.timer" and not files:
            continue  # where it was before
        defined = functions(files, kind)
        assert method in defined, (home, kind)
        for at, name in arguments.items():
            assert defined[method][at] == name


def candidates(module: Path) -> list[Path]:
    """Files in which a module may define its classes: itself, or all of a package's."""
    return [path for path in (module.with_suffix(".py"), *module.glob("*.py")) if path.exists()]


def functions(files: list[Path], kind: str) -> dict[str, list[str]]:
    """Arguments of functions of the module, or of a class of it, by name."""
    found: dict[str, list[str]] = {}
    for file in files:
        body = ast.parse(file.read_text(encoding="utf-8")).body
        if kind:
            body = [node for part in body if isinstance(part, ast.ClassDef) and part.name == kind for node in part.body]
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name] = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    return found
