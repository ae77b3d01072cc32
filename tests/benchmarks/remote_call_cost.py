"""What recording remote calls costs: us of wall-clock time each, best of several rounds.

Run: python tests/benchmarks/remote_call_cost.py

The first rows are what recorders of pools, queues and pipes call. The others are messages that a process sends to
itself: recorded, and by the same functions as they were, in turns within a round.
"""

from __future__ import annotations

import multiprocessing as mp
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.runtime import recorder  # noqa: E402

ROUNDS = 100
TIMES = 500


def wall_us(function: Callable[[], object]) -> float:
    """Microseconds of a call."""
    begin = time.perf_counter_ns()
    for _ in range(TIMES):
        function()
    return (time.perf_counter_ns() - begin) / TIMES / 1e3


def best(*functions: Callable[[], object]) -> list[float]:
    """The least that each takes, over rounds in which they take turns."""
    rounds = [[wall_us(function) for function in functions] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    """Measure all of them."""
    with tempfile.TemporaryDirectory() as folder:
        if not recorder.start(folder):
            sys.exit("nothing is recorded here")
        from scalana.runtime.remote import calls

        def waited() -> None:
            calls.got(calls.wait(5), 5)

        print("us each")
        functions = {
            "an id": calls.new_id,
            "submit, put": lambda: calls.submit(5),
            "reply": lambda: calls.reply(5),
            "wait and got, idle and take": waited,
        }
        (nothing,) = best(lambda: None)
        for name, us in zip(functions, best(*functions.values()), strict=True):
            print(f"  {name:40} {us - nothing:6.2f}")
        queue, (receiver, sender) = mp.SimpleQueue(), mp.Pipe(duplex=False)
        pairs = {
            "message of a queue, put and got": (type(queue).put, type(queue).get, queue, queue, 1),
            "message of a pipe, sent and received": (type(sender).send, type(receiver).recv, sender, receiver, 1),
        }
        try:
            import zmq
        except ImportError:
            print("without pyzmq, whose messages are left out")
        else:
            here, there = (zmq.Context.instance().socket(kind) for kind in (zmq.PULL, zmq.PUSH))
            here.bind("inproc://here")
            there.connect("inproc://here")
            give, take = zmq.Socket.send, zmq.Socket.recv
            pairs["100 bytes by ZeroMQ, sent and received"] = give, take, there, here, b"x" * 100
            pairs["a megabyte by ZeroMQ"] = give, take, there, here, b"x" * 1_000_000
        print("us of a message   recorded   plain")
        for name, (give, take, there, here, sent) in pairs.items():
            plain_give, plain_take = give.__wrapped__, take.__wrapped__
            recorded, plain = best(
                lambda give=give, take=take, there=there, here=here, sent=sent: (give(there, sent), take(here)),
                lambda give=plain_give, take=plain_take, there=there, here=here, sent=sent: (
                    give(there, sent),
                    take(here),
                ),
            )
            print(f"  {name:40} {recorded:6.2f}  {plain:6.2f}   {recorded - plain:+.2f}")
        recorder.stop()


if __name__ == "__main__":
    main()
