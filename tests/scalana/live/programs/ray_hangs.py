"""A driver and two actors of Ray that hang, or are slow, in a way that is named: python ray_hangs.py KIND.

The line of a kind ends in ``# <- KIND``.
"""

import sys
import threading
import time

import ray

STEPS = 20


@ray.remote(num_cpus=64)
def heavy():
    return 1


@ray.remote(num_cpus=0)
class Worker:
    def meet(self, other):
        self.other = other

    def step(self, number):
        time.sleep(0.05)
        return number

    def ask(self):
        return ray.get(self.other.step.remote(1))  # <- ray-circle

    def stand(self):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()  # <- ray-stands

    def want(self):
        return ray.get(heavy.remote())  # <- ray-unscheduled

    def generate(self):
        """One long trajectory, by layers."""
        layers = {}
        for number in range(12):
            exec(f"def layer{number}(n):\n    for i in range(n):\n        i * i", layers)
        end = time.monotonic() + 9
        while time.monotonic() < end:
            for number in range(12):
                layers[f"layer{number}"](200000)


def main(kind):
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    first, second = workers = [Worker.remote() for _ in range(2)]
    ray.get([first.meet.remote(second), second.meet.remote(first)])
    for step in range(STEPS):
        ray.get([one.step.remote(step) for one in workers])
    if kind == "ray-circle":
        ray.get([one.ask.remote() for one in workers])
    else:
        method = {"ray-stands": second.stand, "ray-unscheduled": second.want, "ray-trajectory": second.generate}[kind]
        ray.get([first.step.remote(1), method.remote()])


if __name__ == "__main__":
    main(*sys.argv[1:])
