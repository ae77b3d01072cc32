"""What launchers are given that do not hand on all of the environment to other hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalana.job import handing_on
from scalana.runtime.record import layout

from .command import ROOT, command


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a job whose run folder is ``run``, started at home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    return {"PATH": os.defpath, "TOKEN": "mine", layout.RUN_VARIABLE: str(tmp_path / "run")}


@pytest.mark.parametrize("words", [["deepspeed", "--hostfile", "hosts", "t.py"], ["sh", "-c", "deepspeed t.py"]])
def test_the_launcher_of_deepspeed_has_a_file(environ: dict[str, str], words: list[str]) -> None:
    Path(".deepspeed_env").write_text("NCCL_DEBUG=INFO")
    path = Path(handing_on.handed_on(words, environ)["DS_ENV_FILE"])
    assert path.read_text() == f"NCCL_DEBUG=INFO\nSCALANA_RUN_DIR={environ['SCALANA_RUN_DIR']}\n"
    assert path.stat().st_mode & 0o077 == 0
    handing_on.forget(environ[layout.RUN_VARIABLE])
    assert not path.exists()


def test_a_file_that_the_user_names_comes_first(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("A=1\n")
    found = handing_on.handed_on(["deepspeed", "t.py"], {**environ, "DS_ENV_FILE": str(tmp_path / "mine")})
    assert Path(found["DS_ENV_FILE"]).read_text().splitlines()[0] == "A=1"


@pytest.mark.slow
def test_a_launcher_whose_ranks_left_no_record_is_no_job_of_one_rank(tmp_path: Path) -> None:
    shell = tmp_path / "pdsh"
    shell.write_text("#!/bin/sh\nexec true\n")
    shell.chmod(0o755)
    launcher = "import subprocess; subprocess.run(['pdsh', '-w', 'a,b', './app'])"
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    run = ["run", "--no-report", "-o", str(tmp_path / "run"), "--", sys.executable, "-c", launcher]
    subprocess.run([sys.executable, "-m", "scalana", *run], env=environ, check=True, capture_output=True)
    warnings = json.loads(command("report", "--format", "json", tmp_path / "run").stdout)["run"]["warnings"]
    assert any("processes that pdsh started on other hosts left no record" in warning for warning in warnings)
    assert "waits for no other" not in command("report", tmp_path / "run").stdout


def test_other_commands_have_none(environ: dict[str, str]) -> None:
    assert handing_on.handed_on(["torchrun", "t.py"], environ) == {}
    assert os.listdir(environ[layout.RUN_VARIABLE]) == []
