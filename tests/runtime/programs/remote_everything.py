"""All that pools, queues and pipes do, right and wrong: what it prints and how it ends is the same with a recorder."""

from __future__ import annotations

import asyncio
import concurrent.futures as futures
import inspect
import multiprocessing as mp
import multiprocessing.pool
import pickle
import queue
import sys
import threading
import time


def double(x):
    return 2 * x


def fail(x):
    raise ValueError(f"no {x}")


def slow(x):
    time.sleep(0.4)
    return x


def die(x):
    sys.stdout.flush()
    raise SystemExit(x)


def nested(x):
    with futures.ProcessPoolExecutor(1, mp_context=mp.get_context("fork")) as pool:
        return pool.submit(double, x).result()


def tell(label, function, *args, **kwargs):
    try:
        print(label, function(*args, **kwargs))
    except BaseException as error:
        print(label, type(error).__name__, error)


def echo(pipe, things):
    while (thing := pipe.recv()) != "end":
        pipe.send(thing)
    for _ in iter(things.get, None):
        things.task_done()
    things.task_done()


async def awaited(pool):
    loop = asyncio.get_running_loop()
    some = [loop.run_in_executor(pool, function, 3) for function in (double, fail)]
    return [str(result) for result in await asyncio.gather(*some, asyncio.sleep(0.01, 1), return_exceptions=True)]


def executors(context):
    with futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(double, range(5), chunksize=2)))
        tell("fails", pool.submit(fail, 3).result)
        tell("exception", pool.submit(fail, 3).exception)
        late = pool.submit(slow, 4)
        tell("timeout", late.result, timeout=0.05)
        called = []
        late.add_done_callback(lambda done: called.append(done.result()))
        done, rest = futures.wait([late, pool.submit(double, 1)], return_when=futures.ALL_COMPLETED)
        print(sorted(f.result() for f in done), rest, called)
        tell("unpicklable", pool.submit(lambda: 1).result)
        tell("map timeout", list, pool.map(slow, [1], timeout=0.05))
        tell("completed late", list, futures.as_completed([pool.submit(slow, 1)], timeout=0.05))
        print(sorted(f.result() for f in futures.as_completed(pool.submit(double, n) for n in range(4))))
        cancelled = [pool.submit(slow, n) for n in range(9)][-1]
        print("cancelled", cancelled.cancel(), cancelled.cancelled())
        pool.shutdown(cancel_futures=True)
        tell("closed", pool.submit, double, 1)
    with futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        tell("died", pool.submit(die, 3).result)
        tell("nested", pool.submit(nested, 5).result)
        print("loop", asyncio.run(awaited(pool)))
    with futures.ThreadPoolExecutor(2) as pool:
        print("threads", list(pool.map(double, range(3))), pool.submit(double, 4).result())


def pools(context):
    with context.Pool(2, initializer=double, initargs=(1,), maxtasksperchild=3) as pool:
        print(pool.apply(double, (3,)), pool.map(double, range(4)), pool.starmap(divmod, [(7, 2), (9, 4)]))
        print(list(pool.imap(double, (n for n in range(3)))), sorted(pool.imap_unordered(double, range(5), 2)))
        tell("fails", pool.map, fail, [1])
        tell("fails in between", list, pool.imap(fail, iter([1])))
        tell("timeout", pool.apply_async(slow, (1,)).get, 0.05)
        tell("imap timeout", pool.imap(slow, [1]).next, 0.05)
        got = []
        pool.apply_async(double, (8,), callback=got.append).wait()
        print(got, pool.map(double, []))
    with context.Pool(2) as pool:
        results = [pool.apply_async(double, (n,)) for n in range(3)]
        pool.close()
        pool.join()
        print([result.get() for result in results])
    with multiprocessing.pool.ThreadPool(2) as pool:
        print("threads", pool.map(double, range(3)), list(pool.imap(double, range(2))))


def messages(context):
    ours, theirs = context.Pipe()
    things = context.JoinableQueue()
    process = context.Process(target=echo, args=(theirs, things), name="echo")
    process.start()
    for thing in (1, None, b"\0" * 20, "x" * 100_000, {"a": [1, 2]}, memoryview(b"12").tobytes()):
        ours.send(thing)
        assert ours.poll(5)
        assert ours.recv() == thing
    ours.send("end")
    for _ in range(3):
        things.put("same")
    things.put(None)
    things.join()
    process.join()
    print(process.exitcode, ours.poll())
    bounded = context.Queue(1)
    bounded.put(1)
    tell("full", bounded.put, 2, timeout=0.05)
    tell("full at once", bounded.put_nowait, 2)
    print(bounded.get())
    tell("empty", bounded.get, timeout=0.05)
    tell("empty at once", bounded.get_nowait)
    simple = context.SimpleQueue()
    simple.put([1])
    print(simple.get(), simple.empty())
    with context.Manager() as manager:
        shared = manager.Queue()
        shared.put(3)
        print(shared.get(), dict(manager.dict(a=1)))
    receive, send = context.Pipe(duplex=False)
    send.send(5)
    print(pickle.loads(receive.recv_bytes()))  # whoever reads the bytes reads the same
    tell("unsendable", send.send, threading.Lock())
    send.close()
    tell("closed", receive.recv)
    print(mp.connection.wait([receive], 0) == [receive])


if __name__ == "__main__":
    method = sys.argv[1]
    for part in (executors, pools, messages):
        part(mp.get_context(method))
    print(inspect.signature(futures.wait), inspect.isgeneratorfunction(futures.as_completed))
    print(isinstance(queue.Empty(), Exception), mp.current_process().name, len(mp.active_children()))
    sys.exit(7)
