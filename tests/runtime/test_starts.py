"""Where a program starts others is recorded, and nothing of what the program sees is different."""

from __future__ import annotations

import os
from pathlib import Path

from scalana.runtime.record import layout

from . import jobs

STARTS = """
import subprocess, sys

def launch(count):
    return [subprocess.Popen([sys.executable, "-c", "pass"]) for _ in range(count)]

for child in launch(COUNT):
    assert child.wait() == 0
try:
    subprocess.Popen(["/no/such/program"])
except FileNotFoundError as error:
    import traceback
    print("".join(traceback.format_exception(error)).count("starts.py"))
"""


def starts(tmp_path: Path, count: int) -> list[str]:
    done = jobs.python(STARTS.replace("COUNT", str(count)), tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0"
    (parent,) = (record for record in jobs.records(tmp_path / "run") if "launch" in str(record.meta))
    return [text for key, text in parent.meta.items() if key.startswith("started:")]


def test_each_start_has_its_call_path(tmp_path: Path) -> None:
    found = starts(tmp_path, 2)
    assert len(found) == 2
    assert all("5\tlaunch\t<string>" in text or "\tlaunch\t<string>" in text for text in found)


def test_hosts_that_a_remote_shell_reaches_are_in_the_run_folder(tmp_path: Path) -> None:
    shell = tmp_path / "pdsh"
    shell.write_text("#!/bin/sh\nexit 0\n")
    shell.chmod(0o755)
    words = [str(shell), "-f", "8", "-w", f"node1,{os.uname().nodename},node2", "hostname"]
    done = jobs.python(f"import subprocess; subprocess.run({words}, check=True)", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert layout.launched_hosts(tmp_path / "run") == ["node1", "node2"]


def test_a_program_that_starts_many_records_some(tmp_path: Path) -> None:
    assert len(starts(tmp_path, 70)) == 64
