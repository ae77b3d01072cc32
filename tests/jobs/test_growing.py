"""A job in which one rank writes a growing history in every step: the finding says that it grows, and how fast."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import scalana
from scalana.detectors.annotate.advice import GROWS
from scalana.detectors.when.cost_trend import line
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()

PROGRAM = Path(__file__).resolve().parent / "programs" / "growing_history.py"
WITHIN = 0.15
"""How far seconds may be off."""


@pytest.mark.slow
@pytest.mark.measured
def test_a_history_that_grows_is_told(tmp_path: Path) -> None:
    done = jobs.forked(2, str(PROGRAM), record=tmp_path / "run")
    assert done.returncode == 0, done.stderr
    took_s = np.array(json.loads(done.stdout.splitlines()[-1]))
    report = scalana.analyze(tmp_path / "run")
    first = report.findings[0]
    marked = 1 + next(at for at, text in enumerate(PROGRAM.read_text().splitlines()) if text.endswith("# written"))
    told = first.evidence.as_dict()["over_steps"]
    assert (first.line, first.ranks, told["shape"], told["cost"]) == (marked, [1], "line", "work")
    assert told["of"] == told["steps"] == told["last_step"] - told["first_step"] + 1 >= len(took_s) - 5
    took_s = took_s[-told["of"] :]
    slope, begin = line(np.arange(len(took_s)), took_s)
    assert told["per_step_s"] == pytest.approx(slope, rel=WITHIN)
    assert told["after_s"] == pytest.approx(begin + slope * (len(took_s) - 1), rel=WITHIN)
    assert told["so_far_s"] == pytest.approx(took_s.sum(), rel=WITHIN)
    again_s = begin + slope * np.arange(len(took_s), 2 * len(took_s))
    assert told["next_s"] == pytest.approx(again_s.sum(), rel=WITHIN)
    text = " ".join(report.to_text().split())
    assert "Its cost grows with the steps, from " in text and first.advice.endswith(GROWS)
    assert "Its cost grows with the steps, from " in report.to_html()
    assert json.loads(report.to_json())["findings"][0]["evidence"]["over_steps"]["shape"] == "line"
