"""The sampler: where threads are, for how long, and in what state, against what the program itself measured."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from scalana.runtime import _core
from scalana.runtime.record import format as record_format
from scalana.runtime.record.format import ProcessRecord

from .recording import build_core, line_of, main_thread, recorded, seconds_by_function

pytestmark = pytest.mark.skipif(not _core.supported(), reason="the frames of this interpreter cannot be read")

# The program measures its own phases by wall clock: on a busy machine they take longer than they should, and the
# sampler has to say so too.
PHASES = """
import hashlib, json
took = {}
def timed(phase):
    start = time.monotonic()
    phase()
    took[phase.__name__] = took.get(phase.__name__, 0) + time.monotonic() - start
def python():
    end = time.thread_time() + 0.08
    while time.thread_time() < end:
        sum(i for i in range(50))
def calls():
    def leaf(x): return x + 1
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        for i in range(30): leaf(leaf(leaf(i)))
def in_c():
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 100_000)
def holding_the_lock():
    sum(range(3_000_000))
def asleep():
    time.sleep(0.06)
def waiting():
    threading.Event().wait(0.05)
def reading():
    r, w = os.pipe()
    threading.Timer(0.05, os.write, (w, b"x")).start()
    os.read(r, 1)
def main():
    for _ in range(6):
        for phase in (python, calls, in_c, holding_the_lock, asleep, waiting, reading):
            timed(phase)
"""


def assert_shares(record: ProcessRecord, depth: int, tolerance: float) -> None:
    took = json.loads(record.meta["took"])
    seen = seconds_by_function(record, main_thread(record), depth)
    total = sum(took.values())
    for name, seconds in took.items():
        assert seen[name] / total == pytest.approx(seconds / total, abs=tolerance), (name, took, dict(seen))


@pytest.mark.measured
@pytest.mark.slow
@pytest.mark.parametrize("rate", [200, 1000])
def test_shares_are_those_that_the_program_measured(tmp_path: Path, rate: int) -> None:
    record = recorded(
        PHASES + f'_core.start(RECORD, {rate}, 1 << 24)\nmain()\n_core.meta("took", json.dumps(took))\n_core.stop(0)\n',
        tmp_path,
    )
    # 42 phases whose ends are each off by half a period at random; the machine may hold the sampler up now and then.
    assert_shares(record, 3, 0.04)
    samples, main = record.samples, main_thread(record)
    states: dict[str, Counter[int]] = defaultdict(Counter)
    for row in range(len(samples)):
        frames = record.frames(samples.path[row])
        if samples.thread[row] == main and len(frames) > 3:
            states[frames[3].code.name][samples.state[row]] += 1
    for name, expected in {
        "python": record_format.STATE_RUNNING,
        "in_c": record_format.STATE_RUNNING,
        "asleep": record_format.STATE_ASLEEP,
        "waiting": record_format.STATE_LOCK,
        "reading": record_format.STATE_IPC,
    }.items():
        assert states[name].most_common(1)[0][0] == expected, (name, states[name])
    assert states["asleep"][record_format.STATE_LOCK] == 0 == states["waiting"][record_format.STATE_ASLEEP]


@pytest.mark.measured
@pytest.mark.slow
def test_cpu_and_core_wait_add_up(tmp_path: Path) -> None:
    """CPU, waiting for a core and being blocked make up the time; the CPU is what the thread's own clock says."""
    record = recorded(
        PHASES + "_core.start(RECORD, 200, 1 << 24)\ncpu = _core.thread_cpu()\nmain()\n"
        '_core.meta("cpu", str(_core.thread_cpu() - cpu))\n_core.stop(0)\n',
        tmp_path,
    )
    samples, main = record.samples, main_thread(record)
    rows = [row for row in range(len(samples)) if samples.thread[row] == main]
    cpu_s = sum(samples.cpu_us[row] for row in rows) / 1e6
    wait_s = sum(samples.core_wait_us[row] for row in rows) / 1e6
    wall_s = (samples.time_ns[rows[-1]] - samples.time_ns[rows[0]]) / 1e9
    assert cpu_s == pytest.approx(record.number("cpu") / 1e9, rel=0.05)
    blocked_s = 0.0
    for row, following in zip(rows, rows[1:]):  # noqa: B905  pairs
        if samples.state[row] not in (record_format.STATE_RUNNING, record_format.STATE_UNKNOWN):
            blocked_s += (samples.time_ns[following] - samples.time_ns[row]) / 1e9
    assert cpu_s + wait_s + blocked_s == pytest.approx(wall_s, rel=0.15)
    assert [samples.time_ns[row] for row in rows] == sorted(samples.time_ns[row] for row in rows)


