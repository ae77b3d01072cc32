"""An asynchronous loop: queue_loop.py STEPS WORKERS CAP ORDER.

A manager puts all prompts into a queue, from which each process takes the next one when it is free; a trainer takes the
first answers that end, whatever step they are for. All sleep in place of what they would compute. Prints the seconds
of a step, from the begin of the first answer on.
"""

from __future__ import annotations

import random
import sys
import time
from multiprocessing import Process, Queue
from typing import Any

import scalana

BATCH, TOKEN_S, TRAIN_S, LONGEST = 8, 0.003, 0.15, 500


def lengths(steps: int) -> list[int]:
    """Of all answers, the same in each run."""
    draw = random.Random(7)
    return [min(int(draw.lognormvariate(4.3, 0.7)), LONGEST) for _ in range(steps * BATCH)]


def rollout(prompts: Queue[Any], answers: Queue[Any]) -> None:
    while (task := prompts.get()) is not None:
        name, tokens = task
        begin = time.perf_counter()
        with scalana.rl.phase("rollout", role="rollout"):
            mark = scalana.rl.trajectory(str(name), group=name, prompt_tokens=8).begin()
            time.sleep(tokens * TOKEN_S)
            mark.end(tokens=tokens)
        answers.put((begin, tokens))


def main(steps: int, workers: int, cap: int, order: str) -> None:
    todo = [min(each, cap) for each in lengths(steps)]
    if order == "longest":
        todo.sort(reverse=True)
    prompts: Queue[Any] = Queue()
    answers: Queue[Any] = Queue()
    processes = [Process(target=rollout, args=(prompts, answers)) for _ in range(workers)]
    for each in processes:
        each.start()
    time.sleep(0.5)  # all of them wait for prompts
    for task in [*enumerate(todo), *[None] * workers]:
        prompts.put(task)
    begin = time.perf_counter()
    for _ in range(steps):
        with scalana.rl.phase("buffer_starvation", role="trainer"):
            rows = [answers.get() for _ in range(BATCH)]
        with scalana.rl.phase("update_actor", role="trainer", tokens=sum(tokens for _, tokens in rows)):
            time.sleep(TRAIN_S)
        scalana.step()
    print((time.perf_counter() - begin) / steps)
    for each in processes:
        each.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
