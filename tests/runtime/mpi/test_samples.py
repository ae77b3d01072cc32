"""Samples of native code say where a thread was at their own time."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.structure.psg import VertexKind
from scalana.runtime.operations import BY_NAME

from .conftest import Mpi, under_one_mpi
from .test_native import lines_of

pytestmark = [pytest.mark.slow, pytest.mark.measured]

# After its time is taken, a call is not left yet: its CPU clock is read, and an interrupt may come before the signal.
_LEAVING_NS = 200_000


@pytest.mark.parametrize("way", ["kernel", "signal"])
def test_samples_show_a_call_only_while_it_lasts(mpi: Mpi, way: str) -> None:
    # A thread may have entered a call since the sample that is read was taken.
    folder = mpi.record(3, mpi.compile("short_calls.c"), SCALANA_NATIVE_SAMPLES=way)
    shown = stray = 0
    for record in RunFolder(folder).processes():
        events = record.events
        enter = np.asarray(events.enter_ns)
        order = np.argsort(enter)
        enter, leave = enter[order], (enter + np.asarray(events.duration_ns))[order]
        ours = np.asarray(record.samples.thread) == np.asarray(events.thread)[0]
        time, path = np.asarray(record.samples.time_ns)[ours], np.asarray(record.samples.path)[ours]
        call = np.maximum(np.searchsorted(enter, time, side="right") - 1, 0)
        outside = (time < enter[call]) | (time > leave[call] + _LEAVING_NS)
        shown += len(time)
        stray += int((outside & np.isin(path, np.asarray(events.path))).sum())
    assert shown > 50
    assert stray <= 0.02 * shown


@pytest.mark.parametrize("way", ["kernel", "signal"])
@under_one_mpi
def test_samples_show_what_a_thread_does_in_the_kernel(mpi: Mpi, way: str) -> None:
    if way == "kernel" and os.geteuid() and int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 1:
        pytest.skip("the kernel does not let this user sample its time")
    (record,) = RunFolder(mpi.record(1, mpi.compile("system_calls.c"), SCALANA_NATIVE_SAMPLES=way)).processes()
    events = record.events
    enter, leave = np.asarray(events.enter_ns), np.asarray(events.enter_ns) + np.asarray(events.duration_ns)
    at = int(np.argmax(enter[1:] - leave[:-1]))  # between the barriers
    ours = np.asarray(record.samples.thread) == np.asarray(events.thread)[at]
    time = np.asarray(record.samples.time_ns)[ours]
    assert ((time > leave[at]) & (time < enter[at + 1])).sum() > 25  # of 80, or fewer where others have its core


@under_one_mpi
def test_no_system_call_is_cut_short_by_a_sample(mpi: Mpi) -> None:
    (record,) = RunFolder(mpi.record(1, mpi.compile("short_waits.c"))).processes()
    cut, _, waits = mpi.output.split()
    assert (np.asarray(record.samples.cpu_us) > 0).sum() > 50
    assert int(cut) == 0 < int(waits)


@pytest.mark.parametrize("way", ["block", "take"])
@under_one_mpi
def test_a_program_may_block_the_signal_of_samples_or_take_it(mpi: Mpi, way: str) -> None:
    (record,) = RunFolder(mpi.record(1, mpi.compile("own_signals.c"), way)).processes()
    events = record.events
    barrier = np.flatnonzero(np.asarray(events.operation) == BY_NAME["barrier"].code)
    start, last = np.asarray(events.enter_ns), np.asarray(events.duration_ns)
    leave, enter = start[barrier[0]] + last[barrier[0]], start[barrier[1]]
    ours = np.asarray(record.samples.thread) == np.asarray(events.thread)[barrier[0]]
    time = np.asarray(record.samples.time_ns)[ours]
    late = (time > leave + (enter - leave) / 3) & (time < enter)
    # Of 200, where the kernel samples the thread then.
    assert late.sum() > 20 or record.meta["sampler"] == "timers" and not _kernel_samples()
    assert mpi.output.split()[-1] == ("0" if way == "block" else "1")


def _kernel_samples() -> bool:
    return os.geteuid() == 0 or int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) <= 2


@pytest.mark.long
def test_ranks_that_take_turns_on_their_cores_are_sampled_evenly(mpi: Mpi) -> None:
    # They do so when the kernel keeps time, and timers of CPU time end then, too: always in the same part of a step.
    if not _kernel_samples():
        pytest.skip("the kernel does not let this user sample")
    frame = scalana.analyze(mpi.record(4, mpi.compile("takes_turns.c"))).frame()
    told = frame.groupby("function")["cpu_s"].sum()
    truth = np.array([line.split()[1:] for line in mpi.output.splitlines()], float).sum(axis=0)
    for name, seconds in zip(("first", "second"), truth, strict=True):
        assert 0.7 * seconds < told[name] < 1.4 * seconds, (name, seconds, told[name])


@pytest.mark.long
@under_one_mpi
def test_samples_of_who_runs_for_long_are_all_kept(mpi: Mpi) -> None:
    # The sampler wakes up less often then, and finds more of them at once.
    (record,) = RunFolder(mpi.record(1, mpi.compile("runs_on.c"), "4.5")).processes()
    samples, main = record.samples, next(t.index for t in record.threads.values() if t.is_main)
    ours = np.asarray(samples.thread) == main
    time, cpu_s = np.asarray(samples.time_ns)[ours], np.asarray(samples.cpu_us)[ours] * 1e-6
    late = time > time[-1] - 1_500_000_000
    assert late.sum() > 160 * cpu_s[late].sum()
    assert cpu_s[late].max() < 0.1


@pytest.mark.long
@under_one_mpi
def test_what_lies_amid_a_short_gap_is_told_no_more_than_it_took(mpi: Mpi) -> None:
    # One sample falls into a gap, or two do; the middle is found alone.
    frame = scalana.analyze(mpi.record(2, mpi.compile("three_parts.c"), "6.6", "4")).frame()
    told = frame.groupby("function")["cpu_s"].sum()
    truth = np.array([line.split()[1:] for line in mpi.output.splitlines()], float).sum(axis=0)
    for name, seconds in zip(("begins", "goes_on", "ends"), truth, strict=True):
        assert 0.86 * seconds < told[name] < 1.14 * seconds, (name, seconds, told[name])


@under_one_mpi
def test_stacks_that_a_program_makes_itself_are_read(mpi: Mpi) -> None:
    frame = scalana.analyze(mpi.record(1, mpi.compile("other_stacks.c"))).frame()
    work = frame[frame["kind"] != "comm"]
    assert work[work["function"] == "compute"]["cpu_s"].sum() > 0.8 * work["cpu_s"].sum() > 0.1


@under_one_mpi
def test_callers_of_a_function_at_rest_are_found_beside_traces_of_others(mpi: Mpi) -> None:
    ppg = scalana.analyze(mpi.record(1, mpi.compile("rests_deep.c"))).ppg
    seconds: dict[tuple[str, ...], float] = defaultdict(float)
    own = ppg.timeline.own
    for vertex, taken in zip(ppg.timeline.activities.vertex[own.activity], own.seconds, strict=True):
        above = (ppg.psg[int(vertex)], *ppg.psg.ancestors(int(vertex)))
        seconds[tuple(v.place.name for v in above if v.kind is VertexKind.FUNCTION)] += taken
    asleep = {path: s for path, s in seconds.items() if "rest" in path}
    assert asleep[("rest", "outer", "main")] > 0.95 * sum(asleep.values()) > 0.5
    assert sum(asleep.values()) > 0.9 * sum(seconds.values())


@pytest.mark.long
def test_moments_without_a_core_are_no_work_and_deep_stacks_are_seen_whole(mpi: Mpi) -> None:
    folder = mpi.record(1, mpi.compile("short_sleeps.c"))
    (record,) = RunFolder(folder).processes()
    events = record.events
    barriers = np.flatnonzero(np.asarray(events.operation) == BY_NAME["barrier"].code)
    first, last = barriers[0], barriers[-1]
    # The kernel puts some 50 us on top of every sleep; a thread in it loses its core.
    wall = events.enter_ns[last] - events.enter_ns[first]
    cpu = events.cpu_enter_ns[last] - events.cpu_enter_ns[first]
    truth = 1e9 * float(mpi.output.partition("cpu seconds:")[2].split()[0])
    assert len(barriers) == 2000 and abs(cpu - truth) < 0.1 * wall
    # Less is copied of a stack that was shallow for a while: a deep one is noticed, and shown with all its frames.
    frame = scalana.analyze(folder).frame()
    inside = frame[frame["function"].isin(["deep", "work"])]
    worked_ns = events.cpu_enter_ns[len(events) - 1] - events.cpu_enter_ns[last + 1]
    assert inside["cpu_s"].sum() > 0.8e-9 * worked_ns
    assert max(len(record.steps(path)) for path in set(record.samples.path)) >= 12


@pytest.mark.long
@under_one_mpi
def test_a_thread_that_starts_programs_is_seen_where_it_does(mpi: Mpi) -> None:
    """The library's code for it (clone) has no unwind table where the thread waits for the other program to begin."""
    folder = mpi.record(1, mpi.compile("starts_others.c", "-O2"))
    frame = scalana.analyze(folder).frame()
    work = frame[frame["kind"] != "comm"]
    assert work["time_s"].sum() > 0.05
    assert work[work["function"] == "start"]["time_s"].sum() > 0.9 * work["time_s"].sum()


