"""What a machine can do: measured by processes at the same time, and kept for runs on such a machine alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.calibration import job
from scalana.calibration.ceilings import Setting, keep, kept
from scalana.calibration.job import Timer, product
from scalana.calibration.measure import measure, sizes
from scalana.detectors.when.roofline import Ceilings

SETTING = Setting("A CPU", 8, "2.13.0", 4, 2)


def test_what_is_measured_is_kept_for_such_a_machine_alone(tmp_path: Path) -> None:
    environ = {"SCALANA_CACHE": str(tmp_path)}
    assert kept(SETTING, environ) is None
    measured = Ceilings({"float32": 1e11}, ((65536, 5e10), (1 << 26, 1e10)))
    file = keep(SETTING, measured, environ)
    assert kept(SETTING, environ) == measured
    for other in ({"threads": 1}, {"processes": 8}, {"cores": 4}, {"torch": "2.14.0"}, {"device": "A GPU"}):
        assert kept(replace(SETTING, **other), environ) is None  # type: ignore[arg-type]
    keep(SETTING, Ceilings({"float64": 5e10}, measured.bandwidth), environ)
    assert kept(SETTING, environ) == Ceilings({"float32": 1e11, "float64": 5e10}, measured.bandwidth)
    Path(file).write_text("[]")
    assert kept(SETTING, environ) is None
    assert keep(SETTING, measured, {"SCALANA_CACHE": "/dev/null"}) == ""


@pytest.mark.parametrize("name", ["foo", "version"])
def test_an_element_type_that_torch_does_not_have_is_named(name: str) -> None:
    torch = SimpleNamespace(dtype=type, version="2")
    with pytest.raises(SystemExit, match=f"no element type '{name}': use names such as float32"):
        product(torch, "cpu", name, Timer(1, "cpu", int))


def test_a_clock_that_stands_still_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SECONDS", 0.0)
    timer, times = Timer(1, "cpu", int), iter([1.0, 1.0, 1.0, 1.5])
    timer.clock = lambda: next(times)
    assert timer.best_s(int) == 0.5


@pytest.mark.slow
def test_two_processes_measure_what_each_of_them_can_do() -> None:
    pytest.importorskip("torch")
    measured = measure(2, 1, ["float32"])
    assert (measured.setting.processes, measured.setting.threads) == (2, 1) and measured.setting.torch
    assert measured.ceilings.flops["float32"] > 1e8
    assert [size for size, _ in measured.ceilings.bandwidth] == sorted(sizes("cpu"))
    assert min(speed for _, speed in measured.ceilings.bandwidth) > 1e7
