"""Threads that compute next to the locations of a run are known by their process, and by whether they run Python."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from scalana.graphs.readers.folder.records import Samples, Threads
from scalana.graphs.samples.computing_threads import computing_threads

NS = 1_000_000_000


def test_each_thread_has_its_process_and_what_it_computed() -> None:
    """A rank with a thread of a library and one that never runs, and its child with a main thread and one more."""
    python = [[True, False, False], [True, False]]
    process = np.array([0, 0, 0, 1, 1])
    threads = Threads(
        process, np.full(5, 4), np.arange(5) == 0, process == 0, location=np.where(np.arange(5) == 0, 0, -1)
    )
    thread = np.array([0, 1, 1, 3, 4])
    nothing = np.zeros(5, np.int64)
    cpu_ns = np.array([9, 1, 2, 4, 5], np.uint32) * 100_000_000
    data: Any = SimpleNamespace(
        threads=threads,
        samples=Samples(thread, nothing, nothing, cpu_ns, np.array([0, 0, 3 * NS, 0, 0]), nothing),
        rows={"threads": np.array([3, 2])},
        records=[
            SimpleNamespace(threads={index: SimpleNamespace(has_python=one) for index, one in enumerate(some)})
            for some in python
        ],
    )
    found = computing_threads(data)
    assert found.rank.tolist() == [4, 4, 4]
    assert found.process.tolist() == [0, 1, 1]
    assert found.is_own.tolist() == [True, False, False]
    assert found.has_python.tolist() == [False, True, False]
    np.testing.assert_allclose(found.cpu_s, [0.3, 0.4, 0.5])
    np.testing.assert_allclose(found.core_wait_s, [3.0, 0.0, 0.0])
