"""All that sockets of ZeroMQ do, right and wrong: what it prints and how it ends is the same with a recorder."""

from __future__ import annotations

import array
import asyncio
import os
import pickle
import sys
import threading
import time
import warnings

import zmq
import zmq.asyncio
from zmq.devices import ThreadProxy

LARGE = bytes(range(256)) * 40_000


def tell(label, function, *args, **kwargs):
    try:
        print(label, function(*args, **kwargs))
    except BaseException as error:
        print(label, type(error).__name__, error)


def pair(context, one, other, name):
    """Two sockets that are connected."""
    first, second = context.socket(one), context.socket(other)
    first.bind(f"inproc://{name}")
    second.connect(f"inproc://{name}")
    for socket in (first, second):
        socket.rcvtimeo = 5000
    return first, second


def one_way(context):
    pull, push = pair(context, zmq.PULL, zmq.PUSH, "one way")
    tell("nothing there", pull.recv, zmq.NOBLOCK)
    tell("nothing there", pull.recv_multipart, flags=zmq.NOBLOCK)
    push.send(b"bytes")
    tell("bytes", pull.recv)
    push.send(array.array("i", range(5)))
    tell("items", pull.recv)
    push.send(memoryview(LARGE)[::-1].tobytes(), copy=False)
    print("large", pull.recv(copy=False).bytes == LARGE[::-1])
    tracker = push.send(LARGE, copy=False, track=True)
    print("tracked", pull.recv() == LARGE, tracker.wait(5))
    push.send(zmq.Frame(b"frame"))
    print("frame", pull.recv(copy=False, track=False))
    push.send_multipart([b"a", bytearray(b"b"), memoryview(b"c"), b""])
    tell("parts", pull.recv_multipart)
    push.send_multipart([b"a", b"b"])
    print("one by one", pull.recv(), pull.getsockopt(zmq.RCVMORE), pull.recv(copy=False).more)
    push.send_string("text")
    tell("text", pull.recv_string)
    push.send_json({"a": [1, 2]})
    tell("json", pull.recv_json)
    push.send_pyobj({1, 2})
    tell("object", pull.recv_pyobj)
    push.send_serialized(("x", 1), lambda message: [b"head", pickle.dumps(message)])
    tell("serialized", pull.recv_serialized, lambda frames: (frames[0], pickle.loads(frames[1])))
    if hasattr(pull, "recv_into"):
        room = bytearray(8)
        push.send(b"into")
        print("into", pull.recv_into(room), bytes(room))
    else:
        print("into", 4, b"into\0\0\0\0")
    tell("a text", push.send, "text")
    tell("no frame", push.send_multipart, [b"a", 1])
    pull.rcvtimeo = 20
    tell("in vain", pull.recv)
    for _ in range(3):
        push.send(b"the same")
    print([pull.recv() for _ in range(3)])
    push.close()
    tell("closed", push.send, b"late")
    pull.close()
    tell("closed", pull.recv)
    tell("closed", pull.poll, 10)


def polls(context):
    pull, push = pair(context, zmq.PULL, zmq.PUSH, "polls")
    poller = zmq.Poller()
    poller.register(pull, zmq.POLLIN)
    print("asked", poller.poll(0), pull.poll(0), poller.poll(10), pull.poll(timeout=10))
    thread = threading.Thread(target=lambda: (time.sleep(0.05), push.send(b"late")))
    thread.start()
    print("came", dict(poller.poll()) == {pull: zmq.POLLIN}, pull.recv())
    thread.join()
    push.send(b"there")
    print("there", [len(some) for some in zmq.select([pull], [push], [], 1)], pull.recv(zmq.NOBLOCK))
    print("nothing", zmq.select([pull], [], [], 0), zmq.select([pull], [], [], 0.01))
    reader, writer = os.pipe()
    poller.register(reader, zmq.POLLIN)
    os.write(writer, b"x")
    print("a file", poller.poll(100) == [(reader, zmq.POLLIN)])


