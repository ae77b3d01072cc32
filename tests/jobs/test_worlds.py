"""A job of two launchers side by side: two worlds of ranks in one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalana import api
from tests.jobs.test_launching import PROGRAMS, ROOT, environment, free_port, line_of
from tests.needs import torch_or_skip

pytestmark = pytest.mark.slow

torch_or_skip()

PROGRAM = PROGRAMS / "two_worlds.py"
SCRIPT = """
torchrun --role trainer --nproc-per-node 2 --master-port $FIRST {program} trainer &
SCALANA_ROLE=rollout torchrun --nproc-per-node 2 --master-port $SECOND {program} rollout || { kill $!; exit 1; }
wait $!
"""


@pytest.mark.measured
@pytest.mark.long
def test_two_launchers_are_two_worlds_of_one_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "scalana",
            "run",
            "-o",
            str(run),
            "--",
            "sh",
            "-c",
            SCRIPT.replace("{program}", str(PROGRAM)),
        ],
        cwd=ROOT,
        env=environment(
            SLEPT=str(tmp_path / "slept"),
            FIRST=str(free_port()),
            SECOND=str(free_port()),
            JOINED_PORT=str(free_port()),
        ),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(api.analyze(os.fspath(run)).to_json())
    assert document["run"]["processes"] == ["rollout 0", "rollout 1", "trainer 0", "trainer 1"]
    assert not [text for text in document["run"]["warnings"] if "record" in text or "lack members" in text]
    assert all(row["calls"] > 24 for row in document["communication"])
    finding = document["findings"][0]
    assert (finding["root"]["line"], finding["processes"]) == (line_of(PROGRAM, "long here"), ["rollout 1"])
    # Rollout 0 waits in their own group, the trainers in the one that joins the worlds.
    assert finding["lost_s"] == pytest.approx(3 * float((tmp_path / "slept").read_text()), rel=0.2)
    assert sum(document["time"].values()) == pytest.approx(4 * document["run"]["seconds"], rel=0.01)
    assert "rollout 1" in done.stderr and "rank 1" not in done.stderr
