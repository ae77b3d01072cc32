"""Alignment of host clocks from synthetic completions."""

from __future__ import annotations

import numpy as np
import pytest

from scalana import api
from scalana.graphs.readers.columns.clocks import estimate_clocks
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_ANY_SOURCE, EVENT_BLOCKING, EVENT_NUMBERED
from scalana.runtime.record.run_writer import RunWriter
from tests.tools.call_run import Process


def _run(offsets_s, drifts, guess_error_s, ticks=2000, seconds=30.0, noise_s=30e-6, outliers=0.02, seed=1, keep=None):
    """Completions of common ticks, as the hosts' own clocks show them; returns estimate and worst error in seconds."""
    rng = np.random.default_rng(seed)
    true = np.sort(rng.uniform(0.0, seconds, ticks))
    tick, host, time = [], [], []
    for h, (offset, drift) in enumerate(zip(offsets_s, drifts, strict=True)):
        late = rng.exponential(noise_s, ticks) + (rng.random(ticks) < outliers) * rng.exponential(0.02, ticks)
        shown = offset + (true + late) * (1.0 + drift)
        chosen = np.arange(ticks) if keep is None else np.flatnonzero(keep(h, np.arange(ticks)))
        tick.append(chosen)
        host.append(np.full(len(chosen), h))
        time.append(np.rint(shown[chosen] * 1e9).astype(np.int64))
    guess = -np.rint((np.array(offsets_s) + np.array(guess_error_s)) * 1e9).astype(np.int64)
    clocks = estimate_clocks(guess, np.concatenate(tick), np.concatenate(host), np.concatenate(time))
    probe = np.linspace(0.0, seconds, 50)
    reference = offsets_s[0] + probe * (1.0 + drifts[0])
    errors = [
        np.abs(clocks.align(h, np.rint((o + probe * (1 + d)) * 1e9).astype(np.int64)) * 1e-9 - reference).max()
        for h, (o, d) in enumerate(zip(offsets_s, drifts, strict=True))
    ]
    return clocks, errors


def test_offset_of_seconds_and_drift_of_50_ppm():
    clocks, errors = _run([1000.0, 1003.5, 12.25], [0.0, 50e-6, -35e-6], [0.0, 0.3, -2.0])
    assert max(errors) < 30e-6
    assert clocks.drift[1] == pytest.approx(-50e-6, abs=2e-6)
    assert clocks.drift[2] == pytest.approx(35e-6, abs=2e-6)


def test_without_drift_none_is_invented():
    clocks, errors = _run([5.0, 905.0], [0.0, 0.0], [0.0, 0.01], ticks=300, seconds=4.0)
    assert max(errors) < 30e-6
    assert abs(clocks.drift[1]) < 5e-6


def test_host_that_shares_ticks_only_with_another_than_the_first():
    # Host 2 meets host 1 only, and host 1 meets host 0 only in the other half of the ticks.
    def keep(h, tick):
        return {0: tick % 2 == 0, 1: tick >= 0, 2: tick % 2 == 1}[h]

    _, errors = _run([0.0, 40.0, 80.0], [0.0, 20e-6, 40e-6], [0.0, 1.0, -1.0], keep=keep)
    assert max(errors) < 60e-6


def test_few_ticks_give_an_offset_and_no_drift():
    clocks, errors = _run([0.0, 7.0], [0.0, 0.0], [0.0, 0.5], ticks=4, outliers=0.0)
    assert clocks.drift[1] == 0.0
    assert clocks.ticks[1] == 4
    assert errors[1] < 100e-6


def test_without_common_ticks_the_real_time_clock_stays():
    none = np.zeros(0, np.int64)
    clocks = estimate_clocks(np.array([100, 350], np.int64), none, none, none)
    assert clocks.align(1, np.array([1000], np.int64)).tolist() == [1250]
    assert clocks.ticks.tolist() == [0, 0]


