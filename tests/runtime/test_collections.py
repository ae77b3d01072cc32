"""Collections of Python's garbage collector: as spans if they are long, counted if they are not, whatever the program
does with `gc.callbacks`."""

from __future__ import annotations

from pathlib import Path

from scalana.runtime.record.format import SPAN_TYPE, ProcessRecord

from . import jobs

HEAP = """
import gc, os, sys, threading

class Node:
    pass

def read(nodes):
    made = [Node() for _ in range(nodes)]
    for node in made:
        node.other = node
    return made

gc.disable()
gc.freeze()
heap = read(100_000)
"""


def collections(record: ProcessRecord) -> list[dict[str, int]]:
    """Attributes of the spans of collections, with the thread and the ns."""
    spans, found = record.spans, []
    for row in range(len(spans)):
        if spans.type[row] != SPAN_TYPE["collection"]:
            continue
        assert record.names[spans.name[row]] == "gc"
        one = {"thread": record.lanes[spans.lane[row]].thread, "ns": spans.duration_ns[row]}
        for at in range(spans.last[row - 1] if row else 0, spans.last[row]):
            one[record.names[record.attributes.key[at]]] = record.attributes.value[at]
        found.append(one)
    return found


def totals(record: ProcessRecord) -> tuple[int, int, int, int]:
    """Collections and their ns; those that are spans, and theirs."""
    every, every_ns, long, long_ns = map(int, record.meta["collections"].split())
    return every, every_ns, long, long_ns


def recorded(code: str, tmp_path: Path) -> list[ProcessRecord]:
    """The records of a program, whose output is the same as without one."""
    (tmp_path / "plain").mkdir()
    plain = jobs.python(HEAP + code, cwd=tmp_path / "plain")
    done = jobs.python(HEAP + code, tmp_path / "run")
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return sorted(jobs.records(tmp_path / "run"), key=lambda record: int(record.meta["start_ns"]))


def test_long_ones_are_spans_and_all_are_counted(tmp_path: Path) -> None:
    code = "gc.collect()\nheap.clear()\nprint(gc.collect())\nfor _ in range(50): gc.collect(0)\n"
    (record,) = recorded(code, tmp_path)
    first, second = [one for one in collections(record) if one["generation"] == 2][:2]
    assert first["thread"] == 0 and first["uncollectable"] == 0
    assert second["collected"] >= 100_000
    every, every_ns, long, long_ns = totals(record)
    spans = collections(record)
    assert every >= 52 and long == len(spans) and long_ns == sum(span["ns"] for span in spans)
    assert all(span["ns"] >= 1_000_000 for span in spans) and every_ns > long_ns


def test_a_span_lies_in_the_thread_that_collects_at_its_line(tmp_path: Path) -> None:
    code = "def sweep():\n    gc.collect()\nthread = threading.Thread(target=sweep)\nthread.start()\nthread.join()\n"
    (record,) = recorded(code, tmp_path)
    rows = [row for row in range(len(record.spans)) if record.spans.type[row] == SPAN_TYPE["collection"]]
    row, span = next((row, one) for row, one in zip(rows, collections(record), strict=True) if one["generation"] == 2)
    assert span["thread"] != 0
    assert record.frames(record.spans.path[row])[-1].code.name == "sweep"


def test_programs_may_clear_the_callbacks(tmp_path: Path) -> None:
    (record,) = recorded("gc.callbacks.clear()\ngc.collect()\ngc.callbacks[:] = []\ngc.collect()\n", tmp_path)
    old = [one for one in collections(record) if one["generation"] == 2]
    assert len(old) >= 2, "a callback that is removed comes back"


def test_removing_callbacks_until_there_are_none_ends(tmp_path: Path) -> None:
    recorded("while gc.callbacks: gc.callbacks.pop()\nprint(len(gc.callbacks))\n", tmp_path)


def test_callbacks_of_the_program_are_called_as_ever(tmp_path: Path) -> None:
    code = """
seen = []
gc.callbacks.insert(0, lambda phase, info: seen.append((phase, sorted(info))))
gc.callbacks.append(lambda phase, info: seen.append(phase))
gc.collect()
print(seen)
"""
    (record,) = recorded(code, tmp_path)
    assert len(collections(record)) >= 1


def test_a_fork_records_its_own(tmp_path: Path) -> None:
    code = """
gc.collect()
child = os.fork()
if child == 0:
    gc.collect()
    gc.collect()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    parent, child = recorded(code, tmp_path)
    assert totals(child)[2] == len(collections(child)) == 2
    assert totals(parent)[2] == len(collections(parent)) >= 1


def test_what_a_handler_of_a_signal_raises_in_a_collection_reaches_the_program(tmp_path: Path) -> None:
    code = """
import signal, time

def ring(*_):
    raise KeyError("rung")

signal.signal(signal.SIGALRM, ring)
heap += read(400_000)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    gc.collect()
    time.sleep(10)
except KeyError as rung:
    print("got", rung)
"""
    recorded(code, tmp_path)


def test_threads_that_make_garbage_all_together(tmp_path: Path) -> None:
    code = """
gc.enable()
gc.unfreeze()
def churn():
    for _ in range(40):
        read(1000)
threads = [threading.Thread(target=churn) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    (record,) = recorded(code, tmp_path)
    every, every_ns, long, long_ns = totals(record)
    assert every >= long == len(collections(record)) and every_ns >= long_ns and every > 40


def test_a_recording_in_a_program_counts_its_own(tmp_path: Path) -> None:
    code = """
import scalana
for name in ("first", "second"):
    with scalana.profile(name):
        gc.collect()
"""
    done = jobs.python(HEAP + code, extra={"PYTHONPATH": str(jobs.ROOT)}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("first", "second"):
        (record,) = jobs.records(tmp_path / name)
        assert len(collections(record)) == totals(record)[2] >= 1
