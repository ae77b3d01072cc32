"""The compiled recorder: what is written, and that it never disturbs the program."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from scalana.runtime import _core
from scalana.runtime.record.format import ProcessRecord
from scalana.runtime.record.writer import collective_key, message_key

from . import recording
from .recording import line_of, recorded, run


def calls_by_operation(record: ProcessRecord) -> dict[int, int]:
    """One line may be several paths: the interpreter replaces instructions by faster ones beside them."""
    calls: Counter[int] = Counter()
    for operation, count in zip(record.totals.operation, record.totals.calls, strict=True):
        calls[operation] += count
    return dict(calls)


# ---- calls ----


def test_a_call_has_its_place_its_clocks_and_its_arguments(tmp_path: Path) -> None:
    record = recorded(
        """
        def work(event):
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
            time.sleep(0.05)
            _core.end(event)

        def outer():
            work(_core.begin(2, world, 7, -1, 0, 4096, 1))  # the call

        _core.start(RECORD, 100, 1 << 20)
        world = _core.group("world", 1, [0, 1, 2])
        before, cpu_before = _core.now(), _core.thread_cpu()
        outer()
        after, cpu_after = _core.now(), _core.thread_cpu()
        _core.meta("window", f"{before} {after} {cpu_before} {cpu_after}")
        _core.stop(3)
        """,
        tmp_path,
    )
    before, after, cpu_before, cpu_after = map(int, record.meta["window"].split())
    events = record.events
    assert len(events) == 1
    assert (events.operation[0], events.group[0], events.seq[0], events.peer[0]) == (2, 1, 7, -1)
    assert (events.nbytes[0], events.flags[0], events.completes[0]) == (4096, 1, 0)
    assert before <= events.enter_ns[0] <= events.enter_ns[0] + events.duration_ns[0] <= after
    assert events.duration_ns[0] >= 70e6
    assert cpu_before <= events.cpu_enter_ns[0]
    assert 15e6 <= events.cpu_ns[0] <= cpu_after - cpu_before
    frames = record.frames(events.path[0])
    assert [frame.code.name for frame in frames] == ["<module>", "outer"]
    assert frames[-1].line == line_of(tmp_path, "# the call")
    assert Path(frames[-1].code.filename) == tmp_path / "program.py"
    assert record.ended and record.status == 3
    assert record.groups[1].name == "world" and list(record.groups[1].ranks) == [0, 1, 2]
    assert int(record.meta["start_ns"]) <= before and "unix_ns" in record.meta


def test_posts_waits_and_completions(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 0, 1 << 20)
        world = _core.group("world", 0, [0, 1])
        assert world == _core.group("world", 0, [0, 1])
        other = _core.group("other", 0, [0, 1])
        assert other != world
        post = _core.begin(11, world, 0, -1, 5, 8, 2 | 16)
        _core.end(post)
        thread = threading.Thread(target=_core.done, args=(post, 1))
        thread.start(); thread.join()
        wait = _core.begin(12, world, 0, -1, 0, 0, 4, post)
        _core.end(wait, 1)
        _core.end(0); _core.done(0); _core.end(12345678); _core.done(12345678)
        _core.stop()
        """,
        tmp_path,
    )
    events, done = record.events, record.done
    assert events.flags.tolist() == [2 | 16, 4]
    assert events.completes[1] == events.id[0] == done.event[0]
    assert done.source[0] == 1 and events.peer.tolist() == [-1, 1]
    assert done.time_ns[0] >= events.enter_ns[0] + events.duration_ns[0]
    # The CPU clock at completion is that of the thread that posted it.
    assert events.cpu_enter_ns[0] <= done.cpu_ns[0] <= events.cpu_enter_ns[1]
    assert record.status == -1


