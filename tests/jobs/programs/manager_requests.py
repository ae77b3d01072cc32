"""Workers that count in a dictionary of a Manager; each prints its requests and how long they take, timed here."""

import time
from multiprocessing import Manager, Process

ROUNDS = 1500


def count(totals):
    spent_s = 0.0
    for number in range(ROUNDS):
        begun = time.perf_counter()
        totals[number % 7] = totals.get(number % 7, 0) + 1  # <- asks
        spent_s += time.perf_counter() - begun
    print(2 * ROUNDS, spent_s, flush=True)


def main():
    with Manager() as manager:
        totals, lock = manager.dict(), manager.Lock()
        with lock:
            time.sleep(0.05)
        workers = [Process(target=count, args=(totals,)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main()