def test_host_zero_keeps_its_own_axis():
    clocks, _ = _run([1000.0, 1003.5], [10e-6, 50e-6], [0.0, 0.0])
    t = np.array([1_000_000_000_000, 1_020_000_000_001], np.int64)
    assert clocks.align(0, t).tolist() == t.tolist()


def test_hosts_that_hand_things_to_each_other_are_aligned_by_that():
    """There and back within 0.2 ms at best, and mostly far later; the third host knows the second alone."""
    rng = np.random.default_rng(2)
    true_s = {0: 100.0, 1: 103.25, 2: 3.5}
    rows = []
    for source, target in ((0, 1), (1, 0), (1, 2), (2, 1)):
        for sent in rng.uniform(0.0, 60.0, 200):
            took = 1e-4 + rng.exponential(0.01)
            shown = (true_s[source] + sent, true_s[target] + sent + took)
            rows.append((source, target, *(round(each * 1e9) for each in shown), 0))
    none = np.zeros(0, np.int64)
    guess = np.zeros(3, np.int64)
    clocks = estimate_clocks(guess, none, none, none, np.array(rows).T)
    assert clocks.offset_ns[1] == pytest.approx(-3.25e9, abs=2e5)
    assert clocks.offset_ns[2] == pytest.approx(96.5e9, abs=4e5)
    assert clocks.ticks.tolist() == [0, 400, 400]
    one_way = np.array(rows).T[:, :200]
    assert estimate_clocks(guess, none, none, none, one_way).offset_ns.tolist() == [0, 0, 0]


@pytest.mark.parametrize("drift", [0.0, 50e-6, -80e-6])
@pytest.mark.parametrize("ticks", [0, 2])
@pytest.mark.parametrize("error_s", [0.02, 60.0])
def test_clocks_that_drift_are_aligned_by_messages_alone(drift: float, ticks: int, error_s: float) -> None:
    """There and back within 0.2 ms at best, for ten minutes; the time of day is wrong. Two ticks, as the begin and the
    end of MPI are, show an offset alone."""
    rng = np.random.default_rng(4)

    def shown_ns(host: int, true_s: float) -> int:
        return round((100.0 + true_s if host == 0 else 103.25 + true_s * (1.0 + drift)) * 1e9)

    rows = []
    for source, target in ((0, 1), (1, 0)):
        for sent_s in np.sort(rng.uniform(0.0, 600.0, 600)):
            took_s = 1e-4 + rng.exponential(0.01)
            rows.append((source, target, shown_ns(source, sent_s), shown_ns(target, sent_s + took_s), 0))
    at_s = np.linspace(0.0, 600.0, ticks)
    tick, host = np.tile(np.arange(ticks), 2), np.repeat(np.arange(2), ticks)
    complete_ns = np.array([shown_ns(which, at) for which in range(2) for at in at_s], np.int64)
    guess = np.array([0, round((error_s - 3.25) * 1e9)], np.int64)
    clocks = estimate_clocks(guess, tick, host, complete_ns, np.array(rows).T)
    for true_s in (0.0, 150.0, 300.0, 450.0, 600.0):
        aligned = int(clocks.align(1, np.array([shown_ns(1, true_s)], np.int64))[0])
        assert aligned == pytest.approx(shown_ns(0, true_s), abs=1.5e6)


