"""What threads of hosts did, by samples."""

from __future__ import annotations

import numpy as np

from scalana.graphs.attribution.places import Places
from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.spans.host import host_activity
from scalana.runtime.record.format import STATE_RUNNING

MS = 1_000_000
PERIOD = 5 * MS


def test_a_thread_beside_the_main_one_that_waits_has_nothing_to_do():
    """Thread 0 sleeps in path 1 throughout; thread 1 waits in path 2, runs in path 3 from the third sample to the
    fifth, and waits again."""
    count = 8
    runs = np.isin(np.arange(count), (2, 3, 4))
    zeros, time = np.zeros(count, np.int64), PERIOD * np.arange(count)
    samples = Samples(
        np.repeat([0, 1], count),
        np.tile(time, 2),
        np.concatenate((zeros + 1, np.where(runs, 3, 2))),
        np.concatenate((zeros, np.where(runs, 4 * MS, 0))),
        np.concatenate((zeros, np.where(runs, MS, 0))),
        np.full(2 * count, STATE_RUNNING),
    )
    yes = np.ones(2, np.bool_)
    threads = Threads(np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([True, False]), yes, np.arange(2))
    none = np.zeros(4, np.bool_)
    places = Places(np.arange(4), 10 * np.arange(4), none, none, none, ~none, none)
    found = host_activity(samples, threads, places, PERIOD)
    ms = np.rint(np.stack((found.start_s, found.end_s)) * 1e3 * 2) / 2
    assert list(zip(found.thread.tolist(), found.vertex.tolist(), *ms.tolist(), strict=True)) == [
        (0, 1, -2.5, 37.5), (1, 3, 7.5, 22.5)
    ]  # fmt: skip
