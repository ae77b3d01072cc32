"""Marks of devices around the collectives of torch, with tensors of the host for an emulated device."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

import scalana
from scalana.runtime.record.format import SPAN_TYPE
from tests.needs import torch_or_skip
from tests.runtime.jobs import PROGRAMS, ROOT, run

torch_or_skip()
pytestmark = pytest.mark.slow


def spans_of(folder, program, *arguments, **variables):
    """All spans of one recorded rank, and the rows of those on streams."""
    extra = {"RANK": "0", "WORLD_SIZE": "1", "PYTHONPATH": str(ROOT), **variables}
    done = run([sys.executable, PROGRAMS / program, *arguments], folder / "run", extra)
    assert done.returncode == 0, done.stderr
    ppg = scalana.analyze(folder / "run").ppg
    assert not [note for note in ppg.run.warnings if "device" in note or "torch:" in note]
    spans = ppg.spans
    return ppg, [row for row, on in enumerate(spans.device_lanes()[spans.table.lane].tolist()) if on]


def test_collectives_of_torch_are_marked_on_sampled_steps(tmp_path):
    ppg, rows = spans_of(tmp_path, "device_torch.py", tmp_path / "board", SCALANA_OPERATORS="0")
    spans, calls = ppg.spans, ppg.timeline.calls
    modules = [row for row in rows if spans.attributes(row).get("kind") == "module"]
    rows = [row for row in rows if row not in modules]
    names = Counter((int(spans.table.step[row]), spans.names[spans.table.name[row]]) for row in rows)
    # DDP has its buckets anew in step 1, which takes two broadcasts. That of step 3 is launched while a graph is
    # captured. The last step's may not have come when the record ends.
    assert {key: count for key, count in names.items() if key[0] < 4} == {
        (1, "allreduce on the device"): 3, (1, "broadcast on the device"): 3, (2, "allreduce on the device"): 3,
        (2, "broadcast on the device"): 1, (3, "allreduce on the device"): 3,
    }  # fmt: skip
    for row in rows:
        assert spans.table.type[row] == SPAN_TYPE["kernel"]
        call = int(spans.call[row])
        assert call >= 0 and calls.enter_s[call] <= spans.start_s(row) <= calls.exit_s[call] + 0.1
    told = Counter(
        (int(spans.table.step[row]), spans.attributes(row)["class"], spans.attributes(row)["direction"])
        for row in modules
    )
    assert told[1, "Linear", "forward"] == told[3, "Linear", "forward"] == told[1, "Linear", "backward"] == 1
    lengths = sorted(float(spans.end_s(row) - spans.start_s(row)) for row in rows if spans.table.step[row] == 3)
    # Of the bucket of DDP, which C++ waits for, only the beginning is known; the second goes over 3 ms of work.
    assert lengths[0] == 0.0 and lengths[-1] > 0.0029


def test_actions_of_a_pipeline_are_marked(tmp_path):
    ppg, rows = spans_of(tmp_path, "device_pipeline.py", tmp_path / "board")
    spans = ppg.spans
    told = {row: spans.attributes(row) for row in rows if spans.table.step[row] == 2}
    actions = {row: attributes for row, attributes in told.items() if attributes.get("kind") == "action"}
    kinds = {row: spans.names[spans.table.name[row]] for row in actions}
    names = Counter((kinds[row], one["stage"], one["microbatch"]) for row, one in actions.items())
    assert names == {(kind, 0, microbatch): 1 for kind in "FB" for microbatch in range(2)}
    forward = [row for row, kind in kinds.items() if kind == "F"]
    assert min(float(spans.end_s(row) - spans.start_s(row)) for row in forward) == pytest.approx(0.002, abs=2e-4)
