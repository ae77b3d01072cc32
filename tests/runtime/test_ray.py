"""What recorders of Ray do, without Ray: stand-ins for its modules."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from scalana.runtime import bookkeeping, session
from scalana.runtime.ray import callers, cluster, ids, workers
from scalana.runtime.record import layout
from scalana.runtime.remote import calls

RAY = "/usr/lib/python3/site-packages/ray"


def test_processes_of_ray_itself_are_left_alone() -> None:
    for daemon in ("dashboard/dashboard.py", "dashboard/agent.py", "_private/log_monitor.py",
                   "_private/runtime_env/agent/main.py", "autoscaler/v2/monitor.py"):  # fmt: skip
        assert bookkeeping.is_bookkeeping(["python", "-u", f"{RAY}/{daemon}", "--port=1"]), daemon
    worker = ["python", f"{RAY}/_private/workers/default_worker.py", "--worker-type=WORKER"]
    assert bookkeeping.is_task_worker(worker) and not bookkeeping.is_bookkeeping(worker)
    assert bookkeeping.is_bookkeeping([*worker[:2], "--worker-type=SPILL_WORKER"])
    assert not bookkeeping.is_bookkeeping(["python", "train.py", "--dashboard"])


def test_what_daemons_start_is_left_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(layout.RUN_VARIABLE, "/run")
    # This one becomes a worker, which is to be recorded.
    bookkeeping.leave_alone(["python", f"{RAY}/_private/workers/setup_worker.py"], layout.RUN_VARIABLE)
    assert os.environ[layout.RUN_VARIABLE] == "/run"
    bookkeeping.leave_alone(["python", f"{RAY}/dashboard/dashboard.py"], layout.RUN_VARIABLE)
    assert layout.RUN_VARIABLE not in os.environ


def test_both_sides_have_the_same_id() -> None:
    task, other = bytes(range(24)), bytes(range(1, 25))
    first, second = (task + number.to_bytes(4, "little") for number in (1, 2))
    assert ids.of_object(first) == ids.of_task(task) == ids.of_result(task, 1)
    assert ids.of_object(second) == ids.of_result(task, 2) != ids.of_task(task)
    assert ids.of_task(task) != ids.of_task(other)
    # What a driver puts into the store is the result of nothing.
    driver = b"\xff" * 20 + b"\x01\x00\x00\x00"
    put = ids.of_object(driver + (1).to_bytes(4, "little"))
    assert put != ids.of_task(driver) and 1 <= put < 1 << 63


def test_names_of_actors() -> None:
    assert workers.named("rollout_3", "Worker") == ("rollout", 3)
    assert workers.named("reward-model-0", "Worker") == ("reward-model", 0)
    assert workers.named("", "outer.Rollout") == ("Rollout", -1)
    assert workers.named("Kt3pWorkerDict_0:1", "WorkerDict") == ("WorkerDict", -1)


def test_the_environment_travels_beside_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(layout.RATE_VARIABLE, "100")
    monkeypatch.setenv(session.PARENT_VARIABLE, "1:x:0")
    ran = []
    mine = {"env_vars": {"MINE": "1"}, "worker_process_setup_hook": lambda: ran.append("mine"), "pip": ["x"]}
    sent = cluster.travelling(mine, "/run")
    assert sent["env_vars"] == {layout.RATE_VARIABLE: "100", layout.RUN_VARIABLE: "/run", "MINE": "1"} | {
        name: value for name, value in os.environ.items()
        if name.startswith("SCALANA_") and name not in (layout.RUN_VARIABLE, session.PARENT_VARIABLE)
    }  # fmt: skip
    assert sent["pip"] == ["x"] and mine["env_vars"] == {"MINE": "1"}, "the program's own object is as it was"
    function = sent["worker_process_setup_hook"]
    assert function.__module__ == "__main__", "so that it travels with its code"
    function.__defaults__ = ("/nowhere", function.__defaults__[1])  # a worker without our files
    function()
    assert ran == ["mine"]
    assert cluster.travelling(None, "/run")["env_vars"][layout.RUN_VARIABLE] == "/run"


def test_module_paths_of_an_actors_own_lead_to_the_recorder(tmp_path: Path) -> None:
    own = {"env_vars": {"PYTHONPATH": "/mine"}}
    changed = cluster.with_bootstrap(own)
    assert changed["env_vars"]["PYTHONPATH"].split(os.pathsep) == [cluster.BOOTSTRAP, "/mine"]
    assert own == {"env_vars": {"PYTHONPATH": "/mine"}}
    assert cluster.with_bootstrap(changed) is changed
    other = {"env_vars": {"A": "1"}}
    assert cluster.with_bootstrap(other) is other and cluster.with_bootstrap(None) is None
    assert (Path(cluster.BOOTSTRAP) / "sitecustomize.py").exists()


class Info(NamedTuple):
    function: Any
    function_name: str
    max_calls: int = 0


class Task:
    """An id of a task."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def binary(self) -> bytes:
        return self.data

    def is_nil(self) -> bool:
        return not self.data


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is recorded of executions, in order."""
    said: list[tuple[Any, ...]] = []
    worker = SimpleNamespace(current_task_id=Task(bytes(24)), actor_name="", actor_id=None)
    monkeypatch.setitem(workers.sys.modules, "ray._private.worker", SimpleNamespace(global_worker=worker))  # type: ignore[arg-type]  # fmt: skip
    monkeypatch.setattr(session, "core", SimpleNamespace(note=lambda text: said.append(("note", text))))
    monkeypatch.setattr(workers, "_take_part", lambda worker, name, part: said.append(("part", part or name)))
    monkeypatch.setattr(workers, "_first", [])
    for name in ("took", "reply", "flush"):
        monkeypatch.setattr(calls, name, lambda *args, name=name, **_: said.append((name, *args)))
    return said


def executed(method: Any, name: str = "generate", class_name: str = "Rollout", module: str = "program") -> Any:
    manager = SimpleNamespace(get_execution_info=lambda self, job, descriptor: Info(method, name))
    workers.patch_execution(SimpleNamespace(FunctionActorManager=manager))
    descriptor = SimpleNamespace(class_name=class_name, module_name=module)
    return manager.get_execution_info(None, None, descriptor).function


def test_an_execution_is_recorded_and_gives_what_it_gives(told: list[tuple[Any, ...]]) -> None:
    call = ids.of_task(bytes(24))
    workers._arguments[bytes(24)] = [77]
    assert executed(lambda value: (value, 2))(1) == (1, 2)
    second = ids.of_result(bytes(24), 2)
    assert told == [("part", "Rollout"), ("took", call, 77), ("reply", second), ("reply", call), ("flush",)]


def test_coroutines_and_generators_are_recorded_to_their_ends(told: list[tuple[Any, ...]]) -> None:
    async def method(value: int) -> int:
        await asyncio.sleep(0)
        return value

    async def as_ray_does() -> int:
        return await asyncio.ensure_future(called())  # type: ignore[no-any-return]

    async def called() -> Any:
        return await executed(method)(3)

    assert asyncio.run(as_ray_does()) == 3
    assert [name for name, *_ in told] == ["part", "took", "reply", "flush"]
    told.clear()

    def produce() -> Any:
        yield 1
        yield 2

    made = executed(produce)()
    first, second, end = (("reply", ids.of_result(bytes(24), number)) for number in (2, 3, 4))
    assert (next(made), told[2:]) == (1, [first, ("flush",)])
    assert list(made) == [2] and told[4:8:2] == [second, end]
    assert told[-2:] == [("reply", ids.of_task(bytes(24))), ("flush",)]


def test_what_is_sent_into_a_generator_arrives(told: list[tuple[Any, ...]]) -> None:
    """Ray Data stops where its tasks are not told how long their blocks took to store."""
    ends = []

    def produce() -> Any:
        try:
            sent = yield 1
            yield sent + 1
            yield 0
        finally:
            ends.append("closed")

    made = executed(produce)()
    assert (next(made), made.send(5)) == (1, 6)
    made.close()
    assert ends == ["closed"] and told[-2][0] == "reply"


def test_what_a_task_raises_is_its_result(told: list[tuple[Any, ...]]) -> None:
    def method() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as raised:
        executed(method)()
    assert [name for name, *_ in told] == ["part", "took", "reply", "flush"]
    assert [Path(entry.path).name for entry in raised.traceback] == [Path(__file__).name] * 2, "no line of ours"


def test_methods_of_rays_own_are_not_recorded(told: list[tuple[Any, ...]]) -> None:
    def method() -> int:
        return 1

    assert executed(method, "__ray_ready__") is method and told == []


def test_nobody_is_told_to_answer_calls_of_rays_own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that end an actor: whoever waits for them waits for no process of the program."""
    handed: list[int] = []
    monkeypatch.setattr(callers.calls, "submitted", lambda call, at, to=0: handed.append(call))
    monkeypatch.setattr(callers, "take_part", lambda: None)
    tasks = [bytes(23) + bytes([number]) for number in (1, 2)]
    first, second = (
        SimpleNamespace(task_id=lambda task=task: Task(task), binary=lambda task=task: task + b"\x01\0\0\0")
        for task in tasks
    )
    callers._called((1, 1), ("handle", "__ray_terminate__"), first, None)
    callers._called((1, 1), ("handle", "generate"), second, None)
    assert handed == callers._told_of([first, second]) == [ids.of_task(tasks[1])]


