"""Workers that count in a dictionary of a Manager; each prints its requests and how long they take, timed here. The
main process waits for what they put into a queue of the Manager, and looks from time to time whether they live."""

import time
from multiprocessing import Manager, Process

ROUNDS = 1500


def count(totals, done):
    spent_s = 0.0
    for number in range(ROUNDS):
        begun = time.perf_counter()
        totals[number % 7] = totals.get(number % 7, 0) + 1  # <- asks
        spent_s += time.perf_counter() - begun
    done.put(2 * ROUNDS)  # <- puts
    print(2 * ROUNDS, spent_s, flush=True)


def main():
    with Manager() as manager:
        totals, lock, done = manager.dict(), manager.Lock(), manager.Queue()
        with lock:
            time.sleep(0.05)
        workers = [Process(target=count, args=(totals, done)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for _ in workers:
            done.get()  # <- gets
        while any(worker.is_alive() for worker in workers):  # <- looks
            time.sleep(0.005)
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main()
