"""Communication of real torch jobs: every call recorded once, and the job none the wiser."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from scalana.graphs.readers.processes.rank_selection import choose_records
from scalana.runtime.operations import BY_TORCH_OP
from scalana.runtime.torch import build as torch_build
from tests.long import also
from tests.needs import torch_or_skip

from . import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

OURS = Path(torch_build.__file__).resolve().parent
"""Where the recorder lies, and no frame of a job."""


def as_expected(record: jobs.ProcessRecord) -> list[list[object]]:
    """What ``every_call.py`` writes down, from the record."""
    made = jobs.calls(record)
    waits = Counter(call.completes for call in made if call.completes)
    received = jobs.sources(record)
    rows: list[list[object]] = []
    for call in made:
        if not call.completes:
            peer = "any" if call.id in received else call.peer
            rows.append([call.operation, call.members, call.nbytes, peer, call.tag, call.flags, waits[call.id]])
    return rows


def _environment(how: str, request: pytest.FixtureRequest) -> dict[str, str]:
    environment: dict[str, str] = request.getfixturevalue("kernels") if how == "c++" else {}
    return environment


BOTH_WAYS = ["python", "c++"]


@pytest.fixture(scope="module", params=BOTH_WAYS)
def every_call(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("every_call")
    environment = _environment(request.param, request)
    done = jobs.forked(4, "every_call.py", folder, record=folder / "run", extra=environment)
    assert done.returncode == 0, done.stderr
    for record in jobs.ranks(folder / "run"):
        assert ("torch_kernels" in record.meta) == (request.param == "c++")
    assert sorted(done.stdout.splitlines()) == [f"end of rank {rank}" for rank in range(4)]
    return folder


def test_every_call_is_recorded_with_its_group_bytes_peer_and_wait(every_call: Path) -> None:
    records = jobs.ranks(every_call / "run")
    assert [record.rank for record in records] == [0, 1, 2, 3]
    for record in records:
        truth = json.loads((every_call / f"{record.rank}.json").read_text())
        seen = as_expected(record)
        # A mesh makes groups as it likes, and objects travel as torch likes: those calls are skipped.
        mesh, objects = truth.index("mesh"), truth.index("objects")
        after_mesh = truth[mesh + 1 : objects]
        assert seen[:mesh] == truth[:mesh]
        skipped = next(n for n, row in enumerate(seen) if n >= mesh and row[0] != "new_group")
        assert seen[skipped : skipped + len(after_mesh)] == after_mesh
        assert {row[0] for row in seen[mesh:skipped]} <= {"new_group"}
        for_objects = [row[0] for row in seen[skipped + len(after_mesh) : -1]]
        assert {"allgather", "broadcast", "gather"} == set(for_objects)
        assert seen[-1:] == truth[objects + 1 :]


def test_matching_calls_have_equal_numbers_on_all_members(every_call: Path) -> None:
    records = jobs.ranks(every_call / "run")
    members: dict[tuple[str, tuple[int, ...], int], list[tuple[int, str]]] = {}
    sent: Counter[tuple[object, ...]] = Counter()
    received: Counter[tuple[object, ...]] = Counter()
    for record in records:
        for call in jobs.calls(record):
            if call.completes:
                continue
            if call.operation == "send":
                sent[(call.group, record.rank, call.peer, call.tag, call.seq)] += 1
            elif call.operation == "recv":
                if call.id not in jobs.sources(record):
                    received[(call.group, call.peer, record.rank, call.tag, call.seq)] += 1
            else:
                key = (call.group, tuple(call.members), call.seq)
                members.setdefault(key, []).append((record.rank, call.operation))
    for (_, ranks, _), rows in members.items():
        assert tuple(rank for rank, _ in rows) == ranks
        assert len({operation for _, operation in rows}) == 1
    assert all(number == 1 for number in sent.values())
    to_anybody = {key for key in sent if key[3] == 3}
    assert set(sent) - to_anybody == set(received) and len(to_anybody) == 3


def test_receives_from_anybody_learn_the_source(every_call: Path) -> None:
    first = jobs.ranks(every_call / "run")[0]
    assert sorted(jobs.sources(first).values()) == [1, 2, 3]


def test_calls_are_found_at_the_users_line(every_call: Path) -> None:
    source = (jobs.PROGRAMS / "every_call.py").read_text().splitlines()
    for record in jobs.ranks(every_call / "run"):
        for call in jobs.calls(record):
            frames = record.frames(call.path)
            assert not any(frame.code.filename.startswith(str(jobs.RUNTIME)) for frame in frames)
            users = [frame.line for frame in frames if frame.code.filename.endswith("every_call.py")]
            assert users, call
            line = source[users[-1] - 1]
            if call.operation == "alltoall":
                assert "all_to_all" in line
            elif call.operation == "barrier":
                assert "barrier" in line


def blocked_s(record: jobs.ProcessRecord, skip_steps: int) -> list[float]:
    """Seconds blocked in each step but the first ones, by the optimizer's marks."""
    steps = record.spans
    spans = [(a, a + d) for kind, a, d in zip(steps.type, steps.start_ns, steps.duration_ns, strict=True) if kind == 2]
    made = [call for call in jobs.calls(record) if call.completes or call.flags & 1]
    return [sum(call.seconds for call in made if a <= call.enter_ns < b) for a, b in spans[skip_steps:]]


