"""No start of a job listens while the job runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.scalana.command import ROOT

LISTENING = """
import os, pathlib, socket, sys
mine = socket.create_server(("127.0.0.1", 0)) if sys.argv[1:] else None
lines = [line.split() for name in ("tcp", "tcp6", "udp", "udp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
waiting = {words[9] for words in lines if words[3] in ("0A", "07")}
def ports(pid):
    links = [os.readlink(path) for path in pathlib.Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return [link for link in links if link.startswith("socket:[") and link[8:-1] in waiting]
print(len(ports(os.getpid())), len(ports(os.getppid())))
"""
"""Says how many sockets a process and the one that started it wait at; with an argument, it opens one first."""


def test_neither_the_first_start_nor_another_one_listens_while_a_job_runs(tmp_path: Path) -> None:
    program = tmp_path / "listening.py"
    program.write_text(LISTENING)
    starts = []
    for rank in range(2):
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29871",
        }
        run = ["-m", "scalana", "run", "--no-report", "-o", "run", "--", sys.executable, str(program)]
        starts.append(
            subprocess.Popen(
                [sys.executable, *run],
                cwd=tmp_path,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [start.communicate(timeout=120)[0].split() for start in starts]
    assert said == [["0", "0"], ["0", "0"]]


def test_a_socket_that_is_open_is_seen(tmp_path: Path) -> None:
    program = tmp_path / "listening.py"
    program.write_text(LISTENING)
    done = subprocess.run([sys.executable, str(program), "open"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "1"
