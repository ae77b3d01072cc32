"""What stands before the findings: a change that an account knows, where it saves more than they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from scalana.report import headline
from scalana.report.document.changes import KnownChange


@dataclass
class Fault:
    """What a headline looks at of a finding."""

    saving_s: float = 0.0


@dataclass
class Said:
    """Changes that accounts know."""

    changes: list[KnownChange] = field(default_factory=list)


LENGTHS = KnownChange("all microbatches have the usual length", 0.2, 0.1, 50, "Pipeline")
ROLLOUTS = KnownChange("twice as many rollouts", 0.2, 0.05, 50, "Loop", enlarges_job=True)
SLIGHT = KnownChange("another schedule", 0.2, 0.195, 50, "Pipeline")


@pytest.mark.parametrize(
    ("changes", "faults", "said"),
    [
        ([], [], ""),
        ([SLIGHT], [], ""),
        ([SLIGHT, LENGTHS], [], LENGTHS.text),
        ([LENGTHS, ROLLOUTS], [], ROLLOUTS.text),
        ([LENGTHS, ROLLOUTS], [Fault(1.0)], LENGTHS.text),
        ([LENGTHS], [Fault(1.0), Fault(6.0)], ""),
        ([ROLLOUTS], [Fault(0.4)], ROLLOUTS.text),
    ],
)
def test_the_change_that_saves_most_is_named(
    monkeypatch: pytest.MonkeyPatch, changes: list[KnownChange], faults: list[Any], said: str
) -> None:
    monkeypatch.setattr(headline, "changes_of", lambda analysis: analysis.changes)
    analysis: Any = Said(changes)
    first, text = headline.headline(analysis, faults)
    assert bool(first) is bool(said) and said in text
    if said:
        assert "a step takes 200 ms" in text