SLEEP_S, STEPS = 0.2, 5


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``planted(kind)`` records ``planted_ddp.py``, once: a folder with the ``run`` and its ``output``."""

    @cache
    def record(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(f"planted_{kind}")
        done = jobs.forked(4, "planted_ddp.py", str(STEPS), str(SLEEP_S), kind, record=folder / "run")
        assert done.returncode == 0, done.stderr
        (folder / "output").write_text(done.stdout)
        return folder

    return record


@pytest.mark.measured
@pytest.mark.parametrize("kind", ["reducer", "hook", "fsdp"])
def test_a_sleep_in_backward_is_waited_for_by_the_others_alone(planted: Callable[[str], Path], kind: str) -> None:
    records = jobs.ranks(planted(kind) / "run")
    blocked = {record.rank: sorted(blocked_s(record, 1)) for record in records}
    median = {rank: values[len(values) // 2] for rank, values in blocked.items()}
    for rank in (0, 1, 3):
        # Against the sleeper, so that what the machine adds to everybody cancels out.
        assert median[rank] - median[2] == pytest.approx(SLEEP_S, rel=0.4), median
    for record in records:
        made = [call for call in jobs.calls(record) if call.completes or call.flags & 3]
        made.sort(key=lambda call: call.enter_ns)
        for before, after in zip(made, made[1:], strict=False):
            assert before.exit_ns <= after.enter_ns or after.exit_ns <= before.exit_ns, (before, after)


def test_what_is_trained_is_the_same_to_the_last_digit(planted: Callable[[str], Path]) -> None:
    plain = jobs.forked(4, "planted_ddp.py", str(STEPS), "0", "reducer")
    assert plain.returncode == 0, plain.stderr
    assert sorted((planted("reducer") / "output").read_text().split()) == sorted(plain.stdout.split())


def test_buckets_of_the_reducer_are_marked_as_posted_by_cpp(planted: Callable[[str], Path]) -> None:
    for record in jobs.ranks(planted("reducer") / "run"):
        made = [call for call in jobs.calls(record) if not call.completes]
        assert {call.flags for call in made if call.operation == "allreduce"} == {2 | 8}
        waits = [call for call in jobs.calls(record) if call.completes]
        assert waits and all(call.flags == 4 | 8 for call in waits)


@pytest.fixture(scope="module")
def failing_calls() -> str:
    """What ``failing_calls.py`` prints when nothing records it."""
    plain = jobs.forked(2, "failing_calls.py")
    assert plain.returncode == 0, plain.stderr
    return plain.stdout


@pytest.mark.parametrize("how", BOTH_WAYS)
def test_exceptions_of_communication_reach_the_program_unchanged(
    tmp_path: Path, how: str, failing_calls: str, request: pytest.FixtureRequest
) -> None:
    recorded = jobs.forked(2, "failing_calls.py", record=tmp_path, extra=_environment(how, request))
    assert recorded.returncode == 0, recorded.stderr
    assert sorted(recorded.stdout.splitlines()) == sorted(failing_calls.splitlines())
    assert "ValueError" in failing_calls and "RuntimeError" in failing_calls
    assert len(jobs.ranks(tmp_path)) == 2


def test_compiled_and_threaded_programs_give_the_same_with_and_without(tmp_path: Path) -> None:
    plain = jobs.forked(2, "compiled.py", "aot_eager")
    recorded = jobs.forked(2, "compiled.py", "aot_eager", record=tmp_path)
    assert plain.returncode == recorded.returncode == 0, recorded.stderr
    assert sorted(recorded.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    for record in jobs.ranks(tmp_path):
        made = jobs.calls(record)
        # Three calls of a compiled function with two all-reduces each, and their waits.
        functional = {call.id for call in made if call.operation == "allreduce" and call.flags == 2}
        assert len(functional) >= 6
        assert functional == {call.completes for call in made if call.completes and call.flags == 4}


def test_groups_written_in_python_work_on(tmp_path: Path) -> None:
    done = jobs.with_torch(jobs.PROGRAMS / "python_backend.py", record=tmp_path)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    assert [record.rank for record in jobs.ranks(tmp_path)] == [0]


def test_a_failing_rank_ends_the_job_as_ever(tmp_path: Path) -> None:
    recorded = jobs.torchrun(2, "failing_rank.py", record=tmp_path)
    assert recorded.returncode == 1, "as torchrun ends when a rank has failed"
    assert "planted failure" in recorded.stderr
    assert {record.role for record in jobs.records(tmp_path)} == {"launcher", "rank"}


WITHOUT_PYTHON = """
import torch, torch.distributed as dist, torch.distributed._functional_collectives as functional
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
from scalana.runtime.torch import state as torch_state
class Watched:
    def __init__(self, core): self.core = core; self.entered = 0
    def __getattr__(self, name):
        self.entered += name in ("torch_enter", "torch_wait_for_storage")
        return getattr(self.core, name)