@pytest.mark.parametrize("drift", [0.0, 50e-6, -80e-6])
@pytest.mark.parametrize(("source", "error_s"), [(0, 60.0), (1, 0.02), (1, -60.0)])
def test_messages_one_way_that_were_waited_for_are_ticks(drift: float, source: int, error_s: float) -> None:
    """Each comes within some milliseconds, for ten minutes; one in ten had come before it was taken."""
    rng = np.random.default_rng(5)

    def shown_ns(host: int, true_s: float) -> int:
        return round((100.0 + true_s if host == 0 else 103.25 + true_s * (1.0 + drift)) * 1e9)

    rows = []
    for sent_s in np.sort(rng.uniform(0.0, 600.0, 600)):
        waited = rng.random() < 0.9
        came_s = sent_s + 1e-4 + rng.exponential(1e-3 if waited else 1.0)
        rows.append((source, 1 - source, shown_ns(source, sent_s), shown_ns(1 - source, came_s), 30_000_000 * waited))
    none = np.zeros(0, np.int64)
    guess = np.array([0, round((error_s - 3.25) * 1e9)], np.int64)
    clocks = estimate_clocks(guess, none, none, none, np.array(rows).T)
    assert clocks.ticks[1] > 500
    for true_s in (0.0, 300.0, 600.0):
        aligned = int(clocks.align(1, np.array([shown_ns(1, true_s)], np.int64))[0])
        assert aligned == pytest.approx(shown_ns(0, true_s), abs=1.5e6)


@pytest.mark.parametrize("names", [("broadcast",), ("reduce",), ("scatter", "gather")])
def test_what_a_root_hands_out_or_gets_aligns_clocks(tmp_path, names):
    """Rank 1 is on a host whose time of day is a minute off; it comes late to each other call, the root to the rest."""
    run, ahead_s = RunWriter(tmp_path, {"command": ["modelled"], "exit_code": 0}), 500.0
    for rank in range(2):
        start = round((1000.0 + rank * ahead_s) * 1e9)
        meta = {"world_size": 2, "start_ns": start, "unix_ns": 10**18 + rank * 60_000_000_000}
        with run.process(f"host{rank}", rank=rank, **meta) as writer:
            writer.thread(0, rank + 1)
            writer.group(1, "world", rank, range(2))
            for number in range(40):
                begin_ns = 100_000_000 * (number + 1) + 40_000_000 * (number % 2 == rank)
                ends_ns = 100_000_000 * (number + 1) + 40_200_000
                writer.event(
                    number + 2,
                    BY_NAME[names[number % len(names)]].code,
                    start + begin_ns,
                    ends_ns - begin_ns,
                    group=1,
                    seq=number,
                    peer=0,
                    nbytes=8,
                    cpu_ns=-1,
                    flags=EVENT_BLOCKING,
                )
            writer.end(start + 5_000_000_000)
    ppg = api.analyze(tmp_path).ppg
    assert not any("time of day" in warning for warning in ppg.run.warnings)
    starts = ppg.timeline.locations.start_s
    assert abs(starts[1] - starts[0]) < 0.001


def test_an_actor_on_another_host_is_called_and_answers_at_times_of_one_axis(tmp_path):
    """Its clocks are 40 ms ahead, that of the calendar, too."""
    run = RunWriter(tmp_path, {"command": ["modelled"], "exit_code": 0})
    driver, actor = Process(run, "driver", 0), Process(run, "Far", 1, "second", ahead_s=0.04)
    for number in range(1, 6):
        begin = 0.2 * number
        driver.call("submit", number, begin, begin)
        actor.do(number, begin + 0.001, begin + 0.1)
        driver.call("result", number, begin, begin + 0.101)
    for each in (driver, actor):
        each.end(1.2)
    timeline = api.analyze(tmp_path).ppg.timeline
    assert timeline.locations.start_s.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    takes = timeline.calls.exit_s[timeline.calls.operation == BY_NAME["take"].code]
    assert takes.tolist() == pytest.approx([0.2 * number + 0.001 for number in range(1, 6)], abs=1e-6)


