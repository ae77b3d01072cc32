"""Helpers that take the core of their own rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.finding import Finding, Hop
from scalana.detectors.late_ranks.interference import KIND, name_interference
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from tests.known import evidence as known_evidence


def structure():
    psg = PSG()
    helper = psg.add(VertexKind.FUNCTION, Place("/job/data.py", 7, 9, 0, "decode"), 0)
    return psg, psg.add(VertexKind.LOOP, Place("/job/data.py", 8, 9, 4, "for pixel in image"), helper)


def finding(line, lost_s, **evidence):
    known = {"seconds_here": 6.0, "seconds_others": 2.0, "cpu_share": 0.1, "core_wait_share": 0.5, "helper_share": 0.0}
    return Finding(
        "late-ranks", 5, "/job/train.py", line, line, "main", "comp", [1], lost_s, lost_s / 10.0, lost_s / 3.0,
        [
            Hop(0, "/job/train.py", 99, "main", "comm", "allreduce", lost_s),
            Hop(1, "/job/train.py", line, "main", "comp", "", 0.0),
        ],
        known_evidence(**{**known, **evidence}),
    )  # fmt: skip


def helper_seconds(psg, vertex, *seconds):
    return np.array([seconds if index == vertex else (0.0,) * len(seconds) for index in range(len(psg))])


def test_lines_that_starve_are_told_together_where_the_helper_computes():
    psg, loop = structure()
    (found,) = name_interference([finding(20, 6.0), finding(30, 3.0)], helper_seconds(psg, loop, 0, 5, 0, 0), psg)
    assert (found.kind, found.file, found.line, found.function, found.ranks) == (KIND, "/job/data.py", 8, "decode", [1])
    assert (found.lost_s, found.saving_s) == (9.0, 3.0)
    assert found.path[-1].line == 8
    assert [place["line"] for place in found.evidence.as_dict()["slowed"]] == [20, 30]


def test_they_join_the_finding_of_that_helper():
    psg, loop = structure()
    waited_for = replace(finding(9, 2.0, helper_share=1.0), file="/job/data.py", function="decode")
    (found,) = name_interference([finding(20, 6.0), waited_for], helper_seconds(psg, loop, 0, 5, 0, 0), psg)
    assert (found.kind, found.line, found.lost_s) == (KIND, 9, 8.0)


def test_who_computes_more_itself_or_has_no_such_helper_stays_the_cause():
    psg, loop = structure()
    for evidence, seconds in (({"cpu_share": 0.6}, (0, 5)), ({"core_wait_share": 0.1}, (0, 5)), ({}, (4.5, 5))):
        (found,) = name_interference([finding(20, 6.0, **evidence)], helper_seconds(psg, loop, *seconds), psg)
        assert found.line == 20
