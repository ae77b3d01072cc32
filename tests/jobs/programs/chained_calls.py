"""Calls of a pool of processes, each handed over in what the one before calls back, as joblib does."""

import threading
import time
from concurrent.futures import ProcessPoolExecutor

CALLS = 20


def called(number):
    time.sleep(0.02)
    return number


def main():
    done = threading.Event()

    def next_one(future):
        if future.result() + 1 < CALLS:
            pool.submit(called, future.result() + 1).add_done_callback(next_one)
        else:
            done.set()

    with ProcessPoolExecutor(1) as pool:
        pool.submit(called, 0).add_done_callback(next_one)
        done.wait()


if __name__ == "__main__":
    main()
