"""When kinds of work were seen in long gaps."""

from __future__ import annotations

import numpy as np

from tests.graphs.runs import Rank, build


def test_long_gaps_tell_when_each_kind_of_work_was_seen(tmp_path):
    rank = Rank(tmp_path, 0, 1)
    rank.work("load", 400)
    rank.work("mask", 200)
    rank.work("step", 30)
    rank.end()
    timeline = build(tmp_path).timeline
    own = timeline.own
    assert len(own.seen_row) == len(own) == 3
    begin = timeline.locations.start_s[0]
    lines = timeline.activities.line[own.activity[own.seen_row]]
    order = np.argsort(own.seen_s[:, 0])
    assert lines[order].tolist() == [12, 11, 13]  # load, mask, step
    edges = (own.seen_s[order] - begin) * 1e3
    assert np.abs(edges - [[0, 400], [400, 600], [600, 630]]).max() <= 5.0


def test_short_gaps_tell_nothing(tmp_path):
    rank = Rank(tmp_path, 0, 1)
    rank.work("load", 60)
    rank.end()
    assert not len(build(tmp_path).timeline.own.seen_row)