@pytest.mark.parametrize(
    ("module", "class_name", "part"),
    [
        ("ray.train.v2._internal.execution.worker_group.worker", "RayTrainWorker", "trainer"),
        ("ray.data._internal.execution.operators.task_pool_map_operator", "", "data worker"),
        (
            "ray.data._internal.execution.operators.x",
            "MapWorker(ReadRange->MapBatches(Crop))",
            "ReadRange->MapBatches(Crop)",
        ),
        ("ray.tune.trainable.function_trainable", "wrap_function.<locals>.ImplicitFunc", "trial"),
        ("ray.serve._private.replica", "ServeReplica:app:Model", "Model"),
        ("ray.util.queue", "_QueueActor", "_QueueActor"),
    ],
)
def test_who_runs_what_the_program_gives_to_a_library_has_a_part(
    told: list[tuple[Any, ...]], module: str, class_name: str, part: str
) -> None:
    assert executed(lambda: 3, "run", class_name, module)() == 3
    assert told[0] == ("part", part)


def test_a_librarys_own_actor_is_no_longer_recorded(
    told: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ends", [lambda: told.append(("stop",))])

    def method() -> int:
        return 1

    assert executed(method, "get", "TrainController", "ray.train.v2._internal.execution.controller") is method
    assert told == [("stop",)]


def test_threads_of_a_library_are_silent(told: list[tuple[Any, ...]]) -> None:
    def target() -> None:
        found.append(callers.is_silent())

    found: list[bool] = []
    for module in ("program", "ray.data._internal.block_batching.util", "ray.train.v2._internal.thread_runner"):
        target.__module__ = module
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert found == [False, True, False]


def test_where_ray_has_changed_a_note_says_what_is_missing(told: list[tuple[Any, ...]]) -> None:
    workers.patch_execution(SimpleNamespace(FunctionActorManager=SimpleNamespace(get_execution_info=None)))
    assert told == [("note", "ray: get_execution_info not found: tasks and actors are not recorded")]


def test_a_driver_notes_the_other_hosts_of_its_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that are there when it joins, and when it leaves; a cluster that does not answer disturbs neither."""
    cluster_nodes = {"a": (os.uname().nodename, 0), "b": ("node1", 0), "c": ("gone", 1)}

    def nodes(timeout: float) -> dict[str, Any]:
        if not cluster_nodes:
            raise TimeoutError("no answer")
        return {
            name: SimpleNamespace(node_manager_hostname=host, node_manager_address="10.0.0.1", state=state, ALIVE=0)
            for name, (host, state) in cluster_nodes.items()
        }

    worker = SimpleNamespace(gcs_client=SimpleNamespace(get_all_node_info=nodes), mode=0)
    ray = SimpleNamespace(
        global_worker=worker, SCRIPT_MODE=0, init=lambda address: "joined", disconnect=lambda exiting: "left",
        _maybe_modify_runtime_env=lambda environment: environment,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "ray._private.worker", ray)
    monkeypatch.setattr(session, "core", SimpleNamespace(note=lambda text: None))
    monkeypatch.setattr(session, "run_folder", os.fspath(tmp_path))
    monkeypatch.setattr(cluster, "_hosts", [])
    cluster.patch_worker(ray)
    assert ray.init("auto") == "joined" and layout.launched_hosts(tmp_path) == ["node1"]
    cluster_nodes["d"] = ("", 0)
    assert ray.disconnect(False) == "left" and layout.launched_hosts(tmp_path) == ["node1", "10.0.0.1"]
    cluster_nodes.clear()
    assert ray.disconnect(False) == "left" and layout.launched_hosts(tmp_path) == ["node1", "10.0.0.1"]