@pytest.mark.measured
def test_lines(tmp_path: Path) -> None:
    record = recorded(
        """
        def work():
            for _ in range(8):
                end = time.thread_time() + 0.03
                while time.thread_time() < end: pass  # long
                end = time.thread_time() + 0.01
                while time.thread_time() < end: pass  # short
        _core.start(RECORD, 1000, 1 << 24)
        work()
        _core.stop(0)
        """,
        tmp_path,
    )
    cpu: dict[int, int] = defaultdict(int)
    samples, main = record.samples, main_thread(record)
    for row in range(len(samples)):
        frames = record.frames(samples.path[row])
        if samples.thread[row] == main and frames[-1].code.name == "work":
            cpu[frames[-1].line] += samples.cpu_us[row]
    long, short = cpu[line_of(tmp_path, "# long")], cpu[line_of(tmp_path, "# short")]
    assert long + short > 0.9 * sum(cpu.values())
    assert long / (long + short) == pytest.approx(0.75, abs=0.06)


@pytest.mark.measured
def test_a_thread_at_rest_costs_no_records(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 24, flush_s=0.2)
        time.sleep(1)
        _core.stop(0)
        """,
        tmp_path,
    )
    samples, main = record.samples, main_thread(record)
    rows = [row for row in range(len(samples)) if samples.thread[row] == main]
    assert 2 <= len(rows) <= 20
    asleep = [row for row in rows if samples.state[row] == record_format.STATE_ASLEEP]
    following = dict(zip(rows, rows[1:]))  # noqa: B905  pairs; a sample stands for the time to the next
    assert sum(samples.time_ns[following[row]] - samples.time_ns[row] for row in asleep if row in following) > 0.8e9
    # The sleep is told of at every flush, not only when it is over.
    assert len(asleep) >= 4


@pytest.mark.measured
@pytest.mark.slow
def test_a_rest_after_running_all_through_is_a_rest(tmp_path: Path) -> None:
    record = recorded(
        """
        def work():
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
        def doze():
            time.sleep(0.12)
        _core.start(RECORD, 200, 1 << 24)
        for _ in range(40):
            work()
            doze()
        _core.stop(0)
        """,
        tmp_path,
    )
    samples, main = record.samples, main_thread(record)
    rows = [row for row in range(len(samples)) if samples.thread[row] == main]
    dozing = [
        (samples.state[row], samples.time_ns[following] - samples.time_ns[row])
        for row, following in zip(rows, rows[1:])  # noqa: B905  pairs
        if record.frames(samples.path[row])[-1].code.name == "doze"
    ]
    assert sum(ns for state, ns in dozing if state == record_format.STATE_ASLEEP) > 4e9
    # Once in so often a look comes just as the sleep begins, and the next one a period later.
    assert max((ns for state, ns in dozing if state == record_format.STATE_RUNNING), default=0) < 0.06e9


@pytest.mark.measured
@pytest.mark.slow
def test_python_and_native_threads(tmp_path: Path) -> None:
    record = recorded(
        """
        import ctypes
        libc = ctypes.CDLL(None)
        text = ctypes.create_string_buffer(b"x" * 20_000_000)
        def spin():
            end = time.thread_time() + 0.2
            while time.thread_time() < end:
                pass
        _core.start(RECORD, 500, 1 << 24)
        thread = threading.Thread(target=spin)
        thread.start()
        native = ctypes.c_ulong()
        assert libc.pthread_create(ctypes.byref(native), None, libc.strfry, text) == 0
        thread.join()
        libc.pthread_join(native, None)
        _core.stop(0)
        """,
        tmp_path,
    )
    samples = record.samples
    cpu: dict[int, int] = defaultdict(int)
    places: dict[int, set[str]] = defaultdict(set)
    for row in range(len(samples)):
        thread = samples.thread[row]
        cpu[thread] += samples.cpu_us[row]
        if samples.cpu_us[row] > 1000:
            places[thread].update(f"{f.code.filename}:{f.code.name}" for f in record.frames(samples.path[row]))
    native = [t for t in record.threads.values() if not t.has_python and cpu[t.index] > 20_000]
    python = [t for t in record.threads.values() if t.has_python and not t.is_main and cpu[t.index] > 100_000]
    assert len(native) == 1 and len(python) == 1
    assert places[native[0].index] == {f"[native]:{native[0].name}"}
    assert f"{tmp_path}/program.py:spin" in places[python[0].index]
    assert not any(thread.name.startswith("scalana") for thread in record.threads.values())


def test_the_sampler_takes_no_signals(tmp_path: Path) -> None:
    """All of them reach the threads of the program, and interrupt its calls as they would without the sampler."""
    record = recorded(
        """
        import signal
        got = []
        signal.signal(signal.SIGALRM, lambda *_: got.append(threading.get_native_id()))
        _core.start(RECORD, 1000, 1 << 24)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            time.sleep(0.01)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for task in os.listdir("/proc/self/task"):
            status = dict(line.split(":\\t", 1) for line in open(f"/proc/self/task/{task}/status") if ":\\t" in line)
            if status["Name"].startswith("scalana"):
                blocked = int(status["SigBlk"], 16)
                # KILL and STOP cannot be blocked; the C library keeps two for itself.
                assert blocked | (1 << 8) | (1 << 18) | (3 << 31) == (1 << 64) - 1, hex(blocked)
        _core.meta("got", str(len(got)))
        _core.stop(0)
        """,
        tmp_path,
    )
    assert record.number("got") > 20


def test_subinterpreters_and_finalization(tmp_path: Path) -> None:
    """Threads of other interpreters and an interpreter that is on its way out are no reason to crash."""
    record = recorded(
        """
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        _core.start(RECORD, 1000, 1 << 24, flush_s=0.02)
        for _ in range(3):
            other = interpreters.create()
            interpreters.run_string(other, "import time\\nend = time.monotonic() + 0.05\\n"
                                           "while time.monotonic() < end: sum(range(100))")
            interpreters.destroy(other)
        import atexit
        class Late:
            def __del__(self):
                end = time.thread_time() + 0.05
                while time.thread_time() < end: pass
        late = Late()
        for n in range(4):
            threading.Thread(target=lambda: [time.sleep(0.001) for _ in range(10**6)], daemon=True).start()
        """,
        tmp_path,
    )
    assert record.ended and record.troubles == []


@pytest.mark.slow
def test_the_thread_that_started_it_ends(tmp_path: Path) -> None:
    """Its stacks go with it, whatever was known of them; those of others are read as ever, however deep."""
    record = recorded(
        """
        def spin():
            end = time.thread_time() + 0.1
            while time.thread_time() < end: pass
        def below(depth, leaf):
            return leaf() if depth == 0 else below(depth - 1, leaf)
        def first():
            _core.start(RECORD, 1000, 1 << 24)
            below(20, spin)
            below(300, spin)
        threading.stack_size(1 << 20)
        starter = threading.Thread(target=first)
        starter.start()
        starter.join()
        others = [threading.Thread(target=below, args=(20, spin)) for _ in range(3)]
        for thread in others: thread.start()
        below(20, spin)
        below(300, spin)
        for thread in others: thread.join()
        _core.stop(0)
        """,
        tmp_path,
    )
    depths: dict[int, Counter[int]] = defaultdict(Counter)
    for row in range(len(record.samples)):
        frames = record.frames(record.samples.path[row])
        if frames[-1].code.name == "spin":
            depths[record.samples.thread[row]][sum(frame.code.name == "below" for frame in frames)] += 1
    main = main_thread(record)
    assert depths[main][21] > 10 and depths[main][301] > 10
    assert sum(set(seen) == {21, 301} for seen in depths.values()) == 2, "the main thread and the starter"
    assert sum(set(seen) == {21} for seen in depths.values()) == 3


def test_budget_thins_samples(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 16, flush_s=0.05)
        def chain(n, leaf):
            return leaf() if n == 0 else chain(n - 1, leaf)
        end = time.monotonic() + 1.5
        number = 0
        while time.monotonic() < end:
            number += 1
            scope = {}
            exec(f"def leaf_{number}_{'x' * 60}():\\n for i in range(3000): pass", scope)
            chain(number % 20, scope[f"leaf_{number}_{'x' * 60}"])
        _core.stop(0)
        """,
        tmp_path,
    )
    assert (tmp_path / "program.rec").stat().st_size <= 1 << 16
    assert record.ended


