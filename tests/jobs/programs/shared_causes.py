"""Steps in which all ranks do the same that costs time: shared_causes.py CAUSE PART [late], alone or with ranks.

Does a part of what it could (1, or 0.5 for half, 0 for nothing). With ``late`` the last rank is late for another reason
as well. Prints the mean seconds of its steps, by its own clock, without the first ones.
"""

import gc
import hashlib
import multiprocessing
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

CAUSE, PART, IS_LATE = sys.argv[1], float(sys.argv[2]), "late" in sys.argv[3:]
LATE_S = 0.06 if CAUSE == "recompile" else 0.015  # each more than the 5 % of a step that counts as a difference
STEPS, FIRST = {"recompile": (14, 3), "cores": (300, 6)}.get(CAUSE, (30, 6))
CONTENT = b"0" * 30_000_000
LOG = tempfile.TemporaryFile("w")
INBOX, TABLE, READY, STOP = queue.SimpleQueue(), threading.Lock(), threading.Event(), threading.Event()
net, lengths = None, [8]
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
    if PART:
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
    if not PART:
        return
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


def cores():
    hashlib.sha256(CONTENT).digest()


def compute_beside(parent):
    while os.getppid() == parent:
        hashlib.sha256(CONTENT).digest()


def model():
    import torch._dynamo

    torch._dynamo.config.recompile_limit = torch._dynamo.config.cache_size_limit = 1000
    layers = [layer for _ in range(3) for layer in (torch.nn.Linear(16, 16), torch.nn.GELU())]
    return torch.compile(torch.nn.Sequential(*layers), backend="aot_eager", dynamic=False)


def recompile():
    lengths.append(lengths[-1] + 1 if PART else lengths[-1])
    net(torch.ones(lengths[-1], 16))  # <- recompile


def nothing():
    pass


def train():
    begun, spend = [], globals()[CAUSE]
    weights = torch.ones(300, 300)
    for _ in range(STEPS):
        begun.append(time.perf_counter())
        weights = torch.tanh(weights @ weights)
        time.sleep(0.025)  # a device computes
        spend()
        if IS_LATE and int(os.environ.get("RANK", 0)) == int(os.environ.get("WORLD_SIZE", 1)) - 1:
            time.sleep(LATE_S)  # <- late
        if dist.is_initialized():
            dist.all_reduce(torch.ones(10))
        scalana.step()
    return (begun[-1] - begun[FIRST]) / (STEPS - FIRST - 1)


def main():
    global net
    torch.set_num_threads(1)
    net = model() if CAUSE == "recompile" else None
    last = None
    for _ in range(int(PART * 120_000) if CAUSE == "collect" else 0):
        last = Node(last)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    beside = {"interpreter": count_beside, "lock": flush_beside}.get(CAUSE) if PART else None
    thread = threading.Thread(target=beside, daemon=True) if beside else None
    if thread is not None:
        thread.start()
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    busy = len(os.sched_getaffinity(0)) // ranks or 1 if CAUSE == "cores" and PART else 0
    children = [multiprocessing.Process(target=compute_beside, args=(os.getpid(),), daemon=True) for _ in range(busy)]
    for child in children:
        child.start()
    step_s = train()
    for child in children:
        child.terminate()
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