def test_totals_are_exact_and_cumulative(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 0, 1 << 20)
        world = _core.group("world", 0, [0, 1])
        for i in range(1000):
            _core.end(_core.begin(2, world, i, -1, 0, 10, 1))
        _core.flush()
        for i in range(500):
            _core.end(_core.begin(1, world, i, -1, 0, 0, 1))
        _core.stop()
        """,
        tmp_path,
    )
    totals, events = record.totals, record.events
    assert calls_by_operation(record) == {1: 500, 2: 1000}
    for row in range(len(totals)):
        key = (totals.path[row], totals.operation[row])
        rows = [i for i in range(len(events)) if (events.path[i], events.operation[i]) == key]
        assert totals.calls[row] == len(rows)
        assert totals.nbytes[row] == (10 * len(rows) if key[1] == 2 else 0)
        assert totals.wall_ns[row] == sum(events.duration_ns[i] for i in rows)
        assert totals.cpu_ns[row] == sum(events.cpu_ns[i] for i in rows)


def test_frames_of_the_runtime_are_skipped_at_the_inner_end_only(tmp_path: Path) -> None:
    record = recorded(
        """
        runtime = os.path.dirname(_core.__file__)
        inside = {}
        exec(compile("def kernel(*a): e = _core.begin(*a); _core.end(e)\\ndef through(f): f()",
                     os.path.join(runtime, "kernel.py"), "exec"), {"_core": _core}, inside)
        def user():
            inside["kernel"](2, 0, 0, -1, 0, 0, 1)
        def called_back():
            _core.end(_core.begin(2, 0, 0, -1, 0, 0, 1))
        _core.start(RECORD, 0, 1 << 20)
        user()
        inside["through"](called_back)
        _core.stop()
        """,
        tmp_path,
    )
    paths = [[frame.code.name for frame in record.frames(path)] for path in record.events.path]
    assert paths == [["<module>", "user"], ["<module>", "through", "called_back"]]


def test_deep_stacks_keep_both_ends(tmp_path: Path) -> None:
    record = recorded(
        """
        sys.setrecursionlimit(3000)
        def down(n):
            if n:
                down(n - 1)
            else:
                bottom()
        def bottom():
            _core.end(_core.begin(2, 0, 0, -1, 0, 0, 1))
        _core.start(RECORD, 0, 1 << 20)
        down(300)
        down(2000)
        _core.stop()
        """,
        tmp_path,
    )
    whole, cut = (record.frames(path) for path in record.events.path)
    assert len(whole) == 303
    names = [frame.code.name for frame in cut]
    assert names[0] == "<module>" and names[-1] == "bottom"
    assert names.count("[frames left out]") == 1
    assert len(names) == 513


def test_code_of_generators_and_strange_names(tmp_path: Path) -> None:
    record = recorded(
        """
        def generator():
            yield _core.end(_core.begin(2, 0, 0, -1, 0, 0, 1))
        class Größe:
            def método(self):
                return next(generator())
        exec(compile("def 漢字(f):\\n\\n  f()", "dir/\\udcff\\U0001F600.py", "exec"), globals())
        _core.start(RECORD, 0, 1 << 20)
        漢字(Größe().método)
        _core.stop()
        """,
        tmp_path,
    )
    frames = record.frames(record.events.path[0])
    method = "Größe.método" if sys.version_info >= (3, 11) else "método"
    assert [frame.code.name for frame in frames] == ["<module>", "漢字", method, "generator"]
    assert frames[1].code.filename == "dir/\udcff\U0001f600.py" and frames[1].line == 3


# ---- thinning ----

THINNED = """
_core.start(RECORD, 0, {budget}, flush_s=100)
world = _core.group("world", 0, [3, 8])
name = _core.intern("i")
for i in range(6000):
    _core.end(_core.begin(2, world, i, -1, 0, 10, 1))
    post = _core.begin(10, world, i, 8, 5, 10, 2)
    _core.end(post)
    _core.done(post)
    _core.end(_core.begin(12, world, 0, -1, 0, 0, 4, post))
    _core.span(1, 0, name, 0, 1, 0)
