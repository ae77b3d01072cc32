"""A job whose model inductor compiles, with one rank that does more in one line of it: the line, its module and its
operators are told, be the code written anew or taken from torch's cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scalana
from scalana.detectors.when.compiled_lines import COMPILED
from scalana.runtime.record.layout import models_file
from tests.attempts import attempts
from tests.needs import torch_or_skip
from tests.runtime import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parent / "programs" / "compiled_code.py"
STEPS = 25
WITHIN = 0.2
"""How far seconds may be off here, where ranks may have to share their cores with other programs."""


def line_of(mark: str) -> int:
    return 1 + next(at for at, text in enumerate(PROGRAM.read_text().splitlines()) if text.endswith(f"# {mark}"))


def record(folder: Path, cache: Path, steps: int = STEPS, **more: str) -> float:
    """Record the job, with torch's cache in a folder; returns what rank 1 takes longer."""
    extra = {"TORCHINDUCTOR_CACHE_DIR": str(cache), **more}
    done = jobs.forked(2, str(PROGRAM), str(steps), record=folder, extra=extra, timeout_s=900)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[1])


def known_by(folder: Path) -> set[str]:
    """How it was known what kernels are made of."""
    ways = set()
    for one in jobs.ranks(folder):
        told = json.loads(Path(models_file(one.file)).read_text())
        assert {wrapper["phase"] for wrapper in told["wrappers"]} == {"forward", "backward"}
        ways |= {wrapper["by"] for wrapper in told["wrappers"]}
    return ways


def lines(folder: Path) -> dict[int, set[str]]:
    """Kernels by the line that most of them came from."""
    found: dict[int, set[str]] = {}
    for line in scalana.analyze(folder).analysis.section(COMPILED) or []:
        assert line.frame[0] in (str(PROGRAM), "")
        found.setdefault(line.frame[1], set()).update(kernel.name for kernel in line.kernels)
    return found


def wrong(folder: Path, longer_s: float) -> list[str]:
    """What the report of one recording has wrong."""
    report = scalana.analyze(folder)
    told = [(one.line, one.ranks, one.lost_s, one.evidence.as_dict().get("compiled")) for one in report.findings]
    if not report.findings:
        return ["nothing found"]
    first = report.findings[0]
    compiled = first.evidence.as_dict().get("compiled")
    if (first.line, first.ranks) != (line_of("smoothed"), [1]) or not isinstance(compiled, dict):
        return [f"{told}"]
    found = []
    if (compiled["module"], compiled["module_class"]) != ("smooth", "Smooth"):
        found.append(f"module: {compiled}")
    if not {"tanh", "sin", "mul"} & set(compiled["operators"]) or "compiling" in first.evidence.as_dict():
        found.append(f"operators: {compiled}")
    if first.lost_s != pytest.approx(longer_s, rel=WITHIN):
        found.append(f"{first.lost_s:.3f} s, measured {longer_s:.3f} s")
    text = report.to_text()
    if "This code is compiled" not in text or "Compiled code" not in text or "torchinductor" in text:
        found.append(text)
    return found


@pytest.mark.long
def test_the_line_that_a_kernel_came_from_is_told(tmp_path: Path) -> None:
    cache = tmp_path / "inductor"
    for attempt in attempts(3):
        folder = tmp_path / str(attempt)
        told = wrong(folder, record(folder, cache))
        assert known_by(folder) == {"kept" if attempt else "writing"}
        if not told:
            break
    else:
        pytest.fail("\n".join(told), pytrace=False)
    written = lines(folder)
    record(tmp_path / "kept", cache, 3)
    assert known_by(tmp_path / "kept") == {"kept"}
    record(tmp_path / "text", cache, 3, SCALANA_CACHE=str(tmp_path / "empty"), SCALANA_TORCH_KERNELS="0")
    assert known_by(tmp_path / "text") == {"text"}
    for again in ("kept", "text"):
        assert lines(tmp_path / again).keys() == written.keys()
    assert lines(tmp_path / "kept")[line_of("smoothed")] == written[line_of("smoothed")]
