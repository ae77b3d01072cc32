"""How long collectives took, as a flight recorder like torch's says it."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from scalana.runtime.chosen_steps import COST
from scalana.runtime.device import durations
from scalana.runtime.device.backend import Backend
from scalana.runtime.device.durations import Durations, key_of, of_torch
from scalana.runtime.device.pool import Origin, Pool
from tests.runtime.test_device_marks import Core, Device

MS = 1_000_000


def entry(number, took_ms=None, group="0", is_p2p=False):
    told = {} if took_ms is None else {"duration_ms": took_ms}
    return {"process_group": (group, "default_pg"), "collective_seq_id": number, "is_p2p": is_p2p, **told}


class Recorder:
    """A flight recorder, and a clock that goes on by 10 ms with each look at it."""

    def __init__(self, *entries):
        self.entries, self.dumps, self.time_ns = list(entries), 0, 0

    def dump(self):
        self.dumps += 1
        return pickle.dumps({"version": "2.10", "entries": self.entries}, protocol=2)

    def clock(self):
        self.time_ns += 10 * MS
        return self.time_ns


def test_collectives_are_found_by_group_and_number():
    recorder = Recorder(
        entry(1, 2.5), entry(2), entry(1, 7.0, "other"), entry(3, 9.0, is_p2p=True), entry(4, 1.0), entry(5, 1.0)
    )
    found = Durations(recorder.dump).read([("0", 1), ("0", 2), ("0", 3), ("0", 4), ("other", 1), ("gone", 1)])
    assert found == {("0", 1): 2_500_000, ("0", 4): 1_000_000, ("other", 1): 7_000_000}


def test_reading_takes_a_small_part_of_the_time():
    recorder = Recorder(entry(1, 1.0))
    known = Durations(recorder.dump, recorder.clock)
    for _ in range(4_000):  # each takes 10 ms, and so does being too early
        known.read([("0", 1)])
    assert 1 < recorder.dumps <= COST * 4_000 + 1
    assert known.read([("0", 1)], at_any_price=True) == {("0", 1): MS}


class Job:
    """Steps with one collective each."""

    def __init__(self, recorder):
        self.core, self.notes = Core(), []
        self.pool = Pool(
            Backend("cuda", Device(self.core)), self.core, self.notes.append, Durations(recorder.dump, lambda: 0)
        )

    def step(self, number):
        self.core.step = number
        begun = self.pool.mark()
        self.pool.timed(begun, number, ("0", number))
        self.pool.span(begun, self.pool.mark(), "kernel", "allreduce", (), Origin(number, "communication"))
        self.core.time_ns += 10 * MS

    def told(self):
        return [(step, told.get("kernel_ns")) for _, _, _, _, step, told in self.core.spans]


def test_a_step_waits_for_what_torch_learns_late():
    recorder = Recorder()
    job = Job(recorder)
    job.step(1)
    job.step(2)
    assert not job.told()
    recorder.entries = [entry(1, 3.0)]
    job.step(3)
    assert job.told() == [(1, 3 * MS)]
    job.pool.finish()
    assert job.told() == [(1, 3 * MS), (2, None), (3, None)] and not job.notes


def test_what_torch_never_learns_holds_up_a_few_steps_only():
    job = Job(Recorder())
    for number in range(1, 13):
        job.step(number)
    assert job.told() == [(number, None) for number in range(1, 9)]
    job.pool.finish()
    assert len(job.told()) == 12 and not job.notes


def test_what_cannot_be_read_is_told_once():
    job = Job(SimpleNamespace(dump=lambda: b"no pickle"))
    for number in range(1, 5):
        job.step(number)
    job.pool.finish()
    assert job.told() == [(number, None) for number in range(1, 5)]
    assert len(job.notes) == 1 and "durations of collectives are not recorded" in job.notes[0]


@pytest.mark.parametrize(
    ("device", "value", "dumps", "has"),
    [("cuda", "1", True, True), ("cuda", "True", True, True), ("cuda", "0", True, False), ("cuda", None, True, False),
     ("cuda", "1", False, False), ("xpu", "1", True, False)],
)  # fmt: skip
def test_nothing_is_read_where_nothing_is_measured(monkeypatch, device, value, dumps, has):
    for name in durations.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv("TORCH_NCCL_ENABLE_TIMING", value)
    asked = []

    def dump(includeStackTraces):
        asked.append(includeStackTraces)
        return Recorder(entry(1, 1.0)).dump()

    bindings = SimpleNamespace(_dump_nccl_trace=dump) if dumps else SimpleNamespace()
    monkeypatch.setitem(durations.sys.modules, "torch._C._distributed_c10d", bindings)
    known = of_torch(device)
    assert (known is not None) == has
    if known is not None:
        assert known.read([("0", 1)]) == {("0", 1): MS} and asked == [False]


def test_the_number_is_that_of_the_backend_of_the_tensor():
    backends = {"cuda": SimpleNamespace(_get_sequence_number_for_group=lambda: 7)}
    group = SimpleNamespace(group_name="3", _get_backend=backends.__getitem__)
    assert key_of(group, SimpleNamespace(device="cuda")) == ("3", 7)