_core.stop()
"""


def test_thinning_is_consistent_and_totals_stay_exact(tmp_path: Path) -> None:
    kept: list[set[tuple[int, int]]] = []
    for budget in (1 << 24, 400_000, 200_000):
        folder = tmp_path / str(budget)
        folder.mkdir()
        record = recorded(THINNED.format(budget=budget), folder)
        assert (folder / "program.rec").stat().st_size < budget
        events = record.events
        assert calls_by_operation(record) == {2: 6000, 10: 6000, 12: 6000}
        levels = [flags >> 8 for flags in events.flags]
        for row in range(len(events)):
            seq, level = events.seq[row], levels[row]
            if events.operation[row] == 2:
                assert collective_key("world", seq) % 2**level == 0
            elif events.operation[row] == 10:
                assert message_key(3, 8, 5, seq) % 2**level == 0
        # What is missing was to be left out at the level of its time, which stands in its neighbours.
        seqs = [(events.seq[row], levels[row]) for row in range(len(events)) if events.operation[row] == 2]
        seen = {seq for seq, _ in seqs}
        for (first, low), (second, _) in zip(seqs, seqs[1:]):  # noqa: B905  pairs
            for seq in range(first + 1, second):
                assert collective_key("world", seq) % 2 ** (low + 1) != 0 or seq in seen
        posts = {events.id[row] for row in range(len(events)) if events.operation[row] == 10}
        waits = [events.completes[row] for row in range(len(events)) if events.operation[row] == 12]
        assert len(waits) == len(posts) and set(waits) == posts == set(record.done.event)
        assert (max(levels) == 0) == (budget == 1 << 24)
        assert (len(record.spans) == 6000) == (budget == 1 << 24)
        assert sum(record.span_totals.spans) == (0 if budget == 1 << 24 else 6000)
        assert any("spans" in note for note in record.notes) == (budget != 1 << 24)
        kept.append({(op, seq) for op, seq in zip(events.operation, events.seq, strict=True) if op != 12})
    assert kept[0] > kept[1] > kept[2]


def test_generated_code_without_end_stays_within_the_budget(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 17)
        for i in range(5000):
            scope = {"_core": _core}
            exec(f"def call_{i}():\\n  _core.end(_core.begin(2, 0, {i}, -1, 0, 1, 1))", scope)
            scope[f"call_{i}"]()
        _core.stop(0)
        """,
        tmp_path,
    )
    assert (tmp_path / "program.rec").stat().st_size < (1 << 17) * 1.25
    assert calls_by_operation(record) == {2: 5000}
    assert any("call paths" in note for note in record.notes)
    frames = [record.frames(path) for path in set(record.events.path)]
    assert all(frame[0].code.name == "<module>" for frame in frames)


# ---- never in the way ----


def test_arguments_out_of_range_do_no_harm(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 0, 1 << 20)
        _core.end(_core.begin(2, 1 << 80, -5, 1 << 80, -(1 << 80), -1, 1 << 70))
        _core.end(-1); _core.done(-1); _core.span(1, 9, 1 << 70, -5, -10, -7, -1, (1, 1 << 90, 2, b"", "x", 3))
        for bad in (lambda: _core.begin(), lambda: _core.begin(*"abcdefg"), lambda: _core.note(3),
                    lambda: _core.span(1, 2), lambda: _core.intern(1), lambda: _core.lane("x", 1),
                    lambda: _core.group("x", 0, 5),
                    lambda: _core.sample_path([1]), lambda: _core.add_sample(1),
                    lambda: _core.start(RECORD, -1, 1), lambda: _core.start(RECORD, 1, 0)):
            try:
                bad()
            except (TypeError, ValueError):
                continue
            raise SystemExit("no error")
        _core.add_sample(1 << 40, 0, 0); _core.add_sample(-1, 0, 0); _core.add_sample(1, 1 << 40, 9)
        _core.stop()
        """,
        tmp_path,
    )
    assert len(record.events) == 1 and record.events.seq[0] == 0
    assert record.ended


def test_nothing_happens_when_nothing_is_recorded(tmp_path: Path) -> None:
    run(
        """
        assert _core.begin(2, 0, 0, -1, 0, 0, 1) == 0
        _core.end(0); _core.end(5); _core.done(5); _core.flush(); _core.stop(); _core.stop(1)
        _core.meta("a", "b"); _core.note("c"); _core.span(1, 0, 1, 0, 1); _core.mark_step(1); _core.begin_steps()
        assert _core.intern("d") == _core.lane(1, "e") == 0 and _core.current_step() == -1
        assert _core.group("w", 0, [0]) == 0 and _core.sample_path([("a", "b", 1, 2)]) == 0
        _core.add_sample(os.getpid(), 1, 0)
        assert not os.path.exists(RECORD)
        """,
        tmp_path / "program.rec",
    )


def test_start_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        _core.start(str(tmp_path / "nowhere" / "r.rec"), 100, 1 << 20)
    (tmp_path / "there.rec").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        _core.start(str(tmp_path / "there.rec"), 100, 1 << 20)
    _core.start(str(tmp_path / "r.rec"), 100, 1 << 20)
    try:
        with pytest.raises(OSError):
            _core.start(str(tmp_path / "second.rec"), 100, 1 << 20)
    finally:
        _core.stop(0)
    assert not (tmp_path / "second.rec").exists()
    assert ProcessRecord.read(tmp_path / "r.rec").ended


def test_one_process_can_record_again(tmp_path: Path) -> None:
    for number in range(3):
        _core.start(tmp_path / f"{number}.rec", 1000, 1 << 20)
        _core.end(_core.begin(2, _core.group("w", 0, [0]), number, -1, 0, 0, 1))
        _core.stop(number)
    for number in range(3):
        record = ProcessRecord.read(tmp_path / f"{number}.rec")
        assert record.events.seq.tolist() == [number] and record.status == number
        assert record.frames(record.events.path[0])[-1].code.name == "test_one_process_can_record_again"


def test_a_full_disk_ends_the_record_and_not_the_program(tmp_path: Path) -> None:
    """A limit on file size stands in for the full disk; its signal would kill the process."""
    record = recorded(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        _core.start(RECORD, 1000, 1 << 24, flush_s=0.01)
        for i in range(5000):
            _core.end(_core.begin(2, 0, i, -1, 0, 0, 1))
            if i % 100 == 0:
                _core.flush()
        _core.flush()
        _core.stop(0)
        _core.stop(0)
        print("went on")
        """,
        tmp_path,
    )
    assert 0 < len(record.events) < 5000
    assert record.troubles == [], "the torn block is cut off"
    assert (tmp_path / "program.rec").stat().st_size <= 20_000
    assert any("could not be written" in note for note in record.notes) or not record.ended


