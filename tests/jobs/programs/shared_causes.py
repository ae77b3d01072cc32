"""Steps in which all ranks do the same that costs time: shared_causes.py CAUSE PART, alone or with ranks.

Does a part of what it could (1, or 0.5 for half). Prints the mean seconds of its steps, by its own clock, without the
first ones.
"""

import gc
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

import scalana

CAUSE, PART = sys.argv[1], float(sys.argv[2])
STEPS, FIRST = 30, 6
LOG = tempfile.TemporaryFile("w")
INBOX, TABLE, READY, STOP = queue.SimpleQueue(), threading.Lock(), threading.Event(), threading.Event()
BUFFER = torch.ones(int(PART * 6_000_000))
OBJECTS = [{"name": str(n), "number": n} for n in range(int(PART * 60_000))]


class Node:
    """What only the collector frees."""

    def __init__(self, last):
        self.last, self.own = last, self


def save_checkpoint(path):
    with open(path, "wb") as out:
        out.write(b"0" * 1000)
        time.sleep(PART * 0.04)  # <- write


def write():
    save_checkpoint(os.devnull)


def program():
    subprocess.run(["sleep", str(PART * 0.04)], check=True)  # <- program


def serialise():
    pickle.dumps(OBJECTS)  # <- serialise


def collect():
    gc.collect()  # <- collect


def communicate():
    dist.all_reduce(BUFFER)  # <- communicate


def count(texts):
    seen = {}
    for text in texts:
        seen[text % 97] = seen.get(text % 97, 0) + 1  # <- interpreter
    return seen


def count_beside():
    while not STOP.is_set():
        begun = time.thread_time()
        count(range(50_000))
        if PART < 1.0:
            time.sleep((time.thread_time() - begun) * (1.0 / PART - 1.0))


def interpreter():
    total = 0
    for n in range(300_000):
        total += n * n % 7  # <- next to it
    return total


def flush_beside():
    while INBOX.get() is not None:
        with TABLE:
            READY.set()
            time.sleep(PART * 0.04)  # <- lock


def lock():
    READY.clear()
    INBOX.put(0)
    READY.wait()
    with TABLE:
        pass


def python():
    codes = []
    for n in range(int(PART * 500_000)):
        codes.append(n % 50)  # <- python
    return codes


def log():
    for _ in range(int(PART * 20)):
        LOG.write("loss 1.0\n")
        LOG.flush()
        os.fsync(LOG.fileno())  # <- log


def nothing():
    pass


def train():
    begun, spend = [], globals()[CAUSE]
    weights = torch.ones(300, 300)
    for _ in range(STEPS):
        begun.append(time.perf_counter())
        weights = torch.tanh(weights @ weights)
        time.sleep(0.010)  # a device computes
        spend()
        if dist.is_initialized():
            dist.all_reduce(torch.ones(10))
        scalana.step()
    return (begun[-1] - begun[FIRST]) / (STEPS - FIRST - 1)


def main():
    torch.set_num_threads(1)
    last = None
    for _ in range(int(PART * 120_000) if CAUSE == "collect" else 0):
        last = Node(last)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    beside = {"interpreter": count_beside, "lock": flush_beside}.get(CAUSE)
    thread = threading.Thread(target=beside, daemon=True) if beside else None
    if thread is not None:
        thread.start()
    step_s = train()
    if thread is not None:
        STOP.set()
        INBOX.put(None)
        thread.join()
    if int(os.environ.get("RANK", 0)) == 0:
        print(step_s)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
