"""Samples of native code say where a thread was at their own time."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.runtime.record_format import RunFolder

from .conftest import Mpi

pytestmark = pytest.mark.slow


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
        outside = (time < enter[call]) | (time > leave[call])
        shown += len(time)
        stray += int((outside & np.isin(path, np.asarray(events.path))).sum())
    assert shown > 50
    assert stray <= 0.02 * shown
