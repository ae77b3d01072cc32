"""The first start of a job takes what the others recorded, where they do not share its file system."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence

from scalana.job import transfer
from scalana.runtime.record import layout

_SILENCE_S = 30.0
"""How long a sender may say nothing."""
_BACKLOG = 1024
_AT_ONCE = 32
"""Connections that are served at the same time; others wait."""
_PLAIN = re.compile(r"[^\w.-]+")


class Receiver:
    """Takes records for a run folder, in threads of its own, until it is left.

    Args:
        folder: The run folder.
        ports: Where to listen: the first of them that is free.
    """

    def __init__(self, folder: str, ports: Sequence[int]) -> None:
        self._folder = folder
        self._identities = layout.worlds(folder)
        self._listener = _listen(ports) if self._identities else None
        self._busy = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._active = 0

    @property
    def receives(self) -> bool:
        """Whether a sender is being served."""
        return self._active > 0

    @property
    def listens(self) -> bool:
        """Whether senders can connect."""
        return self._listener is not None

    @contextlib.contextmanager
    def open(self) -> Iterator[Receiver]:
        """Serve meanwhile."""
        if self._listener is None:
            yield self
            return
        thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join(1.0)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            self._busy.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:  # closed
                self._busy.release()
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._active += 1
        try:
            with connection, contextlib.suppress(OSError, transfer.TransferError, ValueError, TypeError):
                connection.settimeout(_SILENCE_S)
                self._take(connection)
        finally:
            with self._lock:
                self._active -= 1
            self._busy.release()

    def _take(self, connection: socket.socket) -> None:
        """Take the records of one sender, all or nothing.

        Raises:
            TransferError: it is of another job, or does not keep to the form.
            OSError: the connection is lost, or the disk is full.
        """
        with transfer.closed(connection.makefile("rwb")) as stream:  # type: ignore[arg-type]
            challenge = os.urandom(16).hex()
            transfer.write_line(stream, {"greeting": transfer.GREETING, "challenge": challenge})
            asked = transfer.read_line(stream)
            proofs = [str(one) for one in asked.get("proofs", [])]
            identity = transfer.known_by(proofs, self._identities, "sends", challenge)
            if not identity:
                raise transfer.TransferError("a start of another job")
            answer = transfer.proof(identity, "receives", str(asked.get("challenge")))
            transfer.write_line(stream, {"proof": answer})
            said = transfer.read_line(stream)
            name = self._new_name(str(said.get("name", "")))
            target = layout.start_folder(self._folder, name)
            coming = f"{target}.coming"
            try:
                transfer.receive_files(stream, coming)
                os.rename(coming, target)
            except BaseException:
                shutil.rmtree(coming, ignore_errors=True)
                raise
            layout.write_json(layout.start_file(self._folder, name), {**said, "sent": True})
            transfer.write_line(stream, {"kept": True})

    def _new_name(self, wanted: str) -> str:
        """A name for a start that none has here."""
        plain = _PLAIN.sub("-", wanted).strip(".")[:100] or "start"
        with self._lock:
            name, number = plain, 1
            while self._is_taken(name):
                number += 1
                name = f"{plain}-{number}"
            os.makedirs(f"{layout.start_folder(self._folder, name)}.coming")
            return name

    def _is_taken(self, name: str) -> bool:
        folder = layout.start_folder(self._folder, name)
        return any(map(os.path.lexists, (folder, f"{folder}.coming", layout.start_file(self._folder, name))))


def _listen(ports: Sequence[int]) -> socket.socket | None:
    """A listener at the first free port; None where all are in use."""
    for port in ports:
        with contextlib.suppress(OSError):
            if socket.has_dualstack_ipv6():
                with contextlib.suppress(OSError):
                    return socket.create_server(
                        ("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
                    )
            return socket.create_server(("", port), backlog=_BACKLOG)
    return None
