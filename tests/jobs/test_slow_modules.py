"""Four causes inside a model, each in a module of its own: module, line, operator, rank and seconds."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import scalana
from tests.attempts import attempts
from tests.runtime import jobs

PROGRAM = Path(__file__).resolve().parent / "programs" / "slow_modules.py"

WITHIN = 0.2
"""How far seconds may be off here, where ranks may have to share their cores with other programs."""


class Cause(NamedTuple):
    """One that is planted."""

    name: str
    """As the program marks its line, and calls its seconds."""
    rank: int
    module: str
    kind: str
    """Class of the module."""
    operators: tuple[str, ...]
    """Some that its line calls."""


CAUSES = (
    Cause("fallback", 0, "layers.0.inner", "Scan", ("cumsum",)),
    Cause("item", 1, "layers.1.inner", "Router", ("item",)),
    Cause("sequence", 0, "layers.2.inner", "Attention", ("softmax", "matmul")),
    Cause("expert", 1, "layers.3.inner.experts.1", "Expert", ()),
)


def wrong(folder: Path) -> list[str]:
    """What the report of one recording has wrong."""
    done = jobs.forked(2, str(PROGRAM), record=folder)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    planted = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    findings = scalana.analyze(folder).findings
    source = PROGRAM.read_text(encoding="utf-8").splitlines()
    found = []
    for cause in CAUSES:
        here = [one for one in findings if one.where.module == cause.module and one.ranks == [cause.rank]]
        lost_s = sum(one.lost_s for one in here)
        if not here:
            found.append(f"{cause.name}: {[(one.line, one.ranks, one.where) for one in findings]}")
            continue
        where, line = here[0].where, here[0].line
        if (where.module_class, where.direction) != (cause.kind, "forward"):
            found.append(f"{cause.name}: {where}")
        if cause.operators and f"# {cause.name}" not in source[line - 1]:
            found.append(f"{cause.name}: line {line}")
        if any(name not in str(where.operator) for name in cause.operators):
            found.append(f"{cause.name}: operator {where.operator}")
        if lost_s != pytest.approx(planted[cause.name], rel=WITHIN):
            found.append(f"{cause.name}: {lost_s:.3f} s, planted {planted[cause.name]:.3f} s")
    return found


@pytest.mark.slow
def test_causes_inside_a_model(tmp_path: Path) -> None:
    for attempt in attempts(3):
        told = wrong(tmp_path / str(attempt))
        if not told:
            return
    pytest.fail("\n".join(told), pytrace=False)
