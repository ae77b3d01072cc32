"""TRL's GRPO on two processes, as its users write it: whose phase is charged, and that nothing changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount

from ...attempts import attempts
from ...tools.fork_server import DIRECTLY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
TRL = ROOT / "build" / "rl" / "bin"
PROGRAM = Path(__file__).parent / "programs" / "grpo.py"
LIMIT_S = 240

if not (TRL / "torchrun").exists():
    pytest.skip("TRL is not installed: make rl", allow_module_level=True)


def run(folder: Path, planted: str, record: Path | None) -> dict[str, str]:
    """Run the program, recorded or not, and give what it writes in the end: its weights, and how long it slept."""
    scalana = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(record), "--"]
    command = [str(TRL / "python"), str(DIRECTLY), "2", str(PROGRAM), str(folder), planted]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*(scalana if record else []), *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return {name: (folder / name).read_text() for name in ("weights", "slept") if (folder / name).exists()}


def recorded(folder: Path, planted: str) -> tuple[api.Report, RLAccount, dict[str, str]]:
    told = run(folder / "output", planted, folder / "run")
    report = api.analyze(folder / "run")
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert account.framework == "trl" and len(account.step_s) == 4 and account.roles == {"trainer": [0, 1]}
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=0.01)
    assert not [note for note in report.ppg.run.notes if "reinforcement" in note or "TRL" in note]
    return report, account, told


def test_a_slow_verifier(tmp_path: Path) -> None:
    finding = None
    for attempt in attempts(2):
        report, account, told = recorded(tmp_path / str(attempt), "verifier")
        finding, slept_s = report.findings[0], float(told["slept"])
        # Of two processes, one of which waits meanwhile.
        charged_s = account.shares["verifier"] * account.step_s.sum()
        if max(abs(finding.lost_s - slept_s), abs(charged_s - slept_s)) <= 0.1 * slept_s:
            break
    assert finding is not None and (finding.kind, finding.ranks) == ("rl-verifier", [1])
    assert finding.lost_s == pytest.approx(slept_s, rel=0.1)
    assert finding.where.phase == "verifier"
    # The user's function, which the trainer calls, and not the call of the trainer; and no module that is busy as well.
    assert (Path(finding.file).name, finding.function) == ("grpo.py", "main.<locals>.short_is_good")
    assert finding.where.module is None
    assert charged_s == pytest.approx(slept_s, rel=0.1)
    # The same weights without being recorded.
    assert run(tmp_path / "plain", "verifier", None)["weights"] == told["weights"]


@pytest.mark.long
def test_long_answers(tmp_path: Path) -> None:
    told: list[object] = []
    for attempt in attempts(2):
        report, _, _ = recorded(tmp_path / str(attempt), "tail")
        spans = report.ppg.spans
        made = spans.rows("trajectory")
        ranks, tokens = spans.rank[made], spans.integers("tokens")[made]
        assert len(made) == 2 * 4 * 4 and tokens[ranks == 1].min() >= 95 and tokens[ranks == 0].max() <= 12
        told = [(each.kind, each.ranks, each.where.phase) for each in report.findings]
        if told and told[0] == ("rl-long-tail", [1], "generation"):
            longest = report.findings[0].evidence.as_dict()["trajectories"]
            assert isinstance(longest, list) and all(str(name).split(".")[1] == "1" for name in longest)
            return
    raise AssertionError(told)
