"""Several workers, each parsing one translation unit at a time."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from scalana.frontend.cpp.source.clang import ClangMissing
from scalana.frontend.cpp.source.worker import answer
from scalana.frontend.cpp.unit import Unit, encode

SECONDS = 600.0
"""Longest time for one translation unit."""
_PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from scalana.frontend.cpp.source.worker import main
main()
"""


def workers_for(jobs: int) -> int:
    """How many workers pay for a number of jobs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, jobs))


class _Worker:
    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a job; None if the worker died of it."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps([os.path.abspath(folder) for folder in sys.path])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            result: dict[str, Any] = json.loads(line)
            return result
        except (OSError, ValueError):
            self.close()
            return None
        finally:
            timer.cancel()

    def close(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass
        process.kill()
        process.wait()


def run(
    jobs: Sequence[dict[str, Any]], done: Callable[[int, dict[str, Any]], None], workers: int | None = None
) -> None:
    """Parse, and hand over each result with the number of its job as it comes.

    A source on which a worker dies gives an empty unit with a warning. ``done`` is called by one thread at a time. With
    ``workers`` 0 all is done in this process.

    Raises:
        ClangMissing: there is no libclang.
    """
    if workers == 0:
        for number, job in enumerate(jobs):
            result = answer(job)
            if "missing" in result:
                raise ClangMissing(result["missing"])
            done(number, result)
        return
    waiting: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
    for number, job in enumerate(jobs):
        waiting.put((number, job))
    lock = threading.Lock()
    missing: list[str] = []
    failures: list[BaseException] = []

    def serve() -> None:
        worker = _Worker()
        try:
            while not missing and not failures:
                try:
                    number, job = waiting.get_nowait()
                except queue.Empty:
                    return
                result = worker.ask(job)
                if result is None:
                    message = f"{job['file']}: libclang crashed on this file, or took more than {SECONDS:.0f} s"
                    result = encode(Unit(job["file"], warnings=[message], complete=False))
                with lock:
                    if "missing" in result:
                        missing.append(result["missing"])
                    else:
                        done(number, result)
        except BaseException as error:
            failures.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(workers or workers_for(len(jobs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if missing:
        raise ClangMissing(missing[0])
    if failures:
        raise failures[0]
