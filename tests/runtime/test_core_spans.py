"""Spans and steps as the compiled recorder writes them, and which of them are kept."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from scalana.runtime.record.writer import step_key

from .recording import recorded


def test_spans_of_recorders(tmp_path: Path) -> None:
    record = recorded(
        """
        _core.start(RECORD, 0, 1 << 20)
        name, key, value = map(_core.intern, ("augment ü", "k", "v"))
        stage = _core.lane(3, "stage 1")
        assert name == _core.intern("augment ü") and stage == _core.lane(3, "stage 1") != _core.lane(2, "stage 1")
        def region():
            _core.span(1, 0, name, start, start + 500, 400)
            _core.span(10, stage, name, start, start + 7, -1, 12, (key, -5, value, 0.25, key, "text", 3))
        start = _core.now()
        region()
        _core.stop()
        """,
        tmp_path,
    )
    spans, attributes = record.spans, record.attributes
    assert record.names[spans.name[0]] == "augment ü"
    assert spans.type.tolist() == [1, 10] and spans.duration_ns.tolist() == [500, 7]
    assert spans.cpu_ns.tolist() == [400, -1] and spans.event.tolist() == [0, 12] and spans.step.tolist() == [-1, -1]
    assert record.frames(spans.path[0])[-1].code.name == "region"
    assert spans.start_ns[0] >= int(record.meta["start_ns"])
    assert [record.lanes[lane] for lane in spans.lane] == [(0, 0, ""), (3, -1, "stage 1")]
    assert spans.last.tolist() == [0, 3] and attributes.tag.tolist() == [0, 1, 2]
    assert attributes.value[0] == -5 and record.names[attributes.value[2]] == "text"
    assert struct.unpack("d", struct.pack("q", attributes.value[1])) == (0.25,)


# Times as of real spans: how many bytes one takes depends on how far it is from the first time that is written, which
# may be that of a sample.
STEPS = """
_core.start(RECORD, 0, {budget}, flush_s=100)
name = _core.intern("piece")
_core.begin_steps()
for step in range(200):
    start = _core.now()
    for piece in range({pieces}):
        _core.span(3, 0, name, start, start + 2, 1)
    _core.mark_step(2)
_core.stop()
"""


@pytest.mark.slow
def test_ranks_keep_the_spans_of_the_same_steps(tmp_path: Path) -> None:
    # Steps of at most one hundredth of the budget: there is room for all spans of each that is kept.
    whole: list[set[int]] = []
    for budget, pieces in ((1 << 18, 80), (1 << 18, 130), (1 << 17, 90)):
        folder = tmp_path / f"{budget}-{pieces}"
        folder.mkdir()
        record = recorded(STEPS.format(budget=budget, pieces=pieces), folder)
        assert (folder / "program.rec").stat().st_size < budget * 1.01  # the end of the record comes on top
        spans, names = record.spans, record.names
        steps = [row for row in range(len(spans)) if spans.type[row] == 2]
        assert [spans.step[row] for row in steps] == list(range(200)), "the steps themselves are all there"
        told = [
            {names[record.attributes.key[at]] for at in range(spans.last[row - 1], spans.last[row])} for row in steps
        ]
        assert all(keys <= {"source", "thinned"} and "source" in keys for keys in told)
        held = [sum(s == step and t == 3 for s, t in zip(spans.step, spans.type, strict=True)) for step in range(200)]
        assert [count == pieces for count in held] == ["thinned" not in keys for keys in told]
        assert set(held) == {0, pieces}, "all spans of a step, or none"
        totals = record.span_totals
        assert sum(n for n, t in zip(totals.spans, totals.type, strict=True) if t == 3) == 200 * pieces
        assert sum(w for w, t in zip(totals.wall_ns, totals.type, strict=True) if t == 3) == 400 * pieces
        assert sum("spans" in note for note in record.notes) == 1
        kept = {step for step in range(200) if held[step]}
        assert all(step_key(step) % 2 == 0 for step in kept if step > 150)
        whole.append(kept)
    assert whole[0] > whole[1] > whole[2] != set()


def test_a_step_of_very_many_spans_is_cut_off(tmp_path: Path) -> None:
    record = recorded(STEPS.format(budget=1 << 16, pieces=9000).replace("range(200)", "range(3)"), tmp_path)
    assert (tmp_path / "program.rec").stat().st_size < 1 << 16
    spans = record.spans
    assert 0 < sum(step == 0 and kind == 3 for step, kind in zip(spans.step, spans.type, strict=True)) < 9000
    first = next(row for row in range(len(spans)) if spans.type[row] == 2)
    keys = record.attributes.key[spans.last[first - 1] : spans.last[first]]
    assert [record.names[key] for key in keys] == ["source", "thinned"]
    assert sum(n for n, t in zip(record.span_totals.spans, record.span_totals.type, strict=True) if t == 3) == 27_000


def test_steps_have_the_same_numbers_whoever_marked_before(tmp_path: Path) -> None:
    def steps(code: str) -> list[tuple[int, str]]:
        record = recorded(f"_core.start(RECORD, 0, 1 << 20)\n{code}\n_core.stop()", tmp_path / str(len(found)))
        spans, attributes = record.spans, record.attributes
        return [
            (spans.step[row], record.names[attributes.value[spans.last[row] - 1]])
            for row in range(len(spans))
            if spans.type[row] == 2
        ]

    found: list[list[tuple[int, str]]] = []
    for number, code in enumerate(
        (
            "for _ in range(3): _core.mark_step(1)",
            "_core.mark_step(4); _core.mark_step(2)\nfor _ in range(3): _core.mark_step(1); _core.mark_step(2)",
            "_core.begin_steps()\nfor _ in range(3): _core.mark_step(1)",
        )
    ):
        (tmp_path / str(number)).mkdir()
        found.append(steps(code))
    # The first mark ends step 0, which is recorded if it is known when it began.
    assert found[0] == found[1] == [(1, "user"), (2, "user")]
    assert found[2] == [(0, "user"), *found[0]]
