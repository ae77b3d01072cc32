"""scalana.span: a context manager, a decorator, begin and end; and that it never disturbs the program."""

from __future__ import annotations

import struct
import subprocess
import sys
from array import array
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from scalana.runtime.record.format import SPAN_TYPES, ProcessRecord

from . import jobs

EXTRA = {"PYTHONPATH": str(jobs.ROOT)}


def recorded(code: str, tmp_path: Path) -> ProcessRecord:
    """The record of a program, which runs without one as well."""
    program = "import asyncio, os, threading, time\nimport scalana\nfrom scalana import region, span, step\n" + code
    (tmp_path / "plain").mkdir()
    plain = jobs.python(program, extra=EXTRA, cwd=tmp_path / "plain")
    assert plain.returncode == 0, plain.stderr
    done = jobs.python(program, tmp_path / "run", extra=EXTRA)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout and done.stderr == plain.stderr
    return without_collections(min(jobs.records(tmp_path / "run"), key=lambda record: int(record.meta["start_ns"])))


def without_collections(record: ProcessRecord) -> ProcessRecord:
    """A record without what Python's garbage collector did meanwhile."""
    spans, rows, last, attributes = record.spans, list[int](), list[int](), list[int]()
    for row in range(len(spans)):
        if SPAN_TYPES[spans.type[row]] != "collection":
            rows.append(row)
            attributes += range(spans.last[row - 1] if row else 0, spans.last[row])
            last.append(len(attributes))

    def taken(columns: Any, of: list[int], **others: Any) -> Any:
        names = [column.name for column in fields(columns) if column.name not in others]
        kept = {name: memoryview(array("q", [getattr(columns, name)[row] for row in of])) for name in names}
        return type(columns)(**kept, **others)

    spans = taken(spans, rows, last=memoryview(array("q", last)))
    return replace(record, spans=spans, attributes=taken(record.attributes, attributes))


def told(record: ProcessRecord) -> list[tuple[str, str, str, dict[str, int | float | str]]]:
    """Type, name, lane and attributes of all spans, in the order of their ends."""
    spans, found = record.spans, []
    for row in range(len(spans)):
        attributes: dict[str, int | float | str] = {}
        for at in range(spans.last[row - 1] if row else 0, spans.last[row]):
            value: int | float | str = record.attributes.value[at]
            if record.attributes.tag[at] == 1:
                value = struct.unpack("d", struct.pack("q", value))[0]
            elif record.attributes.tag[at] == 2:
                value = record.names[int(value)]
            attributes[record.names[record.attributes.key[at]]] = value
        lane = record.lanes[spans.lane[row]].name
        found.append((SPAN_TYPES[spans.type[row]], record.names[spans.name[row]], lane, attributes))
    return found


def test_three_ways_to_say_it(tmp_path: Path) -> None:
    record = recorded(
        """
with span("verify", kind="phase", trajectory=17, tokens=812, share=0.5, mode="short"):
    time.sleep(0.02)
handle = span.begin("rollout", "trajectory", "slot 3", id=1 << 40)
with region("inside"):
    pass
handle.end(tokens=5)
handle.end(tokens=6)  # again: nothing

@span("decorated", kind="module", layer=2)
def work(x):
    "Docstring."
    return x + 1

assert work(1) == 2 and work.__name__ == "work" and work.__doc__ == "Docstring."
with span("odd", kind="no such kind", lane=7):
    pass
assert span("x").name == "x" and region is span
""",
        tmp_path,
    )
    assert told(record) == [
        ("phase", "verify", "", {"trajectory": 17, "tokens": 812, "share": 0.5, "mode": "short"}),
        ("region", "inside", "", {}),
        ("trajectory", "rollout", "slot 3", {"id": 1 << 40, "tokens": 5}),
        ("module", "decorated", "", {"layer": 2}),
        ("other", "odd", "7", {"kind": "no such kind"}),
    ]
    spans = record.spans
    assert spans.duration_ns[0] >= 20_000_000 > spans.cpu_ns[0] >= 0
    assert spans.start_ns[2] <= spans.start_ns[1], "what ends later began before"
    assert record.frames(spans.path[0])[-1].line == 5, "where it began"
    assert [frame.code.name for frame in record.frames(spans.path[3])] == ["<module>"]