def test_a_disk_without_room_for_a_last_line_ends_the_record_where_it_was(tmp_path: Path) -> None:
    record = recorded(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        _core.start(RECORD, 0, 1 << 24, flush_s=60)
        _core.flush()
        size = os.path.getsize(RECORD)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, size + 40))
        for i in range(1000):
            _core.end(_core.begin(2, 0, i, -1, 0, 0, 1))
        _core.flush()
        _core.stop(0)
        assert os.path.getsize(RECORD) == size
        """,
        tmp_path,
    )
    assert not record.ended and record.troubles == [] and len(record.events) == 0


@pytest.mark.measured
def test_a_killed_process_loses_no_more_than_its_last_flush(tmp_path: Path) -> None:
    program = """
        _core.start(RECORD, 200, 1 << 24, flush_s=0.1)
        for i in range(10**6):
            _core.end(_core.begin(2, 0, i, -1, 0, 0, 1))
            time.sleep(0.001)
            if _core.now() > int(1e9 * 0.7) + started:
                os.kill(os.getpid(), 9)
    """.replace("_core.start", "started = _core.now(); _core.start")
    run(program, tmp_path / "program.rec", expect=-signal.SIGKILL)
    record = ProcessRecord.read(tmp_path / "program.rec")
    assert not record.ended and record.troubles == []
    seqs = record.events.seq.tolist()
    assert seqs == list(range(len(seqs))) and len(seqs) > 20
    # On a busy machine the flush may come late, but not by half of the run.
    assert record.last_ns - int(record.meta["start_ns"]) > 0.35e9


def test_exit_without_stop_still_ends_the_record(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 200, 1 << 24, flush_s=100)
        _core.end(_core.begin(2, 0, 1, -1, 0, 0, 1))
        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
        """,
        tmp_path,
    )
    assert record.ended and len(record.events) == 1


