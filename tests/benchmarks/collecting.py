"""Many starts of a job that send their records to the first one at once, some of which die in the middle.

Run: python -m tests.benchmarks.collecting [--nodes 256] [--records 8] [--kilobytes 256]

The nodes are processes on this machine, and the network is its loopback. Every tenth node dies when it has sent half of
its records. What arrived is compared with what was sent.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana.job import transfer  # noqa: E402
from scalana.job.gathering import send  # noqa: E402
from scalana.job.receiving import Receiver  # noqa: E402
from scalana.runtime.record import layout  # noqa: E402

DYING = 10
"""One node of so many dies."""
PATIENCE_S = 300.0
IDENTITY = "0123456789abcdef"


def content(node: int, number: int, size: int) -> bytes:
    """A record of a node, of which half does not compress."""
    noise = random.Random(node * 1000 + number).randbytes(size // 2)
    return noise + bytes(size - size // 2)


def write_node(folder: Path, node: int, records: int, size: int) -> None:
    """The run folder of a node that has ended."""
    (folder / layout.RECORDS).mkdir(parents=True)
    layout.note_world(folder, IDENTITY)
    for number in range(records):
        (folder / layout.RECORDS / f"node{node}-{number}-0.rec").write_bytes(content(node, number, size))


def die_after(files: int) -> None:
    """Have this process killed when it has begun to send so many files."""
    write_line = transfer.write_line
    left = files

    def counted(stream: object, line: object) -> None:
        nonlocal left
        left -= isinstance(line, dict) and "file" in line
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        write_line(stream, line)  # type: ignore[arg-type]

    transfer.write_line = counted


def node_process(folder: Path, node: int, port: int, gate: tuple[int, int], records: int) -> int:
    """Start a node, which waits until the writing end of a pipe is closed; returns its process."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(gate[1])
        os.read(gate[0], 1)
        if node % DYING == 0:
            die_after(records // 2)
        sender = transfer.Sender(str(node), f"node{node}", 0, 60.0)
        code = 0 if send(str(folder), sender, "127.0.0.1", [port], PATIENCE_S) else 1
    finally:
        os._exit(code)


def arrived(head: Path, sent: Path, node: int) -> bool:
    """Whether all records of a node are there as they were sent."""
    came, own = Path(layout.start_folder(head, str(node))) / layout.RECORDS, sent / layout.RECORDS
    names = sorted(os.listdir(own))
    there = came.is_dir() and sorted(os.listdir(came)) == names
    return there and all((came / name).read_bytes() == (own / name).read_bytes() for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--records", type=int, default=8, help="of a node")
    parser.add_argument("--kilobytes", type=int, default=256, help="of a record")
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="collecting-"))
    head, nodes = work / "head", [work / f"node{node}" for node in range(args.nodes)]
    layout.note_world(head, IDENTITY)
    for node, folder in enumerate(nodes):
        write_node(folder, node, args.records, args.kilobytes << 10)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    gate = os.pipe()
    pids = [node_process(folder, node, port, gate, args.records) for node, folder in enumerate(nodes)]
    before = resource.getrusage(resource.RUSAGE_SELF)
    with Receiver(str(head), [port]).open():
        begin = time.monotonic()
        os.close(gate[1])
        ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        seconds = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    living = [node for node in range(args.nodes) if node % DYING]
    lost = [node for node in living if not arrived(head, nodes[node], node)]
    half = [name for name in os.listdir(head / "starts") if name.endswith(".coming")]
    died = sum(code == -signal.SIGKILL for code in ended)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    megabytes = len(living) * args.records * args.kilobytes / 1024
    print(f"{args.nodes} nodes, {died} of which die; {megabytes:.0f} MiB of records")
    print(f"collected in {seconds:.2f} s, {cpu:.2f} s of CPU time in the first start")
    print(f"memory of the first start: {after.ru_maxrss / 1024:.0f} MiB")
    print(f"lost: {len(lost)} of {len(living)}, half kept: {len(half)}")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