tensor = torch.ones(4)
dist.all_reduce(tensor)  # makes the group known
watched = torch_state.recording.core = Watched(torch_state.recording.core)
for _ in range(3):
    dist.all_reduce(tensor)
    dist.send(tensor, 1, tag=7)
    dist.barrier()
print(watched.entered)
dist.all_reduce(tensor, async_op=True).wait()
work = dist.all_reduce(tensor, async_op=True)
future = work.get_future()
future.wait()
future.wait()
work.wait()
functional.all_reduce(tensor, "sum", dist.group.WORLD).wait()
print(watched.entered)
with torch.inference_mode():
    dist.all_reduce(torch.ones(4))
print(watched.entered)
"""


def test_kernels_record_calls_without_python(tmp_path: Path, kernels: dict[str, str]) -> None:
    done = jobs.with_torch("-c", WITHOUT_PYTHON, record=tmp_path, extra=kernels)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "0", "1"]
    (record,) = jobs.records(tmp_path)
    made = [call for call in jobs.calls(record) if call.operation != "init_process_group"]
    looped = [("allreduce", 16, 1), ("send", 16, 1), ("barrier", 0, 1)] * 3
    expected = [("allreduce", 16, 1), *looped, *[("allreduce", 16, 2), ("wait", 16, 4)] * 3, ("allreduce", 16, 1)]
    assert [(call.operation, call.nbytes, call.flags) for call in made] == expected
    collectives = [call.seq for call in made if call.operation in ("allreduce", "barrier")]
    assert collectives == list(range(len(collectives)))
    assert [(call.seq, call.peer, call.tag) for call in made if call.operation == "send"] == [
        (number, 1, 7) for number in range(3)
    ]
    for call in made:
        assert record.frames(call.path)[0].code.name == "<module>"
        assert OURS not in Path(record.frames(call.path)[-1].code.filename).parents


@pytest.mark.parametrize("how", BOTH_WAYS)
def test_groups_made_anew_are_other_groups(tmp_path: Path, how: str, request: pytest.FixtureRequest) -> None:
    environment = _environment(how, request)
    assert jobs.forked(3, "groups_anew.py", tmp_path, record=tmp_path / "run", extra=environment).returncode == 0
    rows: dict[tuple[str, int], set[tuple[int, ...]]] = {}
    for record in jobs.ranks(tmp_path / "run"):
        for call in jobs.calls(record):
            if call.operation == "allreduce":
                rows.setdefault((call.group, call.seq), set()).add(tuple(call.members))
    assert all(len(members) == 1 for members in rows.values()), rows
    assert len(rows) == 4


@pytest.mark.long
def test_spawned_ranks_learn_their_rank_from_torch(tmp_path: Path) -> None:
    done = jobs.run([jobs.sys.executable, jobs.PROGRAMS / "spawned_ranks.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    found = jobs.records(tmp_path)
    assert [(record.role, record.rank) for record in found] == [("rank", 0), ("rank", 1), ("member", -1)]
    chosen = choose_records(found)  # the last one but starts the others
    assert [rank.record.rank for rank in chosen.ranks] == [0, 1] and len(chosen.launchers) == 1
    assert not chosen.warnings
    assert all(record.meta["rank_source"] == "init_process_group" for record in found[:2])


@pytest.mark.parametrize("arguments", [("fork",), *also(("spawn",)), ("forkserver",), ("fork", "persistent")])
def test_loader_workers_are_children_of_their_rank(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    extra = {"RANK": "0", "WORLD_SIZE": "1"}
    done = jobs.with_torch(jobs.PROGRAMS / "loaders.py", *arguments, record=tmp_path, extra=extra)
    assert done.returncode == 0 and done.stderr == ""
    workers = json.loads(done.stdout)
    found = {record.number("pid"): record for record in jobs.records(tmp_path)}
    (rank,) = [record for record in found.values() if record.role == "rank"]
    assert len(workers) == (1 if "persistent" in arguments else 2)
    for worker in workers:
        assert found[worker].role == "child" and found[worker].rank == -1
        assert found[worker].meta["parent_record"] == rank.file.name
        assert found[worker].ended or "persistent" in arguments


@pytest.mark.parametrize("how", BOTH_WAYS)
def test_every_layer_is_recorded_as_the_profiler_sees_it(
    tmp_path: Path, how: str, request: pytest.FixtureRequest
) -> None:
    extra = _environment(how, request)
    done = jobs.with_torch(jobs.PROGRAMS / "every_layer.py", record=tmp_path, extra=extra)
    assert done.returncode == 0, done.stderr
    (record,) = jobs.records(tmp_path)
    made = jobs.calls(record)
    complete = set(record.done.event)
    layers = json.loads(done.stdout)
    assert len(layers) > 60
    for name, begin, end, operators, waits in layers:
        calls = [call for call in made if begin <= call.enter_ns <= end and "group" not in call.operation]
        seen = [call.operation for call in calls if not call.completes]
        assert seen == [BY_TORCH_OP[operator].name for operator in operators], name
        posts = {call.id for call in calls if call.flags & 2}
        waited_for = [call.completes for call in calls if call.completes]
        assert set(waited_for) <= posts <= complete, name
        assert waits is None or len(waited_for) == waits, name
