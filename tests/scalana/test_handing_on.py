"""What launchers are given that do not hand on all of the environment to other hosts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scalana.job import handing_on, launch
from scalana.runtime.record import layout

from .command import ROOT, command


@pytest.mark.parametrize("others", [{}, {"SCALANA_RATE_HZ": "200"}])
def test_one_variable_has_all_of_a_recorded_job(others: dict[str, str], tmp_path: Path) -> None:
    """The start-up hook finds the run folder by it. Who has others of ours, but no folder, is not to be recorded."""
    folder = tmp_path / "a run; of: mine"
    variables = launch.environment(str(folder), 200.0, {"TOKEN": "secret"}, "job")
    packed = handing_on.handed_on(["any"], variables)[layout.PASSED_ON_VARIABLE]
    assert re.fullmatch(r"[\w=:]+", packed)
    program = "import os; print(os.environ.get('SCALANA_RUN_DIR'), os.environ.get('SCALANA_JOB'), end='')"
    environ = {"PATH": os.defpath, "PYTHONPATH": variables["PYTHONPATH"], layout.PASSED_ON_VARIABLE: packed, **others}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("None None" if others else f"{folder} job", "")
    assert (folder / layout.RECORDS).is_dir() != bool(others)


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
