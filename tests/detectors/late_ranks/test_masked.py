"""The run as it would be without a cause, and what is waited for then."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.blamed import BlamedRun
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.masked import next_cause, without
from scalana.detectors.rollup.candidates import join_entries
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.timeline import Timeline
from scalana.runtime.operations import BY_NAME
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

INIT_MS, SLOW_MS, DRIVE_MS = 1000.0, 60.0, 20.0


def driven() -> tuple[Timeline, list[str]]:
    """A driver that takes long to begin, then starts a process by a call, and waits for what that makes."""
    program = [
        [("work", "init", INIT_MS), ("send", 1), ("work", "drive", DRIVE_MS), ("recv", 1), ("work", "end", 1.0)],
        [("recv", 0), ("work", "slow", SLOW_MS), ("send", 0)],
    ]
    timeline, names = simulate(program, start_ms=[0.0, INIT_MS])
    code = {BY_NAME[was].code: BY_NAME[now].code for was, now in (("send", "submit"), ("recv", "take"))}
    calls = timeline.calls
    first = [int(row) for row in np.flatnonzero(calls.enter_s == INIT_MS / 1e3)]
    for row in first:
        calls.operation[row] = code[int(calls.operation[row])]
    timeline.instances.operation[calls.posts[first[0]]] = code[BY_NAME["send"].code]
    return timeline, names


def test_a_process_that_is_started_by_a_call_waits_for_nothing_before_that() -> None:
    timeline, names = driven()
    waits, replay, psg = find_waits(timeline), prepare(timeline), structure(names)
    assert replay.timeline.locations.start_s.tolist() == [0.0, 0.0]  # where it waits for its start
    blamed = BlamedRun(timeline, psg, blame(timeline, waits))
    candidates = join_entries(blamed)
    (slow,) = [one for one in candidates if one.ranks == [1]]
    assert slow.lost_s == pytest.approx((SLOW_MS - DRIVE_MS) / 1e3)
    mended = without(slow, replay)
    assert mended.locations.start_s.tolist() == pytest.approx([0.0, INIT_MS / 1e3])
    assert float(find_waits(mended).all_s(mended).sum()) == pytest.approx(0.0, abs=1e-9)
    assert next_cause(slow, {one.code_location: one.lost_s for one in candidates}, replay) is None
