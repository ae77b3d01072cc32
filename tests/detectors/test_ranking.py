"""Which findings come first."""

from __future__ import annotations

from scalana.detectors.evidence import Evidence
from scalana.detectors.finding import Finding
from scalana.detectors.ranking import ranked


def finding(kind: str, lost_s: float, saving_s: float) -> Finding:
    return Finding(kind, 1, "train.py", 1, 1, "main", "loop", [0], lost_s, 0.0, saving_s, evidence=Evidence())


def test_shared_causes_stand_before_faults_that_save_less_and_loops_of_the_program_behind_all() -> None:
    late, later = finding("late-ranks", 9.0, 3.0), finding("late-ranks", 2.0, 1.0)
    writing, loops = finding("write-bound", 1.0, 2.0), finding("python-bound", 50.0, 40.0)
    device = finding("device-bound", 80.0, 60.0)
    assert ranked([device, loops, later, writing, late]) == [late, writing, later, loops, device]