def test_what_is_no_number_is_told_as_it_prints_or_left_out(tmp_path: Path) -> None:
    record = recorded(
        """
class Number:
    def __index__(self): return 41
class Real:
    def __float__(self): return 0.25
class Broken:
    def __str__(self): raise RuntimeError("never seen")
with span("values", a=True, b=None, c=Number(), d=Real(), e=[1, 2], f=Broken(), g=1 << 80, h="\\udc80", i=-(1 << 80)):
    pass
with span(name="by name", kind="phase", x=1): pass
with span("n\\u00fc\\udc80"): pass
for wrong in (lambda: span(), lambda: span("a", "b", "c", "d"), lambda: span("a").end(1), lambda: span("a")(1, 2)):
    try:
        wrong()
    except TypeError:
        continue
    raise SystemExit("no error")
with span("many", **{f"k{number}": number for number in range(100)}): pass
""",
        tmp_path,
    )
    values, by_name, strange, many = told(record)
    assert values[3] == {"a": 1, "c": 41, "d": 0.25, "e": "[1, 2]", "g": 2**63 - 1, "h": "?", "i": -(2**63)}
    assert by_name == ("phase", "by name", "", {"x": 1})
    assert strange[1] == "nü?"
    assert many[3] == {f"k{number}": number for number in range(64)}


def test_exceptions_pass_and_returns_too(tmp_path: Path) -> None:
    record = recorded(
        """
def leaves():
    with span("returns"):
        return 5

assert leaves() == 5
for error in (KeyError, KeyboardInterrupt, GeneratorExit, SystemExit):
    try:
        with span("outer"):
            with span("inner", kind="phase"):
                raise error("passes")
    except error as caught:
        assert caught.args == ("passes",)
""",
        tmp_path,
    )
    assert [name for _, name, *_ in told(record)] == ["returns", *["inner", "outer"] * 4]


def test_one_object_nests_and_serves_threads(tmp_path: Path) -> None:
    record = recorded(
        """
shared = span("shared")
with shared:
    with shared:
        with shared:
            time.sleep(0.001)
both, left = threading.Barrier(2), threading.Event()

def work(first):
    with shared:
        both.wait()
        if first:
            left.wait()
    left.set()

threads = [threading.Thread(target=work, args=(first,)) for first in (True, False)]
for thread in threads: thread.start()
for thread in threads: thread.join()
handle = span.begin("handed over")
threading.Thread(target=handle.end).start()
time.sleep(0.1)
""",
        tmp_path,
    )
    spans = record.spans
    lanes = [record.lanes[lane].thread for lane in spans.lane]
    assert lanes[:3] == [0, 0, 0] and len(set(lanes[3:5])) == 2, "each its own"
    assert spans.start_ns[0] >= spans.start_ns[1] >= spans.start_ns[2]
    assert (lanes[5], spans.cpu_ns[5]) == (0, -1), "of the thread that began it; the other one's CPU time tells nothing"


def test_a_forked_child_and_its_parent(tmp_path: Path) -> None:
    record = recorded(
        """
with span("parent"):
    child = os.fork()
    if child == 0:
        with span("child"):
            pass
        handle.end() if "handle" in globals() else None
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
        tmp_path,
    )
    other = max(jobs.records(tmp_path / "run"), key=lambda record: int(record.meta["start_ns"]))
    assert [name for _, name, *_ in told(record)] == ["parent"]
    assert [name for _, name, *_ in told(other)] == ["child"], "what the parent began is the parent's"


def test_generators_and_coroutines(tmp_path: Path) -> None:
    record = recorded(
        """
@span("coroutine")
async def later(seconds):
    await asyncio.sleep(seconds)
    return seconds

@span("items")
def items():
    got = yield 1
    assert got == "sent"
    yield 2
    return 3

@span("asynchronous items")
async def stream():
    yield 1
    await asyncio.sleep(0)
    yield 2

async def main():
    assert await asyncio.gather(later(0.02), later(0.01)) == [0.02, 0.01]
    assert [item async for item in stream()] == [1, 2]

asyncio.run(main())
made = items()
assert next(made) == 1
assert made.send("sent") == 2
try:
    next(made)
except StopIteration as end:
    assert end.value == 3
closed = items()
next(closed)
closed.close()
""",
        tmp_path,
    )
    assert [name for _, name, *_ in told(record)] == [*["coroutine"] * 2, "asynchronous items", *["items"] * 2]
    assert set(record.spans.cpu_ns) == {-1}
    assert record.spans.duration_ns[1] >= 20_000_000


def test_spans_know_their_step(tmp_path: Path) -> None:
    record = recorded(
        """
for number in range(3):
    with span("in", number=number):
        pass
    handle = span.begin("across")
    step()
    handle.end()
""",
        tmp_path,
    )
    spans = record.spans
    steps = {(record.names[n], s) for n, s in zip(spans.name, spans.step, strict=True)}
    # Before the first mark nobody knows whether a step has begun.
    assert steps == {("in", -1), ("across", -1), *((name, s) for name in ("in", "across", "step") for s in (1, 2))}


WITHOUT = """
import sys
sys.modules["scalana.runtime._core"] = None
from scalana.runtime.spans import region, span
with span("a", kind="phase", x=1) as entered: pass
span.begin("a", lane="b").end(x=1)
@region("f")
def f(): return 3
assert f() == 3 and entered.name == "a"
"""


def test_a_python_without_the_extension_runs_the_program_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, cwd=jobs.ROOT)
    assert done.returncode == 0, done.stderr
