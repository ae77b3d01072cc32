"""Two ranks that hang, or are slow, in a way that is named: python hangs.py KIND [FILE].

The line of a kind ends in ``# <- KIND``. All but ``circle`` and ``other-call`` are of rank 1, while rank 0 waits for it
in an all-reduce.
"""

import ctypes
import fcntl
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

FORK = multiprocessing.get_context("fork")
LOCK = threading.Lock()
STEPS = 30


def stand(index=0):
    with LOCK:  # <- loader pool lock
        return index


class Samples(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return stand(index)


def absent(file):
    while not os.path.exists(file):
        time.sleep(0.05)  # <- absent


def endless(file):
    number = 1
    while number:
        number = number * 5 % 7  # <- endless


def holds_gil(file):
    ctypes.PyDLL(None).sleep(1000)  # <- holds-gil


def in_c(file):
    ctypes.CDLL(None).pause()  # <- in-c


def lock(file):
    LOCK.acquire()
    stand()


def threads(file):
    """Two threads take two locks, each in another order."""
    first, second, has_second = threading.Lock(), threading.Lock(), threading.Event()

    def other():
        with second:
            has_second.set()
            first.acquire()

    first.acquire()
    threading.Thread(target=other, daemon=True).start()
    has_second.wait()
    second.acquire()  # <- threads


def loader(file):
    LOCK.acquire()
    for _ in DataLoader(Samples(), num_workers=1):
        pass


def pool(file):
    LOCK.acquire()
    with FORK.Pool(2) as workers:
        workers.apply(stand)


def file_lock(file):
    with open(file, "w") as first, open(file) as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.flock(second, fcntl.LOCK_EX)  # <- file-lock


def pipe(file):
    os.mkfifo(file)
    with open(file) as opened:  # <- pipe
        opened.read()


def server(file):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_connection(listening.getsockname()) as asking:
            asking.recv(1)  # <- server


def stopped(file):
    os.kill(os.getpid(), signal.SIGSTOP)  # <- stopped


def circle(file):
    dist.recv(torch.zeros(1), 1 - dist.get_rank())  # <- circle


def other_call(file):
    if dist.get_rank() == 1:
        dist.barrier()  # <- other-call


def checkpoint(file):
    """Slow, but it writes."""
    with open(file, "wb") as opened:
        for _ in range(90):
            opened.write(bytes(4 << 20))
            opened.seek(0)
            time.sleep(0.1)


def compilation(file):
    """Slow, but it compiles, by one short program after the other."""
    source = f"{file}.c"
    with open(source, "w") as opened:
        opened.writelines(f"int f{n}(int x) {{ return x * {n} + {n}; }}\n" for n in range(400))
    end = time.monotonic() + 9
    while time.monotonic() < end:
        subprocess.run(["cc", "-O2", "-c", source, "-o", f"{file}.o"], check=True)


class Decoded(Dataset):
    """Slow, but each sample comes from a file."""

    def __init__(self, file):
        self.file = file
        with open(file, "wb") as opened:
            opened.write(bytes(4 << 20))

    def __len__(self):
        return 90

    def __getitem__(self, index):
        with open(self.file, "rb") as opened:
            opened.read()
        time.sleep(0.1)
        return index


def first_batch(file):
    for _ in DataLoader(Decoded(file), batch_size=90, num_workers=1):
        pass


def grade(index):
    end = time.monotonic() + 9
    layers = layer_functions()
    while time.monotonic() < end:
        for layer in layers:
            layer(200000)


def verifiers(file):
    """Slow, but the worker of a pool is at work."""
    with FORK.Pool(2) as workers:
        workers.map(grade, range(1), 1)


def trajectory(file):
    """Slow, but its calls end."""
    for _ in range(90):
        dist.isend(torch.zeros(1), 0).wait()
        time.sleep(0.1)


def layer_functions():
    layers = {}
    for number in range(12):
        exec(f"def layer{number}(n):\n    for i in range(n):\n        i * i", layers)
    return [layers[f"layer{number}"] for number in range(12)]


def evaluation(file):
    """Slow, but in many functions."""
    layers = layer_functions()
    end = time.monotonic() + 9
    while time.monotonic() < end:
        for layer in layers:
            layer(200000)


def other_program(file):
    """Slow, but a program that it started computes."""
    os.system("timeout 9 sh -c 'while :; do :; done'")


EVERYBODY = {"circle": circle, "other-call": other_call}
RANK_1 = {
    "absent": absent, "endless": endless, "holds-gil": holds_gil, "in-c": in_c, "lock": lock, "loader": loader,
    "pool": pool, "file-lock": file_lock, "pipe": pipe, "server": server, "stopped": stopped, "threads": threads,
    "checkpoint": checkpoint, "trajectory": trajectory, "evaluation": evaluation, "other-program": other_program,
    "compilation": compilation, "first-batch": first_batch, "verifiers": verifiers,
}  # fmt: skip


def main(kind, file=""):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(STEPS):
        if step == STEPS // 2:
            if kind in EVERYBODY:
                EVERYBODY[kind](file)
            elif rank == 1:
                RANK_1[kind](file)
            elif kind == "trajectory":
                for _ in range(90):
                    dist.recv(torch.zeros(1), 1)
        dist.all_reduce(torch.ones(1))  # <- other-call
        time.sleep(0.1)


main(*sys.argv[1:])
