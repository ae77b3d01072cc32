"""Jobs that take turns on one machine, so that a small difference between them can be told from its noise.

A machine with other users changes its speed by more than recording costs, within seconds. So all jobs are started at
once, and each works for a short block while the others are stopped (SIGSTOP): what is compared are blocks that ran
right after each other, hundreds of them.

A rank of such a job calls :func:`rank_in_turns`; the benchmark calls :func:`take_turns`.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection

CONFIDENCE = 0.95
ADDRESS = "SCALANA_BENCHMARK_TURNS"
"""Variable with the socket of the benchmark, for its ranks."""


def rank_in_turns(block: Callable[[], None], extra: Callable[[], int] = lambda: 0) -> None:
    """In a rank: run ``block`` whenever it is the job's turn, until there are no more turns.

    ``extra`` is asked after the last turn for a number that goes with the measurements.
    """
    with Client(os.environ[ADDRESS], "AF_UNIX") as connection:
        connection.send(os.getpid())
        while connection.recv():
            wall, cpu = time.perf_counter(), time.process_time()
            block()
            connection.send((time.perf_counter() - wall, time.process_time() - cpu))
        connection.send(extra())


@dataclass
class Job:
    """One job that takes turns."""

    connections: list[Connection]
    """One for each rank."""
    pids: list[int]

    def signal(self, number: signal.Signals) -> None:
        for pid in self.pids:
            os.kill(pid, number)

    def turn(self) -> tuple[float, float]:
        """Wall seconds of the slowest rank and CPU seconds of all ranks for one block."""
        self.signal(signal.SIGCONT)
        for connection in self.connections:
            connection.send(True)
        parts = [connection.recv() for connection in self.connections]
        self.signal(signal.SIGSTOP)
        return max(wall for wall, _ in parts), sum(cpu for _, cpu in parts)

    def end(self) -> list[int]:
        """Let the ranks go; what each one answered at the end."""
        self.signal(signal.SIGCONT)
        for connection in self.connections:
            connection.send(False)
        return [connection.recv() for connection in self.connections]


@contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """The socket for ranks, named in this process's environment and so in that of jobs."""
    os.environ[ADDRESS] = path
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        listener.settimeout(1.0)
        yield listener


def admit(listener: socket.socket, started: subprocess.Popen[bytes], ranks: int) -> Job:
    """Wait until a job that was just started has come up, and stop it."""
    connections: list[Connection] = []
    while len(connections) < ranks:
        try:
            connections.append(Connection(listener.accept()[0].detach()))
        except TimeoutError:
            if started.poll() is not None:
                raise SystemExit("a job ended before its ranks took turns") from None
    job = Job(connections, [connection.recv() for connection in connections])
    job.signal(signal.SIGSTOP)
    return job


def take_turns(jobs: list[Job], rounds: int) -> list[list[tuple[float, float]]]:
    """``[rounds][jobs]`` wall and CPU seconds of a block. The order turns, so that a trend favours nobody."""
    table = []
    for number in range(rounds):
        row: list[tuple[float, float]] = [(0.0, 0.0)] * len(jobs)
        order = range(len(jobs)) if number % 2 == 0 else reversed(range(len(jobs)))
        for index in order:
            row[index] = jobs[index].turn()
        table.append(row)
    return table


def interval(values: list[float]) -> tuple[float, float, float]:
    """Bounds of a confidence interval of the median and the confidence that it has (Hahn and Meeker, 1991, 5.2).

    The narrowest pair of order statistics with at least ``CONFIDENCE``; of few values the least and the greatest. It
    assumes nothing about how they are distributed.
    """
    ordered, count = sorted(values), len(values)
    best = (ordered[0], ordered[-1], 1 - 0.5 ** (count - 1))
    for cut in range(1, (count + 1) // 2):
        outside = 2 * sum(math.comb(count, below) for below in range(cut + 1)) / 2**count
        if 1 - outside < CONFIDENCE:
            break
        best = (ordered[cut], ordered[-1 - cut], 1 - outside)
    return best


def ratio_line(name: str, ratios: list[float]) -> str:
    """One line on the ratios of neighbours in time."""
    low, high, confidence = interval(ratios)
    return f"{name}: median {statistics.median(ratios):.4f} [{low:.4f}, {high:.4f}] at {confidence:.0%}"
