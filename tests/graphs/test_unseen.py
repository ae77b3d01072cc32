"""Libraries that communicate without a recorder: which are named, and whose seconds count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scalana.graphs.samples.unseen import Unseen, notes_of, unseen_ways

SITE = "/usr/lib/python3/site-packages"
PROGRAM, API = "/job/train.py", f"{SITE}/horovod/torch/mpi_ops.py"
DASK, NANNY = f"{SITE}/dask/base.py", f"{SITE}/distributed/nanny.py"


class Run:
    """One process, sampled on some call paths, each given by the files of its frames."""

    def __init__(self, *paths: tuple[float, tuple[str, ...]]) -> None:
        codes: list[tuple[None, str]] = [(None, "<lost>")]
        parent, code, times, on, at_s = [0], [0], [], [], 0.0
        for seconds, files in paths:
            above = 0
            for file in files:
                parent.append(above)
                code.append(len(codes))
                codes.append((None, file))
                above = len(parent) - 1
            times.append(round(at_s * 1e9))
            on.append(above)
            at_s += seconds
        self.data = SimpleNamespace(
            tree=SimpleNamespace(codes=codes, parent=np.array(parent), code=np.array(code)),
            records=[SimpleNamespace(meta={"lib_dirs": SITE}, threads={}, samples=[], events=[])],
            is_own=np.ones(1, np.bool_),
            end_ns=np.array([round(at_s * 1e9)]),
            threads=SimpleNamespace(process=np.zeros(1, np.int64)),
            samples=SimpleNamespace(thread=np.zeros(len(on), np.int64), time_ns=np.array(times), path=np.array(on)),
        )

    def unseen(self) -> list[Unseen]:
        """What is said of it."""
        return unseen_ways(cast(Any, self.data))


def test_a_library_that_communicates_by_itself_is_named_where_it_is_used_and_not_where_it_is_imported() -> None:
    (way,) = Run((1.5, (PROGRAM, API)), (2.0, (PROGRAM,))).unseen()
    assert way == Unseen("Horovod", 1.5)
    assert Run((1.0, (PROGRAM, "<frozen importlib._bootstrap>", API))).unseen() == []
    assert Run((1.0, (PROGRAM,))).unseen() == []


def test_seconds_of_the_program_below_a_library_are_the_programs() -> None:
    """A worker runs the program's functions from the library's loop, which waits only where nothing of these runs."""
    queue = f"{SITE}/queues.py"
    (way,) = Run((1.0, (NANNY, queue)), (4.0, (NANNY, PROGRAM)), (2.0, (NANNY, PROGRAM, queue))).unseen()
    assert way == Unseen("Dask's workers", 1.0)


def test_waiting_in_another_part_of_a_library_counts_only_where_its_workers_are_used() -> None:
    """The main process waits in files that also run tasks in threads, or in the process itself."""
    assert Run((3.0, (PROGRAM, DASK))).unseen() == []
    assert Run((3.0, (PROGRAM, DASK)), (0.5, (NANNY,))).unseen() == [Unseen("Dask's workers", 3.5)]


def test_notes_give_seconds_where_there_are_any() -> None:
    few, none = notes_of([Unseen("Horovod", 23.94), Unseen("DeepEP", 0.0)])
    assert few.endswith("is not recorded, nor is waiting for it: processes are in it for 23.9 s")
    assert none.endswith("nor is waiting for it")
