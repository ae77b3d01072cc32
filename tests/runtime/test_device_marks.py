"""The pool of marks on devices, its clock and its windows, with a device whose time stands still until it is told."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from scalana.runtime.device.backend import Backend
from scalana.runtime.device.clock import ClockBounds
from scalana.runtime.device.collectives import Collectives, Posted
from scalana.runtime.device.pool import MOST_MARKS, Origin, Pool
from scalana.runtime.device.windows import kernels_of

AHEAD_NS = 5_000_000_000
"""What the device's clock is ahead of the host's."""


class Core:
    """What of the recorder a pool needs; the clock goes on by 1 us with each look at it."""

    def __init__(self):
        self.time_ns, self.step, self.spans, self.texts = (
            1_000_000_000,
            0,
            [],
            [
                "",
            ],
        )

    def now(self):
        self.time_ns += 1_000
        return self.time_ns

    def current_step(self):
        return self.step

    def here(self):
        return 7, self.step

    def lane(self, kind, name):
        return self.intern(name)

    def intern(self, text):
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)

    def span_at(self, kind, lane, name, start_ns, end_ns, path, step, event, attributes):
        told = {self.texts[key]: value for key, value in zip(attributes[::2], attributes[1::2])}
        self.spans.append((self.texts[lane], self.texts[name], start_ns, end_ns, step, told))


class Stream:
    device_index = 0

    def __init__(self, handle):
        self.cuda_stream = handle


class Event:
    def __init__(self, device):
        self.device, self.time_ns = device, None

    def record(self, stream):
        behind = 0 if stream.cuda_stream == 99 else self.device.behind_ns
        self.time_ns = self.device.core.time_ns + behind

    def query(self):
        return self.time_ns <= self.device.core.time_ns

    def elapsed_time(self, end_event):
        assert self.query() and end_event.query()
        return (end_event.time_ns - self.time_ns) / 1e6


class Device:
    """Every event comes so much later than it is recorded."""

    def __init__(self, core):
        self.core, self.behind_ns, self.capturing, self.made = core, 0, False, 0

    def Event(self, enable_timing):
        self.made += 1
        return Event(self)

    def Stream(self):
        return Stream(99)

    def current_stream(self):
        return Stream(1)

    def current_device(self):
        return 0

    def is_current_stream_capturing(self):
        return self.capturing


@pytest.fixture
def job():
    core = Core()
    device, notes = Device(core), []
    return SimpleNamespace(
        core=core, device=device, notes=notes, pool=Pool(Backend("cuda", device), core, notes.append)
    )


def mark_a_module(job, name="layer", behind_ns=2_000_000):
    job.device.behind_ns = behind_ns
    begun = job.pool.mark()
    host = job.core.time_ns
    job.pool.span(begun, job.pool.mark(), "module", name, ("direction", "forward"))
    return host


def test_a_span_lies_where_the_device_was_on_the_axis_of_the_host(job):
    host = mark_a_module(job)
    assert not job.core.spans
    job.core.time_ns += 10_000_000
    job.pool.finish()
    ((lane, name, start, end, step, told),) = job.core.spans
    assert (lane, name, step, told["kind"], told["direction"]) == ("cuda:0 stream 0", "layer", 0, "module", "forward")
    assert start == pytest.approx(host + 2_000_000, abs=5_000)
    assert 0 < end - start < 10_000
    assert told["queued_ns"] == pytest.approx(2_000_000, abs=5_000)
    assert told["behind_ns"] == pytest.approx(2_000_000, abs=5_000)


def test_nothing_is_read_before_it_has_come_and_what_never_does_is_counted(job):
    mark_a_module(job, behind_ns=10**15)
    job.core.step = 1
    mark_a_module(job, behind_ns=10**15)
    assert not job.core.spans
    job.pool.finish()
    assert not job.core.spans
    assert job.notes == ["device: 2 spans of the device are dropped: it did not reach their ends"]


def test_events_are_used_again(job):
    for step in range(50):
        job.core.step = step
        mark_a_module(job)
        job.core.time_ns += 10_000_000
    job.pool.finish()
    assert len(job.core.spans) == 50 and not job.notes
    assert job.device.made <= 6


def test_a_device_that_is_far_behind_loses_its_oldest_steps(job):
    for step in range(12):
        job.core.step = step
        mark_a_module(job, behind_ns=10**12)
    assert len(job.notes) == 1 and "the device is far behind" in job.notes[0]


def test_marks_of_a_step_have_an_end(job):
    marks = [job.pool.mark() for _ in range(MOST_MARKS + 3)]
    assert marks[-5:].count(-1) == 4 and len(job.notes) == 1
    job.pool.span(marks[0], marks[-1], "module", "whole")
    job.core.time_ns += 10_000_000
    job.pool.finish()
    assert not job.core.spans


def test_nothing_is_recorded_or_looked_at_while_a_graph_is_captured(job):
    job.device.capturing = True
    job.device.current_stream = None
    assert job.pool.mark() == -1
    job.pool.span(-1, -1, "module", "layer")
    job.pool.finish()
    assert not job.core.spans and not job.notes


def test_an_end_in_another_step_is_not_known(job):
    job.device.behind_ns = 100_000
    begun = job.pool.mark()
    job.core.step = 1
    job.pool.span(
        begun, job.pool.mark(), "kernel", "allreduce", ("collective", "allreduce"), Origin(12, "communication")
    )
    job.core.time_ns += 10_000_000
    job.pool.finish()
    ((lane, _, start, end, _, told),) = job.core.spans
    assert lane == "communication" and start == end and "behind_ns" not in told


def test_a_step_in_which_something_else_is_looked_at_is_left_out(job):
    job.pool.leave_out(3)
    for step in range(2, 5):
        job.core.step = step
        mark_a_module(job, behind_ns=0)
    job.core.time_ns += 10_000_000
    job.pool.finish()
    assert [step for _, _, _, _, step, _ in job.core.spans] == [2, 4] and not job.notes


def test_streams_are_told_apart_by_what_torch_says_of_them(job, monkeypatch):
    """Of each stream one object is made, however often it is the current one."""
    now, made = [7], []

    def current_stream():
        made.append(now[0])
        return Stream(now[0])

    inside = SimpleNamespace(_cuda_getDevice=lambda: 0, _cuda_getCurrentStream=lambda device: (now[0], device, 1))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=inside))
    job.device.current_stream = current_stream
    backend = Backend("cuda", job.device)
    keys = []
    for now[0] in (7, 7, 8, 7, 8):
        stream, key = backend.stream()
        keys.append(key)
        assert stream.cuda_stream == now[0]
    assert keys == [(0, 7), (0, 7), (0, 8), (0, 7), (0, 8)] and made == [7, 8]


def test_collectives_whose_work_comes_to_lie_where_an_earlier_one_lay_are_kept(job):
    """C++ waits for them, and nothing tells that the first is over before the second is launched. A device that keeps
    up is done with a step when the next one begins, which is when these are written."""
    collectives, work = Collectives(), object()
    collectives.follow(job.pool)
    for step in range(2):
        job.core.step = step
        for event in (11, 12):
            collectives.launched(Posted(job.pool, job.pool.mark(), event, 1, (7, step)), work, waits=False)
        job.core.time_ns += 10_000_000
    job.core.step = 2
    mark_a_module(job)
    assert [step for _, _, _, _, step, _ in job.core.spans] == [0, 0, 1, 1]


def test_what_a_device_raises_becomes_one_note(job):
    def broken():
        raise RuntimeError("device lost")

    job.device.current_stream = broken
    assert [job.pool.mark() for _ in range(3)] == [-1, -1, -1]
    assert job.notes == ["device: marks on the device end: RuntimeError: device lost"]


def test_a_clock_is_bounded_from_both_sides():
    clock = ClockBounds()
    clock.recorded(100, AHEAD_NS + 130)
    assert clock.offset_ns == 100 - AHEAD_NS - 130 and clock.uncertain_ns == -1
    clock.recorded(200, AHEAD_NS + 204)
    clock.seen(214, AHEAD_NS + 204)
    clock.seen(900, AHEAD_NS + 300)
    assert (clock.offset_ns, clock.uncertain_ns) == (3 - AHEAD_NS, 7)


def test_what_was_known_of_a_clock_still_holds_but_for_drift():
    earlier, later, contradicts = ClockBounds(), ClockBounds(), ClockBounds()
    earlier.low_ns, earlier.high_ns = 1_000, 1_040
    later.low_ns, later.high_ns = 2_000_900, 2_900_000
    both = later.since(earlier, 2_000_000)
    assert (both.low_ns, both.high_ns) == (2_000_900, 2_001_240)
    assert later.since(ClockBounds(), 2_000_000) is later
    contradicts.low_ns, contradicts.high_ns = 2_500_000, 2_500_010
    assert contradicts.since(earlier, 2_000_000) is contradicts


def test_a_host_far_ahead_of_its_device_has_the_clock_of_steps_in_which_it_was_not(job, monkeypatch):
    mark_a_module(job)
    job.core.step, job.core.time_ns = 1, job.core.time_ns + 10_000_000
    monkeypatch.setattr(Event, "record", record_behind(900_000_000))
    host = mark_a_module(job, behind_ns=500_000_000)
    job.core.time_ns += 2_000_000_000  # all have come long ago when they are seen
    job.pool.finish()
    _, (_, _, start, _, step, told) = job.core.spans
    assert step == 1
    assert start == pytest.approx(host + 500_000_000, abs=200_000)
    assert told["queued_ns"] == pytest.approx(500_000_000, abs=200_000)


def record_behind(private_ns):
    """What comes late on the stream of our own too, as where it shares a queue with others."""

    def record(event, stream):
        event.time_ns = event.device.core.time_ns
        event.time_ns += private_ns if stream.cuda_stream == 99 else event.device.behind_ns

    return record


def event(name, device, start, length, correlation, linked=0, annotation=False):
    values = {
        "name": name, "device_type": device, "start_ns": start, "duration_ns": length, "correlation_id": correlation,
        "linked_correlation_id": linked, "is_user_annotation": annotation, "device_index": 0, "device_resource_id": 7,
    }  # fmt: skip
    return SimpleNamespace(**{key: lambda value=value: value for key, value in values.items()})


def test_kernels_of_torchs_profiler_know_their_launches():
    ahead = 10**18
    events = [
        event("cudaLaunchKernel", "cpu", ahead + 100, 5, 31),
        event("aten::mm", "cpu", ahead + 90, 20, 4),
        event("gemm", "cuda", ahead + 500, 80, 31, 4),
        event("Memcpy HtoD", "cuda", ahead + 600, 10, 55, 4),
        event("region", "cuda", ahead + 400, 300, 0, annotation=True),
        event("orphan", "cuda", ahead + 700, 10, 77),
    ]
    found = kernels_of(events, "cpu", "cuda", ahead)
    assert [(k.name, k.start_ns, k.end_ns, k.launched_ns) for k in found] == [
        ("gemm", 500, 580, 100), ("Memcpy HtoD", 600, 610, 90), ("orphan", 700, 710, 700)
    ]  # fmt: skip
    assert found[0].stream == "cuda:0 kernels of stream 7"