@pytest.mark.measured
def test_a_process_of_little_interest_is_sampled_less_often(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 1000, 1 << 24)
        end = time.monotonic() + 0.05
        while time.monotonic() < end: pass
        _core.set_rate(10)
        time.sleep(0.05)  # the tick that was under way
        _core.span(1, 0, 0, _core.now(), _core.now())
        end = time.monotonic() + 1.0
        while time.monotonic() < end: pass
        for rate in (0, -1, 1e6, float("nan")):
            try:
                _core.set_rate(rate)
                raise SystemExit("a rate that makes no sense")
            except ValueError:
                pass
        _core.stop(0)
        """,
        tmp_path,
    )
    (slow_ns,) = record.spans.start_ns
    main = main_thread(record)
    samples = record.samples
    later = [row for row in range(len(samples)) if samples.thread[row] == main and samples.time_ns[row] > slow_ns]
    assert 3 <= len(later) <= 30


@pytest.mark.measured
@pytest.mark.slow
def test_plain_python_sampler(tmp_path: Path) -> None:
    record = recorded(
        PHASES + "from scalana.runtime import python_sampler\n"
        "_core.start(RECORD, 200, 1 << 24, native=False)\npython_sampler.start(200)\nmain()\n"
        '_core.meta("took", json.dumps(took))\npython_sampler.stop()\n_core.stop(0)\n',
        tmp_path,
    )
    took = json.loads(record.meta["took"])
    seen = seconds_by_function(record, main_thread(record), 3)
    total = sum(took.values())
    for name in ("asleep", "waiting", "reading"):  # elsewhere it has to wait for the interpreter's lock
        assert seen[name] / total == pytest.approx(took[name] / total, abs=0.08), (name, took, dict(seen))
    assert line_of(tmp_path, "time.sleep(0.06)") in {
        frame.line for path in set(record.samples.path) for frame in record.frames(path)
    }
    names = {frame.code.name for path in set(record.samples.path) for frame in record.frames(path)}
    assert not any("_sample_all" in name for name in names), "the sampler does not sample itself"


@pytest.mark.measured
@pytest.mark.measured
@pytest.mark.slow
def test_interpreters_without_a_known_layout(tmp_path: Path) -> None:
    """Built as for an interpreter that nobody has seen yet: paths by the public interface, samples by plain Python."""
    core = build_core(tmp_path / "build", {"CFLAGS": "-DSCALANA_FRAME_LAYOUT=0"})
    record = recorded(
        """
        from scalana.runtime import python_sampler
        assert not _core.supported()
        _core.start(RECORD, 200, 1 << 24, native=True)
        python_sampler.start(200)
        def spin():
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                time.sleep(0.0001)
        spin()
        _core.end(_core.begin(2, 0, 0, -1, 0, 0, 1))  # call
        python_sampler.stop()
        _core.stop(0)
        """,
        tmp_path,
        core=core,
    )
    (frame,) = record.frames(record.events.path[0])
    assert (frame.code.name, frame.line) == ("<module>", line_of(tmp_path, "# call"))
    assert seconds_by_function(record, main_thread(record))["spin"] > 0.2
