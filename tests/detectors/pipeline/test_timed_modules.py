"""Layers of a pipeline that nobody told of, from modules that were timed in its actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest

from scalana.detectors.pipeline.measured.replayable import ActionRows
from scalana.detectors.pipeline.measured.timed_modules import find_layers
from scalana.detectors.pipeline.model.actions import Kind
from scalana.graphs.spans.span_columns import Spans
from tests.detectors.spans import Span, as_columns

Call = tuple[int, str, str, str, float, float]
"""Rank, name, class, direction, begin, end."""


def spans_of(calls: list[Call], ranks: int, roots: Iterable[str] = repeat("Model")) -> Spans:
    """Calls of modules as the recorder writes them; ``roots`` are the classes of the models that they belong to."""
    spans = [
        Span(rank, "module", name, begin_s, end_s, {"direction": way, "class": kind, "root": root, "elements": 1}, 0)
        for (rank, name, kind, way, begin_s, end_s), root in zip(calls, roots)
    ]
    return as_columns(spans, range(ranks))


F_S, B_S = {"blocks.0": 1.0, "blocks.1": 1.0, "blocks.2": 1.0, "head": 3.0}, 2.0
STAGES = (("blocks.0", "blocks.1"), ("blocks.2", "head"))


def recorded(divided: float) -> tuple[Spans, ActionRows]:
    """Two stages, two microbatches; the forward of the last one is taken to end after a part of what it takes with its
    backward."""
    calls: list[Call] = []
    rows: list[tuple[int, int, int, float, float, float, float]] = []  # kind, stage, microbatch, begin, end, came, sent

    def run(stage: int, kind: Kind, at: float) -> float:
        names = STAGES[stage] if kind == Kind.F else STAGES[stage][::-1]
        since = at
        for name in names:
            took = F_S[name] * (1 if kind == Kind.F else B_S)
            way = "forward" if kind == Kind.F else "backward"
            calls.append((stage, name, "Block", way, at, at + took))
            if kind == Kind.F:
                calls.append((stage, f"{name}.linear", "Linear", way, at, at + took / 2))
            at += took
        calls.append((stage, "", "Model", "forward" if kind == Kind.F else "backward", since, at))
        return at

    free = [0.0, 0.0]
    for m in range(2):
        sent = run(0, Kind.F, free[0])
        rows.append((Kind.F, 0, m, free[0], sent, np.nan, sent))
        came = max(sent, free[1])
        turned = run(1, Kind.F, came)
        back = run(1, Kind.B, turned)
        guess = came + (back - came) * divided
        rows += [(Kind.F, 1, m, came, guess, came, np.nan), (Kind.B, 1, m, guess, back, np.nan, back)]
        end = run(0, Kind.B, back)
        rows.append((Kind.B, 0, m, back, end, back, np.nan))
        free = [end, back]
    calls.sort(key=lambda call: (call[4], len(call[1])))
    kind, stage, number, begin, end, came, sent = (np.array(column) for column in zip(*rows))
    told = ActionRows(np.zeros(len(rows), np.int64), stage, kind, stage, number, begin, end)
    return spans_of(calls, 2), replace(told, wait_end_s=came, sent_s=sent)


@pytest.mark.parametrize("divided", [1 / 3, 0.25, 0.45])
def test_modules_of_stages_are_their_layers(divided: float) -> None:
    spans, rows = recorded(divided)
    found = find_layers(spans, rows, (0, 1))
    assert found is not None
    assert found.names == ("blocks.0", "blocks.1", "blocks.2", "head")
    assert found.cut.tolist() == [0, 2, 4]
    assert found.cost_s[Kind.F].tolist() == pytest.approx([1, 1, 1, 3])
    assert found.cost_s[Kind.B].tolist() == pytest.approx([2, 2, 2, 6])


def test_blocks_that_the_program_goes_through_itself_are_layers() -> None:
    """No module is called for the stage: its blocks and its head are, each by itself, and what stands for an embedding
    that another stage has."""
    calls: list[Call] = []
    roots: list[str] = []
    rows: list[tuple[int, int, int, float, float, float, float]] = []
    at = 0.0
    for kind, way, factor in ((Kind.F, "forward", 1.0), (Kind.B, "backward", 2.0)):
        begun = at
        parts = [("Identity", 0.0), ("Block", 1.0), ("Block", 4.0), ("Head", 3.0)]
        for name, length in parts if kind == Kind.F else parts[::-1]:
            calls.append((0, "", name, way, at, at + factor * length))
            roots.append(name)
            if name == "Block":
                calls.append((0, "linear", "Linear", way, at, at + factor * length / 2))
                roots.append(name)
            at += factor * length
        rows.append((kind, 0, 0, begun, at, begun, at))
    kind_, stage, number, begin, end, came, sent = (np.array(column) for column in zip(*rows))
    told = ActionRows(np.zeros(len(rows), np.int64), stage, kind_, stage, number, begin, end)
    found = find_layers(spans_of(calls, 1, roots), replace(told, wait_end_s=came, sent_s=sent), (0,))
    assert found is not None
    assert found.names == ("Block 0", "Block 1", "Head")
    assert found.cost_s[Kind.F].tolist() == pytest.approx([1, 4, 3])
    assert found.cost_s[Kind.B].tolist() == pytest.approx([2, 8, 6])


def test_what_follows_at_once_is_of_another_action() -> None:
    """Forwards of a first stage, then backwards, without a pause: nothing says when the former began, nor when the
    latter ended."""
    calls: list[Call] = []
    rows: list[tuple[int, int, int, float, float, float, float]] = []
    at = 0.0
    for kind, way, factor in ((Kind.F, "forward", 1.0), (Kind.B, "backward", 2.0)):
        for number in range(4):
            begun = at
            for name in ("first", "second") if kind == Kind.F else ("second", "first"):
                calls.append((0, name, "Block", way, at, at + factor))
                at += factor
            calls.append((0, "", "Model", way, begun, at))
            rows.append((kind, 0, number, begun, at, *((np.nan, at) if kind == Kind.F else (begun, np.nan))))
    calls.sort(key=lambda call: (call[4], len(call[1])))
    kind_, stage, number_, begin, end, came, sent = (np.array(column) for column in zip(*rows))
    told = ActionRows(np.zeros(len(rows), np.int64), stage, kind_, stage, number_, begin, end)
    found = find_layers(spans_of(calls, 1), replace(told, wait_end_s=came, sent_s=sent), (0,))
    assert found is not None
    assert found.names == ("first", "second")
    assert found.cost_s[Kind.F].tolist() == pytest.approx([1, 1])
    assert found.cost_s[Kind.B].tolist() == pytest.approx([2, 2])


def test_a_stage_without_timed_modules_has_no_layers() -> None:
    spans, rows = recorded(1 / 3)
    assert find_layers(spans, rows, (0, 5)) is None
