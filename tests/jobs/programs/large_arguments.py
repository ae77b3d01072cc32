"""A large object is pickled for every call, or message: large_arguments.py CASE. Prints how large its pickle is."""

from __future__ import annotations

import multiprocessing as mp
import pickle
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

CALLS = 12


class Mesh:
    """It takes much longer to pickle than to unpickle: who does the former stands out."""

    def __init__(self, points: int) -> None:
        self.points = [f"{n * 0.1} {n * 0.2}" for n in range(points)]

    def __getstate__(self) -> str:
        return ";".join(" ".join(f"{float(number):.17g}" for number in point.split()) for point in self.points)

    def __setstate__(self, state: str) -> None:
        self.points = state.split(";")


def area(mesh: Mesh, index: int) -> str:
    time.sleep(0.002)
    return mesh.points[index]


def make(index: int) -> Mesh:
    time.sleep(0.002)
    return Mesh(60_000)


def pool(mesh: Mesh) -> None:
    with mp.get_context("fork").Pool(2) as workers:
        workers.map(partial(area, mesh), range(CALLS), chunksize=1)  # <- pool


def executor(mesh: Mesh) -> None:
    with ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as workers:
        list(workers.map(partial(area, mesh), range(CALLS)))  # <- executor


def results(mesh: Mesh) -> None:
    with mp.get_context("fork").Pool(2) as workers:
        for _ in workers.imap_unordered(make, range(CALLS)):  # <- results
            pass


def fill(queue: Any, mesh: Mesh) -> None:
    for _ in range(CALLS):
        queue.put(mesh)  # <- queue
    queue.put(None)


def queue(mesh: Mesh) -> None:
    context = mp.get_context("fork")
    meshes: Any = context.Queue()
    filler = context.Process(target=fill, args=(meshes, mesh), name="filler")
    filler.start()
    while meshes.get() is not None:
        pass
    filler.join()


if __name__ == "__main__":
    made = Mesh(60_000)
    globals()[sys.argv[1]](made)
    print(len(pickle.dumps(made)))
