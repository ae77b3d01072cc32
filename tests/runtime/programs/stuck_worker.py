"""A hang of two ranks: rank 1 waits for what stands in ``stand``, while another thread is busy.

python stuck_worker.py loader|pool|executor|child|queue|threads|itself
"""

import concurrent.futures
import datetime
import multiprocessing
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FORK = multiprocessing.get_context("fork")
BARRED = threading.Lock()


def stand(index=0):
    with BARRED:  # stands here
        return index


def put(queue):
    queue.put(stand())


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return stand(index)


def heartbeat():
    end = time.monotonic() + 5
    while time.monotonic() < end:
        sum(i * i for i in range(20000))
        time.sleep(0.02)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)


def wait(kind):
    if kind == "loader":
        for _ in DataLoader(Samples(), num_workers=2):  # waits here for a loader
            pass
    elif kind == "pool":
        with FORK.Pool(3) as pool:
            pool.apply(stand)  # waits here for a pool
    elif kind == "executor":
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=FORK) as pool:
            pool.submit(stand).result()  # waits here for an executor
    elif kind == "child":
        child = FORK.Process(target=stand)
        child.start()
        child.join()  # waits here for a child
    elif kind == "queue":
        queue = FORK.Queue()
        FORK.Process(target=put, args=(queue,)).start()
        queue.get()  # waits here for a queue
    elif kind == "threads":
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            pool.submit(stand).result()  # waits here for threads
    else:
        stand()  # waits here for itself


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
tensor = torch.ones(4)
for _ in range(5):
    dist.all_reduce(tensor)
if dist.get_rank() == 1:
    BARRED.acquire()
    threading.Thread(target=heartbeat, daemon=True).start()
    time.sleep(0.2)
    wait(sys.argv[1])
dist.all_reduce(tensor)
