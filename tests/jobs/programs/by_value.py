"""Workers that get their code by value, as cloudpickle hands it over: without the name of its file.

The first argument is how they start. The second of three workers takes longer in ``extra``; the program prints for how
long, by its own clock.
"""

from __future__ import annotations

import marshal
import multiprocessing
import sys
import time
import types

ROUNDS = 40


def extra() -> float:
    total, end = 0.0, time.perf_counter() + 0.03
    while time.perf_counter() < end:
        total += 1.0  # by value
    return total


def step(number: int, extra: types.FunctionType) -> float:
    time.sleep(0.002)
    return extra() if number == 1 else 0.0


def by_value(function: types.FunctionType) -> bytes:
    return marshal.dumps(function.__code__.replace(co_filename="<dynamic-code>"))


def serve(pipe, number: int, codes: list[bytes]) -> None:  # type: ignore[no-untyped-def]
    run, more = (types.FunctionType(marshal.loads(code), {"time": time}) for code in codes)
    took_s = 0.0
    while pipe.recv():
        start = time.perf_counter()
        run(number, more)
        took_s += time.perf_counter() - start
        pipe.send(number)
    pipe.send(took_s)


def main() -> None:
    context = multiprocessing.get_context(sys.argv[1])
    codes = [by_value(step), by_value(extra)]
    pipes, workers = [], []
    for number in range(3):
        here, there = context.Pipe()
        workers.append(context.Process(target=serve, args=(there, number, codes), daemon=True))
        workers[-1].start()
        pipes.append(here)
    for again in [True] * ROUNDS + [False]:
        for pipe in pipes:
            pipe.send(again)
        answers = [pipe.recv() for pipe in pipes]
    for worker in workers:
        worker.join()
    print(answers[1])


if __name__ == "__main__":
    main()
