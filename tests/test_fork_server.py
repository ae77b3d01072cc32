"""The server that forks the jobs of tests."""

from __future__ import annotations

import os
import socket

import pytest

from tests.tools.fork_server import LENGTH, receive


def test_a_client_that_goes_in_the_middle_of_its_request_leaves_nothing() -> None:
    client, server = socket.socketpair(socket.AF_UNIX)
    reader, writer = os.pipe()
    socket.send_fds(client, [LENGTH.pack(100)], [writer] * 3)
    client.sendall(b"{")
    client.close()
    os.close(writer)
    with pytest.raises(ConnectionError):
        receive(server)
    assert os.read(reader, 1) == b"", "no end of the pipe is left open"
    os.close(reader)
    server.close()