@pytest.mark.parametrize("error_s", [0.02, 60.0])
@pytest.mark.parametrize("received", [0, EVENT_ANY_SOURCE | EVENT_NUMBERED, EVENT_ANY_SOURCE])
def test_messages_both_ways_count_before_the_time_of_day(tmp_path, error_s, received):
    """Rank 1 is on a host whose time of day is wrong, and answers each message of rank 0's after 100 ms."""
    any_source = received == EVENT_ANY_SOURCE
    run, ahead_s = RunWriter(tmp_path, {"command": ["modelled"], "exit_code": 0}), 500.0
    for rank in range(2):
        start = round((1000.0 + rank * ahead_s) * 1e9)
        unix_ns = 10**18 + rank * round(error_s * 1e9)
        meta = {"world_size": 2, "start_ns": start, "unix_ns": unix_ns}
        with run.process(f"host{rank}", rank=rank, **meta) as writer:
            writer.thread(0, rank + 1)
            writer.group(1, "world", rank, range(2))
            for number in range(20):
                sent = 0.2 * (number + 1)
                calls = [("send", sent, 0.001), ("recv", sent + 0.001, 0.0992)]
                if rank == 1:  # each message takes 0.2 ms
                    calls = [("recv", sent - 0.05, 0.0502), ("send", sent + 0.1, 0.001)]
                for row, (name, begin, seconds) in enumerate(calls):
                    writer.event(
                        2 * number + row + 2,
                        BY_NAME[name].code,
                        start + round(begin * 1e9),
                        round(seconds * 1e9),
                        group=1,
                        seq=number,
                        peer=1 - rank,
                        tag=0,
                        cpu_ns=-1,
                        flags=EVENT_BLOCKING | (received if name == "recv" else 0),
                    )
            writer.end(start + 5_000_000_000)
    ppg = api.analyze(tmp_path).ppg
    by_time_of_day = any("time of day only" in warning for warning in ppg.run.warnings)
    starts = ppg.timeline.locations.start_s
    assert by_time_of_day == any_source
    if not any_source:
        assert abs(starts[1] - starts[0]) < 0.001


def test_messages_correct_ticks_that_contradict_them():
    """Two ticks, each 50 ms late on host 1, and messages there and back that take 0.1 ms."""
    tick, host = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    time = np.array([0, 50_000_000, 4_000_000_000, 4_050_000_000])
    sent = np.arange(1, 40) * 100_000_000
    ways = [np.stack((np.full(39, a), np.full(39, 1 - a), sent, sent + 100_000, 0 * sent)) for a in range(2)]
    guess = np.zeros(2, np.int64)
    assert estimate_clocks(guess, tick, host, time).offset_ns[1] == pytest.approx(-5e7, abs=1e5)
    both = estimate_clocks(guess, tick, host, time, np.concatenate(ways, axis=1))
    assert both.offset_ns[1] == pytest.approx(0, abs=1e5)
    one = estimate_clocks(guess, tick, host, time, ways[0])
    assert one.offset_ns[1] == pytest.approx(-1e5, abs=1e4)
    agreeing = estimate_clocks(guess, tick, host, time - np.array([0, 50_000_000] * 2), np.concatenate(ways, axis=1))
    assert agreeing.offset_ns[1] == 0


def test_a_message_that_was_waited_for_says_more_than_one_that_had_come_before():
    """Host 1 answers at once, and takes each message 100 ms after it has come."""
    none, sent = np.zeros(0, np.int64), np.arange(1, 40) * 300_000_000
    zero, one = np.zeros(39, np.int64), np.ones(39, np.int64)
    there = np.stack((zero, one, sent, sent + 100_000_000, zero))
    back = np.stack((one, zero, sent + 100_000_000, sent + 100_050_000, zero + 100_000_000))
    clocks = estimate_clocks(np.array([0, 20_000_000]), none, none, none, np.concatenate((there, back), axis=1))
    assert clocks.offset_ns[1] == pytest.approx(0, abs=1e5)
    unknown = np.concatenate((there, back), axis=1) * np.array([[1], [1], [1], [1], [0]])
    within = estimate_clocks(np.array([0, -20_000_000]), none, none, none, unknown)
    assert within.offset_ns[1] == -20_000_000  # the time of day contradicts no message
