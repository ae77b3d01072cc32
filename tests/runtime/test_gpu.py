"""Marks on streams of GPUs, and how long NCCL takes. ``pytest -m gpu`` runs this, and all else that needs a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import scalana
from scalana.runtime.record.format import SPAN_TYPE
from tests.needs import Later, torch_or_skip
from tests.runtime.jobs import torchrun
from tests.runtime.test_torch_device import spans_of

torch_or_skip()
torch = Later("torch")
pytestmark = [pytest.mark.slow, pytest.mark.gpu]


@pytest.fixture(autouse=True)
def gpu():
    """Skips where there is none."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


def test_marks_on_a_gpu(tmp_path):
    ppg, rows = spans_of(tmp_path, "device_gpu.py")
    spans = ppg.spans
    steps = spans.rows("step")
    begin = dict(zip(spans.table.step[steps].tolist(), spans.start_s(steps).tolist(), strict=True))
    end = dict(zip(spans.table.step[steps].tolist(), spans.end_s(steps).tolist(), strict=True))
    assert {int(spans.table.step[row]) for row in rows} >= {1, 2}
    for row in rows:  # every step ends when the device is done
        step = int(spans.table.step[row])
        assert begin[step] - 1e-4 <= spans.start_s(row) <= spans.end_s(row) <= end[step] + 1e-4
    modules = [row for row in rows if spans.names[spans.table.name[row]] == "product"]
    assert len(modules) >= 2
    assert min(float(spans.end_s(row) - spans.start_s(row)) for row in modules) > 1e-4
    assert sum(spans.table.type[row] == SPAN_TYPE["kernel"] for row in rows) == len(modules)


def test_nccl_says_how_long_collectives_took(tmp_path):
    ppg, rows = spans_of(tmp_path, "device_gpu.py", TORCH_NCCL_ENABLE_TIMING="1")
    spans = ppg.spans
    kernels = [row for row in rows if spans.table.type[row] == SPAN_TYPE["kernel"]]
    assert len(kernels) >= 2
    took_s = spans.integers("kernel_ns")[kernels] * 1e-9
    assert (took_s >= 0).all()
    assert (took_s <= spans.end_s(np.array(kernels)) - spans.start_s(np.array(kernels)) + 1e-4).all()


def test_who_waits_in_nccl(tmp_path):
    """Rank 1 multiplies ten times as much as rank 0 before each collective; they may share a GPU."""
    done = torchrun(2, "device_two_ranks.py", record=tmp_path / "run", extra={"TORCH_NCCL_ENABLE_TIMING": "1"})
    assert done.returncode == 0, done.stderr
    report = scalana.analyze(tmp_path / "run")
    spans = report.ppg.spans
    took_s = spans.integers("kernel_ns") * 1e-9
    mine = [took_s[(spans.rank == rank) & (spans.texts("collective") >= 0)] for rank in range(2)]
    assert len(mine[0]) == len(mine[1]) >= 2 and min(mine[0].min(), mine[1].min()) >= 0
    assert np.median(mine[0]) > 2 * np.median(mine[1])
    finding = next(one for one in report.findings if one.kind == "device-late")
    assert finding.ranks == [1]
    scale = finding.evidence.as_dict()["steps"] / finding.evidence.as_dict()["marked_steps"]
    assert finding.lost_s == pytest.approx((mine[0] - mine[1]).sum() * scale, rel=0.1)


@pytest.mark.parametrize(
    ("planted", "kind", "function"), [("host", "launch-gap", "tokenize"), ("kernels", "device-late", "Block.forward")]
)
def test_who_is_late_where_hosts_launch_ahead(planted, kind, function, tmp_path):
    extra = {"TORCH_NCCL_ENABLE_TIMING": "1"}
    done = torchrun(2, "gpu_ddp.py", planted, record=tmp_path / "run", extra=extra)
    assert done.returncode == 0, done.stderr
    report = scalana.analyze(tmp_path / "run")
    finding = next(one for one in report.findings if one.kind in ("launch-gap", "device-late"))
    assert (finding.kind, finding.ranks, finding.function) == (kind, [1], function), report.to_text()
    assert finding.saving_s > 1.0
    account = report.analysis.sections["device"]
    parts = account.busy_s + account.waiting_s + account.transfer_s + account.gap_s
    assert parts == pytest.approx(account.total_s, rel=1e-6)
