"""The analysis of a copied run: no Linux, no C extension, and the sources in another place."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scalana.command import command
from tests.scalana.recorded import PREPARE_LINE, write_run

ROOT = Path(__file__).resolve().parents[2]

FOREIGN = """\
import builtins, io, os, signal, sys
sys.platform = "{platform}"  # what a program sees; numpy and numba have been loaded for the real one

class NoExtension:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "scalana.runtime._core":
            raise ImportError("no extension here")

sys.meta_path.insert(0, NoExtension)
for name in ("sched_getaffinity", "geteuid", "statvfs", "fork", "forkpty", "wait4", "waitid", "killpg", "getpgid"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGCHLD", "pthread_sigmask", "sigtimedwait"):
    if hasattr(signal, name):
        delattr(signal, name)

class NoModules:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("resource", "fcntl", "termios", "pwd", "grp", "pty"):
            raise ImportError(name + ": not on this system")

for name in ("resource", "fcntl", "termios", "pwd", "grp", "pty"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, NoModules)
opened = io.open

def open_here(file, *arguments, **options):
    path = os.fspath(file) if not isinstance(file, int) else ""
    if isinstance(path, str) and path.startswith(("/proc/", "/sys/")):
        raise AssertionError("asked Linux: " + path)
    return opened(file, *arguments, **options)

builtins.open = io.open = open_here
"""
"""Makes a Python of Linux look like that of another system, as far as a program can tell."""

LOADED_BEFORE = "import ctypes, subprocess, threading, concurrent.futures, numpy, numba, pandas, networkx, rich\n"
"""What other people's packages ask their system is not ours to change."""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A run of two ranks, one of which is late, with its sources in another folder by now."""
    write_run(tmp_path / "run", tmp_path / "there")
    shutil.move(tmp_path / "there", tmp_path / "here")
    return tmp_path


def on(platform: str, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program on what looks like another system."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_R")}
    return subprocess.run(
        [sys.executable, "-c", LOADED_BEFORE + FOREIGN.format(platform=platform) + program, *arguments],
        env=kept,
        capture_output=True,
        text=True,
        timeout=300,
    )


COMMANDS = """\
from scalana.cli import main
run, here, out = sys.argv[1:]
assert main(["report", run, "--source", here, "--format", "json", "-o", out + "/report.json"]) == 0
assert main(["report", run, "--source", here, "--format", "html", "-o", out + "/report.html"]) == 0
assert main(["diff", run, run, "--source", here, "-o", out + "/diff.txt"]) == 0
for form in ("chrome", "speedscope"):
    assert main(["export", run, "--source", here, "--to", form, "-o", out + "/" + form + ".json"]) == 0
try:
    main(["--help"])
except SystemExit as left:
    assert left.code == 0
print(main(["run", "--", "true"]))
assert "scalana.runtime._core" not in sys.modules
"""


def root_of(text: str) -> tuple[str, int]:
    """File and line of the first finding of a JSON report."""
    root = json.loads(text)["findings"][0]["root"]
    return root["file"], root["line"]


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_a_copied_run_is_analysed(platform: str, copied: Path, tmp_path: Path) -> None:
    done = on(platform, COMMANDS, copied / "run", copied / "here", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("1\n") and "records on Linux only" in done.stderr
    report = (tmp_path / "report.json").read_text()
    assert root_of(report) == ("job.py", PREPARE_LINE)
    here = command("report", copied / "run", "--source", copied / "here", "--format", "json")
    assert json.loads(report) == json.loads(here.stdout)
    assert "return sorted(batch)" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "chrome.json").read_text())


def test_sources_are_found_where_they_are_now(copied: Path) -> None:
    """With them there is an excerpt, and each way of naming them gives the same."""
    run = copied / "run"
    by_folder = command("report", run, "--source", copied / "here").stdout
    assert by_folder == command("report", run, "--source", f"{copied / 'there'}={copied / 'here'}").stdout
    assert "return sorted(batch)" in by_folder
    without = command("report", run)
    assert "job.py:5" in without.stdout and "return sorted(batch)" not in without.stdout


def test_sources_that_are_not_there(copied: Path, tmp_path: Path) -> None:
    done = command("report", copied / "run", "--source", tmp_path / "none")
    assert done.returncode == 2 and "no such folder" in done.stderr