def test_a_program_that_closes_all_descriptors_keeps_its_files_clean(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 24, flush_s=0.02)
        time.sleep(0.1)
        os.closerange(3, 4096)
        mine = os.open(RECORD + ".mine", os.O_RDWR | os.O_CREAT)
        for high in range(512, 640):
            try:
                os.dup2(mine, high)
            except OSError:
                break
        for i in range(50):
            _core.end(_core.begin(2, 0, i, -1, 0, 0, 1))
            time.sleep(0.002)
        _core.stop(0)
        assert os.fstat(mine).st_size == 0
        for high in range(512, 640):
            os.fstat(high)
        """,
        tmp_path,
    )
    assert len(record.events) == 50 and record.ended and record.troubles == []


# ---- fork ----


def test_a_forked_child_is_off_until_it_starts(tmp_path: Path) -> None:
    record = recorded(
        """
        import multiprocessing
        from scalana.runtime.record.format import ProcessRecord

        def until_sampled(record):  # on a busy machine the sampler's thread begins late
            for _ in range(1000):
                _core.flush()
                if len(ProcessRecord.read(record).samples):
                    return
                time.sleep(0.01)

        _core.start(RECORD, 1000, 1 << 24, flush_s=0.01)
        held = _core.begin(1, 0, 0, -1, 0, 0, 1)
        for i in range(20):
            child = os.fork()
            if child == 0:
                assert _core.begin(2, 0, 99, -1, 0, 0, 1) == 0
                _core.end(held); _core.flush(); _core.stop(1)
                if i % 2:
                    _core.start(f"{RECORD}.{i}", 1000, 1 << 20)
                    _core.end(_core.begin(2, 0, 77, -1, 0, 0, 1))
                    until_sampled(f"{RECORD}.{i}")
                    _core.stop(0)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        _core.end(held)
        _core.stop(0)
        """,
        tmp_path,
    )
    assert record.events.seq.tolist() == [0] and record.ended and record.troubles == []
    for i in range(1, 20, 2):
        child = ProcessRecord.read(tmp_path / f"program.rec.{i}")
        assert child.events.seq.tolist() == [77] and child.ended
        assert len(child.samples) > 0
        assert child.threads[child.samples.thread[0]].is_main


@pytest.mark.slow
def test_many_forks_under_load_do_not_deadlock(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 26, flush_s=0.001)
        stop = False
        def load(n):
            i = 0
            while not stop:
                exec(f"def f{i % 50}(): return _core.begin(2, 0, {i}, -1, 0, 0, 1)\\n_core.end(f{i % 50}())",
                     {"_core": _core})
                i += 1
        threads = [threading.Thread(target=load, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 3
        forks = 0
        while time.monotonic() < deadline:
            child = os.fork()
            if child == 0:
                _core.begin(2, 0, 1, -1, 0, 0, 1)
                _core.flush()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            forks += 1
        stop = True
        for thread in threads:
            thread.join()
        _core.meta("forks", str(forks))
        _core.stop(0)
        """,
        tmp_path,
        timeout_s=50,
    )
    assert record.number("forks") > 5
    assert record.ended and record.troubles == []


def test_concurrent_calls_keep_their_threads_and_pairs(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 26, flush_s=0.005)
        groups = [_core.group(f"g{n}", 0, [n]) for n in range(8)]
        def worker(n):
            for i in range(400):
                outer = _core.begin(2, groups[n], i, -1, 0, n, 1)
                inner = _core.begin(12, groups[n], i, -1, 0, n, 4)
                _core.end(inner)
                _core.end(outer)
        threads = [threading.Thread(target=worker, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        _core.stop(0)
        """,
        tmp_path,
    )
    events = record.events
    counts = Counter(zip(events.thread, events.group, events.operation, strict=True))
    assert len(counts) == 16 and set(counts.values()) == {400}
    assert len(set(events.id)) == len(events) == 6400


def test_reads_by_proc_mem_when_the_system_call_is_refused(tmp_path: Path) -> None:
    """As in a sandbox: process_vm_readv fails by a filter that the program installs on itself."""
    if not hasattr(os, "memfd_create") or os.uname().machine != "x86_64":
        pytest.skip("filter written for Linux on x86-64")
    record = recorded(
        """
        import ctypes, struct
        # BPF: load the number; process_vm_readv (310) -> errno EPERM, else allow
        program = b"".join(struct.pack("<HBBI", *row) for row in (
            (0x20, 0, 0, 0), (0x15, 0, 1, 310), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
        buffer = ctypes.create_string_buffer(program)
        class Filter(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0
        if libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(buffer)))):
            print("no seccomp")
        assert _core.supported()
        _core.start(RECORD, 500, 1 << 24)
        def spin():
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass
        spin()
        _core.stop(0)
        """,
        tmp_path,
    )
    seconds = recording.seconds_by_function(record, recording.main_thread(record))
    assert max(seconds, key=lambda name: seconds[name]) == "spin"
