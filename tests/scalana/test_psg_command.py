"""``scalana psg``: the structure of source files on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.scalana.command import ROOT, command

SOURCE = """\
import torch.distributed as dist

def step(batch):
    for item in batch:
        item.sum()
    dist.all_reduce(batch)

for batch in range(3):
    step(batch)
"""


def psg(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``scalana psg`` in ``cwd``, in this process."""
    return command("psg", *arguments, cwd=cwd)


def test_text_shows_loops_and_communication(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    result = psg(tmp_path, "train.py")
    assert result.returncode == 0 and result.stderr == ""
    assert "comm allreduce" in result.stdout and "train.py:" in result.stdout and "loop" in result.stdout


def test_json_is_the_whole_graph(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    result = psg(tmp_path, "--format", "json", ".")
    graph = json.loads(result.stdout)
    assert graph["schema"] == "scalana.psg/1" and graph["warnings"] == []
    (comm,) = [vertex for vertex in graph["vertices"] if vertex["kind"] == "comm"]
    assert (comm["operation"], comm["file"], comm["line"]) == ("allreduce", "train.py", 6)
    step = graph["vertices"][comm["parent"]]
    assert (step["kind"], step["name"]) == ("function", "step")
    assert graph["vertices"][step["parent"]]["kind"] == "loop"


def test_a_pipe_in_a_folder_is_no_file_to_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    os.mkfifo(tmp_path / "pipe.py")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from scalana.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "psg", "."]
    assert "comm allreduce" in subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout


def test_a_wrong_option_is_an_error_of_its_command(tmp_path: Path) -> None:
    result = psg(tmp_path, "--fulll", "train.py")
    assert result.returncode == 2 and "usage: scalana psg" in result.stderr and "--fulll" in result.stderr


def test_full_shows_more(tmp_path: Path) -> None:
    loops = "".join(f"{'    ' * depth}for i{depth} in range(3):\n" for depth in range(8))
    (tmp_path / "train.py").write_text(SOURCE + loops + "    " * 8 + "print(i7)\n")
    assert psg(tmp_path, "--full", "train.py").stdout.count("\n") > psg(tmp_path, "train.py").stdout.count("\n")


def test_broken_file_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("def (:\n")
    result = psg(tmp_path, "broken.py", "train.py", "missing.py")
    assert result.returncode == 0 and "comm allreduce" in result.stdout
    assert "broken.py" in result.stderr and "missing.py" in result.stderr


def test_nothing_to_show(tmp_path: Path) -> None:
    assert psg(tmp_path, "missing.py").returncode == 1
    assert psg(tmp_path).returncode == 2
    assert psg(tmp_path, "x.py", "--", "-O2").returncode == 2


def test_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    result = psg(tmp_path, "train.py", "-o", "tree.txt")
    assert result.stdout == "" and "comm allreduce" in (tmp_path / "tree.txt").read_text()
