"""Coroutines that await timers, a message, a thread and each other."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator

ROUNDS = 6


async def tool() -> None:
    await asyncio.sleep(0.04)  # tool


async def think() -> None:
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until:  # thinks
        pass


async def limited() -> None:
    await asyncio.wait_for(asyncio.sleep(0.03), 5)  # limited


async def items() -> AsyncIterator[int]:
    for number in range(ROUNDS):
        await asyncio.sleep(0.03)  # items
        yield number


async def main() -> None:
    for _ in range(ROUNDS):
        await asyncio.gather(tool(), tool())
        await think()
        await limited()
    async for _ in items():
        pass
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.3)  # thread
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    threading.Timer(0.3, there.send, (b"x",)).start()
    await reader.readexactly(1)  # message
    writer.close()
    there.close()


asyncio.run(main())
