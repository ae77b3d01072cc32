"""A start sends what it recorded to the first start of its job."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Sequence

from scalana.job import transfer
from scalana.runtime.record import layout

_CONNECT_S = 2.0
_SILENCE_S = 30.0
"""How long the other end may say nothing."""
_AGAIN_S = 0.5


def send(folder: str, sender: transfer.Sender, address: str, ports: Sequence[int], patience_s: float) -> bool:
    """Send the records of a folder. Returns whether all have arrived.

    Args:
        folder: The run folder of this start.
        sender: What it is called, and how it ended.
        address: Host of the first start.
        ports: Where that may listen.
        patience_s: How long to try: it listens only when its own part of the job has ended.
    """
    identities = layout.worlds(folder)
    until = time.monotonic() + patience_s
    while identities:
        for port in ports:
            with contextlib.suppress(OSError, transfer.TransferError):
                with socket.create_connection((address, port), _CONNECT_S) as connection:
                    connection.settimeout(_SILENCE_S)
                    _send_all(connection, folder, sender, identities)
                    return True
        if time.monotonic() > until:
            return False
        time.sleep(_AGAIN_S)
    return False


def _send_all(connection: socket.socket, folder: str, sender: transfer.Sender, identities: Sequence[str]) -> None:
    """Send everything over one connection.

    Raises:
        TransferError: at the other end is no start of this job.
        OSError: the connection is lost.
    """
    with transfer.closed(connection.makefile("rwb")) as stream:  # type: ignore[arg-type]
        greeting = transfer.read_line(stream)
        if greeting.get("greeting") != transfer.GREETING:
            raise transfer.TransferError("another program listens there")
        challenge = os.urandom(16).hex()
        proofs = [transfer.proof(one, "sends", str(greeting.get("challenge"))) for one in identities]
        transfer.write_line(stream, {"proofs": proofs, "challenge": challenge})
        answer = transfer.read_line(stream)
        if not transfer.known_by([str(answer.get("proof"))], identities, "receives", challenge):
            raise transfer.TransferError("a start of another job listens there")
        transfer.write_line(stream, vars(sender))
        transfer.send_files(stream, folder, _names(folder))
        if not transfer.read_line(stream).get("kept"):
            raise transfer.TransferError("the other end could not keep the records")


def _names(folder: str) -> list[str]:
    """What is sent: records with what lies beside them, and what the run was."""
    found = ["run.json"]
    for part in (layout.RECORDS, layout.WORLDS):
        with contextlib.suppress(OSError):
            found += sorted(f"{part}/{name}" for name in os.listdir(os.path.join(folder, part)))
    return found