def envelopes(context):
    rep, req = pair(context, zmq.REP, zmq.REQ, "asks")
    tell("too early", req.recv)
    for number in range(2):
        req.send(b"%d" % number)
        print("asked", rep.recv())
        rep.send_multipart([b"answer", b"%d" % number])
        print("answered", req.recv_multipart())
    for other in (zmq.DEALER, zmq.REQ):
        router, socket = pair(context, zmq.ROUTER, other, f"router {int(other)}")
        socket.send_multipart([b"head", b"body"])
        name, *parts = router.recv_multipart()
        print("routed", parts)
        router.send_multipart([name, *parts])
        print("back", socket.recv_multipart())
        router.router_mandatory = 1
        tell("nobody", router.send_multipart, [b"nobody", b"x"])
    rep, dealer = pair(context, zmq.REP, zmq.DEALER, "dealer")
    dealer.send_multipart([b"", b"to rep"])
    print("rep", rep.recv())
    rep.send(b"from rep")
    print("dealer", dealer.recv_multipart())
    one, other = pair(context, zmq.PAIR, zmq.PAIR, "pair")
    for first, second in ((one, other), (other, one)):
        first.send(b"ping")
        print(second.recv())
    xpub, sub = pair(context, zmq.XPUB, zmq.SUB, "news")
    sub.subscribe("a")
    print("subscribed", xpub.recv())
    xpub.send_multipart([b"b", b"not this"])
    xpub.send_multipart([b"a", b"this"])
    print("news", sub.recv_multipart())


def proxied(context):
    proxy = ThreadProxy(zmq.ROUTER, zmq.DEALER)
    front, back = (f"ipc:///tmp/zmq-{os.getpid()}-{end}" for end in ("front", "back"))
    proxy.bind_in(front)
    proxy.bind_out(back)
    proxy.daemon = True
    proxy.start()
    client, worker = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    client.connect(front)
    worker.connect(back)
    client.send_multipart([b"request", b"1"])
    name, *parts = worker.recv_multipart()
    print("through", parts)
    worker.send_multipart([name, *parts])
    print("back", client.recv_multipart())
    for socket in (client, worker):
        socket.close()
    for path in (front, back):
        os.unlink(path.removeprefix("ipc://"))


async def coroutines():
    with zmq.asyncio.Context() as context:
        pull, push = pair(context, zmq.PULL, zmq.PUSH, "loop")
        pull.rcvtimeo = -1
        waiting = asyncio.ensure_future(pull.recv_multipart())
        await asyncio.sleep(0.05)
        await push.send_multipart([b"a", b"b"])
        print("awaited", await waiting)
        try:
            await asyncio.wait_for(pull.recv(), 0.02)
        except asyncio.TimeoutError:
            print("in vain")
        await push.send_pyobj([1])
        print("there", await pull.recv_pyobj())
        both = [asyncio.ensure_future(pull.recv()) for _ in range(2)]
        await asyncio.sleep(0.02)
        for number in range(2):
            await push.send(b"%d" % number)
        print("both", await asyncio.gather(*both))
        poller = zmq.asyncio.Poller()
        poller.register(pull, zmq.POLLIN)
        print("asked", await poller.poll(0), await pull.poll(10))
        asyncio.get_running_loop().call_later(0.05, push.send, b"polled")
        print("polled", len(await poller.poll()), await pull.recv())
        pull.rcvtimeo = 10
        try:
            await pull.recv()
        except zmq.Again as error:
            print("again", error)
        for socket in (pull, push):
            socket.close()


def forked(context):
    pull = context.socket(zmq.PULL)
    port = pull.bind_to_random_port("tcp://127.0.0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        with zmq.Context() as own, own.socket(zmq.PUSH) as push:
            push.connect(f"tcp://127.0.0.1:{port}")
            push.send(b"from a child")
        os._exit(0)
    print(pull.recv())
    os.waitpid(child, 0)
    pull.close()


if __name__ == "__main__":
    main = zmq.Context()
    for part in (one_way, polls, envelopes, proxied, forked):
        part(main)
    asyncio.run(coroutines())
    main.destroy(linger=0)
    sys.exit(7)