@under_one_mpi
def test_short_rests_between_what_runs_are_told_apart(mpi: Mpi) -> None:
    """A look finds one rest in some, and a period of CPU time is as long as the run between two of them."""
    folder = mpi.record(1, mpi.compile("runs_and_rests.c", "-O2"))
    words = mpi.output.split()
    ran_s, rested_s = float(words[1]), float(words[3])
    frame = scalana.analyze(folder).frame()
    frame = frame[frame["kind"] != "comm"]
    lines = (lines_of("runs_and_rests.c", "/* runs */"), lines_of("runs_and_rests.c", "/* rests */"))
    at_work, at_rest = (frame[frame["line"].between(min(of) - 1, max(of))] for of in lines)
    # Quiet cores give 1 and 0 to within some hundredths; other programs on them blur what is seen. The program's clock
    # counts how long it waits for a core when a sleep is over, too; without that, 150 sleeps of 4 ms are 0.6 s.
    rest_s = (at_rest["time_s"] - at_rest["core_wait_s"]).sum()
    assert 0.65 * 0.6 < rest_s < 1.35 * rested_s
    assert at_rest["stall_s"].sum() > 3.0 * at_work["stall_s"].sum()
    assert 0.65 < at_work["cpu_s"].sum() / ran_s < 1.35
    assert at_work["stall_s"].sum() < 0.3 * rested_s


@pytest.mark.long
@under_one_mpi
def test_threads_that_live_for_a_step_are_seen(mpi: Mpi) -> None:
    folder = mpi.record(2, mpi.compile("short_threads.c", "-pthread"))
    record = next(record for record in RunFolder(folder).processes() if record.rank == 1)
    if record.meta["sampler"] == "none":
        pytest.skip("the kernel takes no samples for this user")
    others = [index for index, thread in record.threads.items() if not thread.is_main]
    seen_s = np.asarray(record.samples.cpu_us)[np.isin(record.samples.thread, others)].sum() / 1e6
    # Two thirds where the cores are free, 0.36 to 0.44 with four more programs on two cores: the sampler comes later.
    assert 0.25 * 120 * 0.012 < seen_s < 1.1 * 120 * 0.012
    first = scalana.analyze(folder).findings[0]
    assert first.line in lines_of("short_threads.c", "/* slow */") and first.ranks == [1]
