"""Loops by hand, without a mark: named_loops.py WHICH WORKERS [SCALE]. They sleep in place of what they would compute.

* ``pool``: a pool plays episodes, the main process learns from them
* ``executor``: the same by an executor of processes
* ``queue``: actors fill a queue, a learner empties it and hands its weights to all
* ``samples``: a pool generates samples for a training: no loop of reinforcement learning
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import Pool, Process, Queue

STEPS, BATCH = 6, 8
SCALE = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
EPISODE_S, LEARN_S = 0.05 * SCALE, 0.04 * SCALE


def play_episode(seed):
    time.sleep(EPISODE_S)  # plays
    return [seed] * 10


def update_policy(batch):
    time.sleep(LEARN_S)


def generate_sample(seed):
    time.sleep(EPISODE_S)
    return seed


def train_step(batch):
    time.sleep(LEARN_S)


class Actor:
    def set_weights(self, weights):
        self.weights = weights

    def collect_trajectory(self):
        time.sleep(EPISODE_S)
        return [0] * 10

    def run(self, trajectories, weights):
        while True:
            while not weights.empty():
                if (new := weights.get()) is None:
                    return
                self.set_weights(new)
            trajectories.put(self.collect_trajectory())


class Learner:
    def learn(self, batch):
        time.sleep(LEARN_S)

    def broadcast_weights(self, queues):
        for queue in queues:
            queue.put([0] * 1000)


def pool(workers, make, use):
    with Pool(workers) as processes:
        for step in range(STEPS):
            use(processes.map(make, range(step * BATCH, (step + 1) * BATCH), chunksize=1))


def executor(workers):
    with ProcessPoolExecutor(workers) as processes:
        for step in range(STEPS):
            futures = [processes.submit(play_episode, step * BATCH + number) for number in range(BATCH)]
            update_policy([future.result() for future in futures])


def queue(workers):
    trajectories, weights = Queue(), [Queue() for _ in range(workers)]
    actors = [Process(target=Actor().run, args=(trajectories, each)) for each in weights]
    for actor in actors:
        actor.start()
    learner = Learner()
    for _ in range(STEPS):
        learner.learn([trajectories.get() for _ in range(BATCH)])
        learner.broadcast_weights(weights)
    for each in weights:
        each.put(None)
    time.sleep(2 * EPISODE_S)
    while not trajectories.empty():
        trajectories.get()
    for actor in actors:
        actor.join()


def main():
    which, workers = sys.argv[1], int(sys.argv[2])
    begin = time.perf_counter()
    if which == "queue":
        queue(workers)
    elif which == "executor":
        executor(workers)
    else:
        pool(workers, *((play_episode, update_policy) if which == "pool" else (generate_sample, train_step)))
    print((time.perf_counter() - begin) / STEPS)


if __name__ == "__main__":
    main()
