"""From a run folder to the program performance graph, with numbers that are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalana.graphs.structure.psg import VertexKind
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record import layout
from scalana.runtime.record.format import EVENT_ANY_SOURCE, EVENT_COMPLETION, EVENT_POST, STATE_RUNNING
from tests.graphs.runs import FILE, MS, Rank, build, by_name, make_ranks
from tests.graphs.runs import LIBRARY as LIB


def test_four_ranks_and_a_late_one(tmp_path):
    # Three steps of: mask 20 ms (rank 2: 60), step 10, allreduce that ends when rank 2 is there.
    ranks = make_ranks(tmp_path, 4)
    for step in range(3):
        for rank in ranks:
            rank.work("mask", 60 if rank.rank == 2 else 20)
            rank.work("step", 10)
        release = ranks[2].now
        for rank in ranks:
            rank.call("allreduce", release + 1, seq=step, nbytes=100)
    for rank in ranks:
        rank.end()
    ppg = build(tmp_path, command=["python", "train.py"], seconds=0.25, exit_code=0)
    timeline = ppg.timeline
    assert timeline.ranks == ppg.run.ranks == 4
    assert ppg.run.command == ["python", "train.py"] and ppg.run.seconds == 0.25 and ppg.run.exit_code == 0
    assert ppg.run.warnings == []
    assert timeline.locations.rank.tolist() == [0, 1, 2, 3] and timeline.locations.is_main.all()

    seconds = by_name(ppg, "time_s")
    assert seconds["mask"] == pytest.approx([0.06, 0.06, 0.18, 0.06], abs=0.008)
    assert seconds["step"] == pytest.approx([0.03] * 4, abs=0.008)
    assert seconds["comm 41"] == pytest.approx([0.123, 0.123, 0.003, 0.123])
    assert by_name(ppg, "comm_s")["comm 41"] == pytest.approx([0.123, 0.123, 0.003, 0.123])
    assert by_name(ppg, "calls")["comm 41"] == [3] * 4
    assert by_name(ppg, "bytes")["comm 41"] == [300] * 4
    assert ppg.metrics["time_s"].sum(axis=0) == pytest.approx([0.213] * 4, abs=1e-6)
    # Computing is all on a CPU, waiting is not. Where the record starts no clock was read: samples alone tell.
    assert ppg.metrics["cpu_s"].sum(axis=0) == pytest.approx([0.09, 0.09, 0.21, 0.09], abs=2e-3)
    later = timeline.own.burst % 3 != 0
    assert timeline.own.cpu_s[later] == pytest.approx(timeline.own.seconds[later], abs=1e-7)

    calls, instances = timeline.calls, timeline.instances
    assert len(calls) == 12 and calls.first.tolist() == [0, 3, 6, 9, 12]
    assert len(instances) == 3 and instances.complete.all()
    assert instances.members.reshape(3, 4).tolist() == [[k, 3 + k, 6 + k, 9 + k] for k in range(3)]
    assert (calls.waits == calls.posts).all() and (np.diff(calls.wait_first) == 1).all()
    assert calls.exit_s[3 * np.arange(4)] == pytest.approx([0.071] * 4)
    assert {ppg.psg.vertices[v].kind for v in calls.vertex.tolist()} == {VertexKind.COMM}
    # User lines of the work.
    lines = dict(zip(timeline.activities.line.tolist(), timeline.activities.vertex.tolist(), strict=True))
    assert set(lines) == {11, 13} and not timeline.activities.helper.any()


def test_stalls_are_told_from_work_and_sleep_is_exact(tmp_path):
    (rank,) = make_ranks(tmp_path, 1)
    rank.work("mask", 25)
    rank.sleep("load", 100)
    rank.work("step", 25)
    rank.call("barrier", rank.now + 1)
    rank.end()
    ppg = build(tmp_path)
    seconds, stalls = by_name(ppg, "time_s"), by_name(ppg, "stall_s")
    assert seconds["load"] == [pytest.approx(0.1, abs=1e-6)]
    assert stalls["load"] == [pytest.approx(0.1, abs=0.004)]
    assert by_name(ppg, "cpu_s")["mask"] == [pytest.approx(0.025, abs=0.004)]


def test_messages_posts_and_waits(tmp_path):
    a, b = make_ranks(tmp_path, 2)
    a.work("step", 30)
    a.call("send", a.now + 1, "send", peer=1, tag=7, nbytes=64)
    b.work("step", 5)
    post = b.call("recv", b.now + 0.1, "recv", peer=0, tag=7, flags=EVENT_POST, nbytes=64)
    b.work("mask", 5)
    b.call("wait", 1031, "wait", flags=EVENT_COMPLETION, completes=post)
    a.end()
    b.end()
    ppg = build(tmp_path)
    calls, instances = ppg.timeline.calls, ppg.timeline.instances
    assert [BY_NAME["send"].code, BY_NAME["recv"].code, BY_NAME["wait"].code] == calls.operation.tolist()
    assert instances.members.tolist() == [0, 1] and instances.root.tolist() == [0] and instances.complete.all()
    assert calls.posts.tolist() == [0, 0, -1]
    assert calls.wait_first.tolist() == [0, 1, 1, 2] and calls.waits.tolist() == [0, 0]
    assert calls.enter_s[2] == pytest.approx(0.0101) and calls.exit_s[2] == pytest.approx(0.031)


def test_receive_from_anybody_gets_its_sender_from_its_completion(tmp_path):
    ranks = make_ranks(tmp_path, 3)
    for sender in ranks[1:]:
        sender.work("step", 10 * sender.rank)
        sender.call("send", sender.now + 1, "send", peer=0)
    for source in (1, 2):
        post = ranks[0].call("recv", ranks[0].now + 1, "recv", flags=EVENT_POST | EVENT_ANY_SOURCE)
        ranks[0].call("wait", 1000 + 10 * source + 1, "wait", flags=EVENT_COMPLETION, completes=post)
        ranks[0].writer.done(post, round(ranks[0].now * MS), source=source)
    for rank in ranks:
        rank.end()
    instances = build(tmp_path).timeline.instances
    assert instances.complete.tolist() == [True, True] and sorted(instances.root.tolist()) == [1, 2]


def test_plain_program_without_ranks_is_rank_zero(tmp_path):
    record = Rank(tmp_path, 0, 1, meta={"rank": None, "world_size": None}, role="process")
    record.work("mask", 50)
    record.end()
    ppg = build(tmp_path)
    assert ppg.run.ranks == 1 and len(ppg.timeline.calls) == 0
    assert by_name(ppg, "time_s") == {"mask": [pytest.approx(0.05)]}
    assert ppg.timeline.own.burst.tolist() == [0]


def test_missing_rank_and_killed_rank_are_said(tmp_path):
    ranks = [Rank(tmp_path, r, 3) for r in (0, 2)]
    for rank in ranks:
        rank.writer.group(1, "world", rank.rank, range(3))
        rank.work("mask", 20)
        rank.call("allreduce", rank.now + 2)
    ranks[0].end()
    ranks[1].writer.close()
    ppg = build(tmp_path)
    assert ppg.run.ranks == 3 and ppg.run.missing_ranks == [1] and ppg.run.killed_ranks == [2]
    assert any("no record of rank 1 of 3" in w for w in ppg.run.warnings)
    assert any("rank 2 has no end" in w for w in ppg.run.warnings)
    assert ppg.timeline.instances.complete.all()  # as far as members have records
    assert ppg.metrics["time_s"][:, 1].sum() == 0
    assert ppg.timeline.locations.rank.tolist() == [0, 2]


def test_hang_leaves_open_calls_whose_time_is_communication(tmp_path):
    stuck, other = make_ranks(tmp_path, 2)
    stuck.work("mask", 20)
    begin = stuck.now
    post = stuck.call("allreduce", begin + 0.02, seq=5, flags=EVENT_POST)
    path = stuck.path("sum")
    for second in (1, 2):
        stuck.writer.open(
            post + 2, BY_NAME["wait"].code, round((begin + 0.03) * MS), round((begin + 1000 * second) * MS),
            group=1, seq=5, path=path,
        )  # fmt: skip
    stuck.writer.close()
    other.work("load", 2020)
    other.writer.close()
    ppg = build(tmp_path)
    (call,) = ppg.run.open_calls
    assert (call.rank, call.operation, call.seq) == (0, BY_NAME["allreduce"].code, 5)
    assert ppg.run.communicators[call.communicator].ranks == (0, 1)
    assert call.since_s == pytest.approx(0.02003) and call.seconds == pytest.approx(2.0, abs=1e-3)
    assert ppg.psg.vertices[call.vertex].kind is VertexKind.COMM
    assert by_name(ppg, "comm_s")["comm 41"] == pytest.approx([2.0, 0], abs=1e-3)
    assert len(ppg.timeline.instances) == 1 and not ppg.timeline.instances.complete.any()


@pytest.mark.parametrize("ended", [True, False])
def test_only_calls_after_the_last_event_of_a_killed_process_are_open(tmp_path, ended):
    (rank,) = make_ranks(tmp_path, 1)
    rank.work("mask", 10)
    begin = rank.now
    rank.call("allreduce", begin + 5)
    rank.work("mask", 10)
    rank.writer.open(3, BY_NAME["wait"].code, round((begin - 1) * MS), round(rank.now * MS), path=rank.path("sum"))
    late = round((rank.now - 1) * MS)
    rank.writer.open(5, BY_NAME["barrier"].code, late, round(rank.now * MS), path=rank.path("sum"))
    if ended:
        rank.end()
    rank.writer.close()
    assert [call.operation for call in build(tmp_path).run.open_calls] == ([] if ended else [BY_NAME["barrier"].code])


@pytest.mark.parametrize("operation", ["init", "allreduce"])
def test_who_came_back_from_the_start_of_mpi_waits_for_nobody(tmp_path, operation):
    """One rank aborts the job: the records of the others, that are killed, do not have their last second."""
    first, second = make_ranks(tmp_path, 2)
    first.call(operation, first.now + 1100, "sum", seq=0)
    second.work("mask", 1100)
    for rank in (first, second):
        rank.writer.close()
    assert len(build(tmp_path).run.open_calls) == (operation != "init")


def test_call_that_ended_is_not_open_though_its_event_was_not_kept(tmp_path):
    (rank,) = make_ranks(tmp_path, 1)
    rank.writer.open(3, BY_NAME["wait"].code, round(1001 * MS), round(1002 * MS), group=1, path=rank.path("sum"))
    rank.work("mask", 5000)
    rank.writer.close()
    assert build(tmp_path).run.open_calls == []


def test_restarted_rank_is_its_last_start_that_communicated(tmp_path):
    for generation, ms in enumerate((10, 30, 50)):
        (rank,) = (Rank(tmp_path, 0, 1, start_ms=1000 * (generation + 1), name=f"a-{9 - generation}-0.rec"),)
        rank.writer.group(1, "world", 0, [0])
        rank.work("mask", ms)
        if generation < 2:
            rank.call("barrier", rank.now + 1)
        rank.end()
    ppg = build(tmp_path)
    assert by_name(ppg, "time_s")["mask"] == [pytest.approx(0.03)]
    assert any("started 3 times" in w for w in ppg.run.warnings)


def test_loader_workers_are_children_of_their_rank(tmp_path):
    (main,) = make_ranks(tmp_path, 1)
    wait = [("/job/train.py", "<module>", 40), (f"{LIB}/queue.py", "get", 100)]
    main.work("mask", 20)
    main.work(wait, 100, 0.0, 3)
    main.call("barrier", main.now + 1)
    main.end()
    worker = Rank(tmp_path, 0, 1, role="child", meta={"parent_record": main.file.name}, name="host-200-0.rec")
    worker.work(
        [("/job/train.py", "<module>", 40), (f"{LIB}/worker.py", "loop", 5), ("/job/data.py", "decode", 77)], 120
    )
    worker.end()
    launcher = Rank(tmp_path, 0, 1, role="launcher", meta={"argv": "torchrun"}, name="host-99-0.rec")
    launcher.work("mask", 500)
    launcher.end()
    ppg = build(tmp_path)
    assert ppg.run.launchers == ["torchrun"]
    activities, own = ppg.timeline.activities, ppg.timeline.own
    helped = {
        int(activities.line[a]): s for a, s in zip(own.activity, own.seconds, strict=True) if activities.helper[a]
    }
    assert helped == {77: pytest.approx(0.1, abs=0.004)}
    assert by_name(ppg, "helper_s")["decode"] == [pytest.approx(0.12)]
    assert ppg.metrics["time_s"].sum() == pytest.approx(0.121)


def test_two_hosts_are_brought_onto_one_axis(tmp_path):
    rng = np.random.default_rng(3)
    ranks = [
        Rank(
            tmp_path, r, 4, start_ms=1000.0 if r < 2 else 500_000.0,
            meta={"boot_id": "ab"[r // 2], "host": "ab"[r // 2], "unix_ns": str(10**18 + r // 2 * 3 * MS)},
        )
        for r in range(4)
    ]  # fmt: skip
    for rank in ranks:
        rank.writer.group(1, "world", rank.rank, range(4))
    for step in range(200):
        slow = int(rng.integers(0, 4))
        work = [30.0 if r == slow else 10.0 for r in range(4)]
        for rank, ms in zip(ranks, work, strict=True):
            rank.work("mask", ms + float(rng.random()))
        release = max(rank.now - rank.start_ms for rank in ranks)
        for rank in ranks:
            rank.call("allreduce", rank.start_ms + release + 0.05 + 0.02 * float(rng.random()), seq=step)
    for rank in ranks:
        rank.end()
    ppg = build(tmp_path)
    calls = ppg.timeline.calls
    ends = calls.exit_s.reshape(4, 200)
    assert np.abs(ends - ends[0]).max() < 60e-6
    assert ppg.run.host_of_rank == ["a", "a", "b", "b"] and ppg.run.warnings == []


def test_thinned_records_keep_exact_sums(tmp_path):
    ranks = make_ranks(tmp_path, 2)
    for rank in ranks:
        for step in range(4):
            rank.work("mask", 10)
            if step in (0, 3):
                rank.call("allreduce", rank.now + 2, seq=step, flags=1 | (step > 0) << 8)
            else:
                rank.work("sum", 2, 0.0, 3)
        begin = rank.now
        inner = rank.call("allgather", begin + 1, "gather", seq=4)
        rank.writer.event(inner + 1, BY_NAME["barrier"].code, round(begin * MS), 2 * MS, path=rank.path("gather"))
        rank.work("mask", 3)
        for operation, calls, ms in (("allreduce", 4, 8), ("allgather", 1, 1), ("barrier", 1, 2)):
            path = rank.path("sum" if operation == "allreduce" else "gather")
            rank.writer.total(path, BY_NAME[operation].code, 1, calls, 100 * calls, ms * MS, 0)
        rank.end()
    ppg = build(tmp_path)
    assert ppg.run.thinned_ranks == [0, 1]
    assert by_name(ppg, "calls")["comm 41"] == [4, 4]
    assert by_name(ppg, "comm_s")["comm 41"] == pytest.approx([0.008] * 2)
    # The barrier was made of the allgather: it is not counted beside it.
    assert ppg.metrics["calls"].sum(axis=0).tolist() == ppg.run.calls_of_rank == [5, 5]
    assert ppg.run.comm_s_of_rank == pytest.approx([0.009] * 2)
    assert ppg.metrics["time_s"].sum(axis=0) == pytest.approx([0.052] * 2)


def test_calls_of_a_rank_that_wrote_no_sums_are_its_events(tmp_path):
    for rank in make_ranks(tmp_path, 2):
        for _ in range(3):
            rank.work("mask", 10)
            rank.call("barrier", rank.now + 2)
        if rank.rank:
            rank.writer.total(rank.path("sum"), BY_NAME["barrier"].code, 1, 7, 0, 20 * MS, 0)
        rank.end()
    run = build(tmp_path).run
    assert run.calls_of_rank == [3, 7] and run.comm_s_of_rank == pytest.approx([0.006, 0.02])


def test_steps_and_regions(tmp_path):
    (rank,) = make_ranks(tmp_path, 1)
    rank.work("mask", 40)
    rank.writer.span(2, "step", 1000 * MS, 20 * MS, step=3, attributes={"source": "optimizer"})
    rank.writer.span(1, "augment", 1005 * MS, 10 * MS, path=rank.path("mask"), cpu_ns=4 * MS)
    rank.end()
    ppg = build(tmp_path)
    assert ppg.timeline.steps.tolist() == [[0, 0, pytest.approx(0.02)]]
    assert ppg.timeline.step_number.tolist() == [3]
    step, region = ppg.regions
    assert (region.type, region.name, region.rank) == ("region", "augment", 0)
    assert (region.start_s, region.end_s, region.cpu_s) == pytest.approx((0.005, 0.015, 0.004))
    assert ppg.psg.function_of(region.vertex) == "mask"


def test_notes_of_recorders_are_passed_on(tmp_path):
    (rank,) = make_ranks(tmp_path, 1)
    rank.writer.note("something was not recorded")
    rank.work("mask", 10)
    rank.end()
    (tmp_path / "records" / "x-1-0.note").write_text("process 7 is not recorded: OSError\n")
    (tmp_path / "records" / "broken.rec").write_bytes(b"nonsense")
    ppg = build(tmp_path)
    assert ppg.run.notes == ["rank 0: something was not recorded", "process 7 is not recorded: OSError"]
    assert any("broken.rec" in w for w in ppg.run.warnings)


@pytest.mark.parametrize(("uses_mpi", "calls"), [(False, True), (True, True), (False, False)])
def test_a_host_that_lacks_the_recorder_for_mpi_matters_to_jobs_of_mpi(tmp_path, uses_mpi, calls):
    """Launchers that may start programs of MPI start others, too, whose calls show that. Each note is listed once."""
    ranks = make_ranks(tmp_path, 2)
    note = f"{layout.WITHOUT_MPI} host1, which has none"
    for rank in ranks:
        rank.writer.note(note)
        rank.work("mask", 20)
        if uses_mpi:
            rank.writer.meta("mpi", "MPICH Version: 5")
        if calls:
            rank.call("barrier", rank.now + 1)
        rank.end()
    (tmp_path / "records" / "host1-1-0.note").write_text(f"{note}\n")
    assert build(tmp_path).run.notes == ([] if calls and not uses_mpi else [f"ranks 0, 1: {note}"])


def test_views_for_people(tmp_path):
    ranks = make_ranks(tmp_path, 2)
    for rank in ranks:
        rank.work("mask", 20)
        rank.call("barrier", rank.now + 1)
        rank.end()
    ppg = build(tmp_path)
    frame = ppg.frame()
    assert frame.groupby("rank").time_s.sum().tolist() == pytest.approx([0.021] * 2)
    assert set(frame[frame.function == "mask"].line) == {11}
    graph = ppg.to_networkx()
    assert sum(node["time_s"][0] for _, node in graph.nodes(data=True)) == pytest.approx(0.021)
    assert ppg.inclusive("time_s")[0] == pytest.approx([0.021] * 2)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_time_of_every_rank_adds_up_to_its_record(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("run")
    ranks = make_ranks(folder, int(rng.integers(1, 4)))
    for rank in ranks:
        posts = []
        for k in range(int(rng.integers(0, 12))):
            what = str(rng.choice(["mask", "load", "step"]))
            rank.work(what, float(rng.choice([0, 0.02, 3, 20]) * rng.random()), float(rng.random()), STATE_RUNNING)
            choice = int(rng.integers(0, 3))
            until = rank.now + float(rng.random()) * 8
            if choice == 0:
                rank.call("allreduce", until, seq=k, cpu_rate=float(rng.random()))
            elif choice == 1:
                posts.append(rank.call("allreduce", rank.now + 0.01, seq=k, flags=EVENT_POST))
            elif posts:
                rank.call("wait", until, "wait", flags=EVENT_COMPLETION, completes=posts.pop(0))
        rank.work("step", 7 * float(rng.random()) + 0.1)
        if rng.random() < 0.8:
            rank.end()
        else:
            rank.writer.close()
    ppg = build(folder)
    timeline = ppg.timeline
    span = timeline.locations.end_s - timeline.locations.start_s
    assert ppg.metrics["time_s"].sum(axis=0) == pytest.approx(span, abs=1e-6)
    own = np.bincount(timeline.own.burst, weights=timeline.own.seconds, minlength=len(timeline.calls) + len(span))
    calls = timeline.calls
    for location in range(len(span)):
        rows = slice(calls.first[location], calls.first[location + 1])
        edges = np.concatenate((timeline.locations.start_s[location : location + 1], calls.exit_s[rows]))
        ends = np.concatenate((calls.enter_s[rows], timeline.locations.end_s[location : location + 1]))
        gaps = np.concatenate((own[rows], own[len(calls) + location : len(calls) + location + 1]))
        assert gaps == pytest.approx(ends - edges, abs=1e-8)
        assert (ends - edges > -1e-9).all()
    parts = ppg.metrics["cpu_s"] + ppg.metrics["stall_s"] + ppg.metrics["core_wait_s"]
    assert (parts <= ppg.metrics["time_s"] + 1e-9).all()


def test_communication_beside_what_is_recorded_is_noted(tmp_path):
    (rank,) = make_ranks(tmp_path, 1)
    api = f"{LIB}/site-packages/horovod/torch/mpi_ops.py"
    rank.work([(FILE, "<module>", 40), (api, "allreduce", 100)], 20)
    rank.end()
    (note,) = build(tmp_path).run.notes
    assert "Horovod is not recorded" in note
