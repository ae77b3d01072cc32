"""Ways to wait for results on Ray, each with a slow line on the other side of it: cases by their names, in one job.

It prints how long the slow line of each case slept.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
import traceback

import ray
from ray.cluster_utils import Cluster
from ray.util import ActorPool
from ray.util.queue import Queue

ROUNDS = 4
SLOW_S = 0.35
SHORT_S = 0.02


@ray.remote(num_cpus=0)
class Engine:
    """Answers, one of several slowly."""

    def answer(self, slow: bool) -> float:
        if slow:
            time.sleep(SLOW_S)  # slow engine
        return SLOW_S * slow


@ray.remote(num_cpus=0)
class Front:
    """An async actor that asks two engines at a time."""

    def __init__(self, engines: list) -> None:
        self.engines = engines

    async def ask(self) -> float:
        return sum(await asyncio.gather(*(each.answer.remote(n == 1) for n, each in enumerate(self.engines))))


def awaited() -> float:
    """A driver awaits an async actor, which awaits others."""

    async def main() -> float:
        front = Front.remote([Engine.remote() for _ in range(2)])
        slept = 0.0
        for _ in range(ROUNDS):
            slept += await front.ask.remote()  # awaits front
        return slept

    return asyncio.run(main())


@ray.remote(num_cpus=0)
class Source:
    def items(self):
        for number in range(ROUNDS):
            time.sleep(SLOW_S)  # slow source
            yield number


@ray.remote(num_cpus=0)
class Consumer:
    """Starves, as items come slowly."""

    def consume(self, source) -> int:
        total = 0
        for reference in source.items.options(num_returns="streaming").remote():  # starves
            total += ray.get(reference)
            time.sleep(SHORT_S)
        return total


def streamed() -> float:
    ray.get(Consumer.remote().consume.remote(Source.remote()))
    return ROUNDS * SLOW_S


@ray.remote(num_cpus=0)
class AsyncSource:
    async def items(self):
        for number in range(ROUNDS):
            await asyncio.sleep(SLOW_S)
            yield number


def streamed_to_loop() -> float:
    async def main() -> int:
        total = 0
        source = AsyncSource.remote()
        async for reference in source.items.options(num_returns="streaming").remote():  # awaits items
            total += await reference
        return total

    asyncio.run(main())
    return ROUNDS * SLOW_S


@ray.remote(num_cpus=0)
class Pooled:
    def work(self, number: int) -> float:
        if number % 6 == 5:
            time.sleep(SLOW_S)  # slow item
            return SLOW_S
        time.sleep(SHORT_S)
        return 0.0


def pooled() -> float:
    pool = ActorPool([Pooled.remote() for _ in range(3)])
    slept = 0.0
    for _ in range(ROUNDS):
        slept += sum(pool.map_unordered(lambda actor, number: actor.work.remote(number), range(6)))
    return slept


@ray.remote(num_cpus=0.1)
def part(number: int) -> float:
    if number == 1:
        time.sleep(SLOW_S)  # slow part
        return SLOW_S
    return 0.0


@ray.remote(num_cpus=0.1)
def whole() -> float:
    return sum(ray.get([part.remote(number) for number in range(2)]))  # waits for parts


def nested() -> float:
    return sum(ray.get(whole.remote()) for _ in range(ROUNDS))


@ray.remote(num_cpus=0)
class Producer:
    def produce(self, queue) -> None:
        for number in range(ROUNDS):
            time.sleep(SLOW_S)  # slow producer
            queue.put(number)


def queued() -> float:
    """A driver polls a queue, which is an actor itself."""
    queue = Queue()
    done = Producer.remote().produce.remote(queue)
    for _ in range(ROUNDS):
        queue.get()  # polls
        time.sleep(SHORT_S)
    ray.get(done)
    return ROUNDS * SLOW_S


@ray.remote(num_cpus=0)
class Buffer:
    """An async actor in which others meet."""

    def __init__(self) -> None:
        self.items: asyncio.Queue = asyncio.Queue(1)

    async def put(self, item: int) -> None:
        await asyncio.wait_for(self.items.put(item), 60)

    async def get(self) -> int:
        return await self.items.get()

    async def size(self) -> int:
        return self.items.qsize()


@ray.remote(num_cpus=0)
class Filler:
    """Does its work in a thread of a pool, as it is called for something else meanwhile."""

    def fill(self, buffer) -> None:
        for number in range(ROUNDS):
            ray.get(buffer.put.remote(number))  # waits for room

    def note(self) -> None:
        pass


@ray.remote(num_cpus=0)
class Taker:
    def drain(self, buffer, items: int) -> None:
        for _ in range(items):
            time.sleep(SLOW_S / 2)  # slow taker
            ray.get(buffer.get.remote())

    def note(self) -> None:
        pass


def full() -> float:
    """Two fill a queue in turns, which is full most of the time, while the driver looks how full it is."""
    buffer = Buffer.remote()
    fillers = [Filler.options(max_concurrency=2).remote() for _ in range(2)]
    taker = Taker.remote()
    ray.get([buffer.size.remote(), *(actor.note.remote() for actor in (*fillers, taker))])  # all are there
    done = taker.drain.remote(buffer, 2 * ROUNDS)
    filled = [filler.fill.remote(buffer) for filler in fillers]
    while not ray.wait([done], timeout=SLOW_S / 3)[0]:
        ray.get([buffer.size.remote(), *(filler.note.remote() for filler in fillers)])
    ray.get(filled)
    return ROUNDS * SLOW_S


@ray.remote(num_cpus=0, resources={"second": 0.01})
class Far:
    def work(self) -> float:
        time.sleep(SLOW_S)  # slow far away
        return SLOW_S


def far() -> float:
    actor = Far.remote()
    return sum(ray.get(actor.work.remote()) for _ in range(ROUNDS))


def elsewhere() -> float:
    """The same, as on a host that does not share all folders: with variables of its own."""
    actor = Far.options(runtime_env={"env_vars": json.loads(os.environ["FAR_VARIABLES"])}).remote()
    return sum(ray.get(actor.work.remote()) for _ in range(ROUNDS))


class Unhappy(Exception):
    pass


@ray.remote(num_cpus=0)
class Failing:
    def fail(self) -> None:
        raise Unhappy


@ray.remote(num_cpus=0)
class FailingLater:
    async def fail(self) -> None:
        raise Unhappy


def failed() -> float:
    """Prints what lines the tracebacks of errors show."""
    for actor in (Failing.remote(), FailingLater.remote()):
        try:
            ray.get(actor.fail.remote())
        except Unhappy:
            print(*re.findall(r'File "(.*)", line', traceback.format_exc()), sep="\n")
    return 0.0


def main(cases: list[str]) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    cluster.add_node(num_cpus=2, resources={"second": 1})
    ray.init(cluster.address)
    for case in cases:
        print(case, globals()[case](), flush=True)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
