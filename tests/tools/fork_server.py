"""Jobs of torch whose processes are forked from one that has imported torch once, for all tests of a session.

:func:`launcher` gives the words before a program that run it as :mod:`tests.tools.forked` does. They start a small
client. It hands its environment, its folder and its standard streams to a server, which forks the job. The server is
started by the first client that needs it, one for each kind of environment, and has imported torch as a job does: under
the recorder, if the job is to be recorded. Without ``FORK_SERVERS``, which names a folder for the servers and is set by
``tests/conftest.py``, and for environments of no common kind, the client becomes the job itself.

:func:`alone` does so for a program that is no rank, of a file or of ``-c``.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

VARIABLE, OWNER = "FORK_SERVERS", "FORK_SERVERS_OWNER"
"""Folder of the servers' sockets; process with whose end the servers end."""
HERE = Path(__file__).resolve()
DIRECTLY = HERE.with_name("forked.py")
START_S = 60.0
OF_TORCH = (
    "torch._dynamo.backends.debugging",
    "torch.distributed._functional_collectives",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor",
)
"""What jobs import of torch, sooner or later."""
OWNER_S = 2.0
"""How often a server looks whether its owner is still there."""
LENGTH = struct.Struct("!Q")
STATUS = struct.Struct("!I")
COMMON = {
    "SCALANA_PACKAGE", "SCALANA_CACHE", "SCALANA_TORCH_KERNELS",
    "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
}  # fmt: skip
"""Variables that are read when torch or the recorder is imported, and differ between kinds of jobs."""
OF_THE_JOB = {
    "SCALANA_RUN_DIR", "SCALANA_RATE_HZ", "SCALANA_BUDGET_BYTES",
    "SCALANA_TEST_MPI", "PYTHONPATH", "LD_LIBRARY_PATH", "TORCHINDUCTOR_CACHE_DIR",
}  # fmt: skip
"""Those that a server can hand on to a job."""
READ_AT_IMPORT = ("SCALANA_", "TORCH", "PYTORCH_", "PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "MALLOC_")


def launcher(ranks: int) -> list[str]:
    """The command before a program's name that runs it on some ranks."""
    return [sys.executable, "-I", "-S", str(HERE), str(ranks)]


def alone() -> list[str]:
    """The command before what stands behind ``python`` that runs it in a process which has torch imported."""
    return launcher(0)


def kind_of(environ: dict[str, str]) -> str | None:
    """A name for the environments that one server serves, or None for one that has more than is common."""
    telling = {name: value for name, value in environ.items() if value and name.startswith(READ_AT_IMPORT)}
    if telling.keys() - COMMON - OF_THE_JOB:
        return None
    recorded = "SCALANA_RUN_DIR" in environ
    shared = {name for name in COMMON if name.startswith("SCALANA_")} if not recorded else set()
    if telling.get("SCALANA_TORCH_KERNELS") == "0":
        shared.add("SCALANA_CACHE")  # nothing is looked for there before the job begins
    key = sorted((name, value) for name, value in telling.items() if name in COMMON - shared)
    text = repr((key, recorded, sys.executable))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# The client: standard library only, and no recorder, as nothing of it belongs to the job.


def connect(path: Path) -> socket.socket | None:
    """A connection with the server at a path, if there is one."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    return connection


def server_at(path: Path) -> socket.socket | None:
    """A connection with the server at a path, which is started where there is none; None if that fails."""
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = connect(path)
        if connection is not None:
            return connection
        environ = dict(os.environ)
        if "SCALANA_RUN_DIR" in environ:
            environ["SCALANA_RUN_DIR"] = str(path.with_suffix(".run"))
        server = subprocess.Popen(
            [sys.executable, str(HERE), "--serve", str(path)],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(path.with_suffix(".err"), "w"),  # noqa: SIM115  handed on
            start_new_session=True,
        )
        until = time.monotonic() + START_S
        while connection is None and server.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
            connection = connect(path)
        return connection


def ask(connection: socket.socket, arguments: list[str]) -> int:
    """Has a server run a job, and waits for its end; the exit code."""
    request = json.dumps({"arguments": arguments, "environ": dict(os.environ), "folder": os.getcwd()}).encode()
    socket.send_fds(connection, [LENGTH.pack(len(request))], [0, 1, 2])
    connection.sendall(request)
    told = b""
    while piece := connection.recv(STATUS.size):
        told += piece
    return int(STATUS.unpack(told)[0]) if len(told) == STATUS.size else 1


def client(arguments: list[str]) -> None:
    """Runs a job by a server, or becomes it."""
    if arguments[0] not in ("0", "1"):
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
    folder, kind = os.environ.get(VARIABLE), kind_of(dict(os.environ))
    connection = server_at(Path(folder) / kind) if folder and kind else None
    if connection is None:
        directly = arguments[1:] if arguments[0] == "0" else [str(DIRECTLY), *arguments]
        os.execv(sys.executable, [sys.executable, *directly])
    sys.exit(ask(connection, arguments))


# The server.


@dataclass
class Request:
    """What a client asks for."""

    client: socket.socket
    arguments: list[str]
    environ: dict[str, str]
    folder: str
    streams: list[int]


def receive(connection: socket.socket) -> Request:
    """A client's request. Raises OSError or ValueError where it has gone."""
    header, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    left, text = LENGTH.unpack(header)[0], b""
    while len(text) < left:
        piece = connection.recv(min(left - len(text), 1 << 16))
        if not piece:
            for stream in streams:  # whose readers would wait for this process
                os.close(stream)
            raise ConnectionError("the client has gone")
        text += piece
    told: dict[str, Any] = json.loads(text)
    return Request(connection, told["arguments"], told["environ"], told["folder"], list(streams))


def serve(path: str) -> Request | None:
    """Forks a process for each request: there the request is returned; in the server None, when its owner has ended."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listener.settimeout(OWNER_S)
    owner = int(os.environ[OWNER])
    while _runs(owner) and os.path.exists(path):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            connection, _ = listener.accept()
            request = receive(connection)
        except (OSError, ValueError, struct.error):  # nobody for a while, or one that has gone
            continue
        if not os.fork():
            listener.close()
            return request
        for stream in request.streams:
            os.close(stream)
        connection.close()
    return None


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def become(request: Request) -> None:
    """Turns this process, which a server has forked, into the one that the client has asked for."""
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    sys.argv = [str(DIRECTLY), *request.arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    given = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[1:1] = [entry for entry in given if entry not in sys.path and not entry.endswith("/bootstrap")]
    if "SCALANA_RUN_DIR" in os.environ:
        from scalana.runtime import recorder  # type: ignore[attr-defined]  # of the light package of a job

        recorder.start_from_environment()


def main() -> None:
    if sys.argv[1] != "--serve":
        client(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import forked  # type: ignore[import-not-found]  # beside this file

    for module in OF_TORCH:
        import_module(module)
    gc.collect()
    gc.freeze()
    if "SCALANA_RUN_DIR" in os.environ:
        from scalana.runtime import recorder  # type: ignore[attr-defined]

        recorder.stop(0)
    request = serve(sys.argv[2])
    if request is not None and request.arguments[0] == "0":
        forked.wait_outside(request.client)
        become(request)
        forked.run_alone(request.arguments[1:])
    elif request is not None:
        become(request)
        forked.run(request.client)


if __name__ == "__main__":
    main()
