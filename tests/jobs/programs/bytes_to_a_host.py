"""Sends bytes over a link from one host to another, in two connections, without any ranks."""

from __future__ import annotations

import os
import socket
import time

PORT = 29777
SIZES = (3_000_000, 1_000_000)


def receive() -> None:
    with socket.create_server(("", PORT)) as server:
        for size in SIZES:
            with server.accept()[0] as connection:
                left = size
                while left > 0:
                    left -= len(connection.recv(1 << 16))
                connection.sendall(b"thanks")
                connection.recv(1)


def connected(address: str) -> socket.socket:
    while True:
        try:
            return socket.create_connection((address, PORT))
        except OSError:
            time.sleep(0.05)


def send() -> None:
    """Each connection stays for longer than the recorder takes to look at it."""
    for size in SIZES:
        with connected(os.environ["HEAD_ADDR"]) as connection:
            connection.sendall(bytes(size))
            connection.recv(16)
            time.sleep(2.5)


receive() if os.environ["HOST_INDEX"] == "0" else send()
