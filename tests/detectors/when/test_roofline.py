"""Slow modules and big ones, told apart by made counts of operators and made ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from scalana.detectors.annotate.modules import with_work
from scalana.detectors.evidence import Evidence, ModuleTime
from scalana.detectors.finding import Finding, Where
from scalana.detectors.when.module_work import ModuleWork, with_inside
from scalana.detectors.when.roofline import Ceilings, Roofline, roofline
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.readers.folder.operators import operator_kind
from scalana.graphs.spans.modules import Module
from scalana.report.findings.inside import in_work
from scalana.report.topics.roofline import gains, reached

CEILINGS = Ceilings({"float32": 100e9, "float64": 50e9, "bfloat16": 10e9}, ((1 << 20, 50e9), (1 << 26, 10e9)))
MM = "aten::mm", "Float[1000,1000,];Float[1000,1000,];>Float[1000,1000,];"  # 2 GFLOP: 20 ms
MM_64 = "aten::mm", "Double[1000,1000,];Double[1000,1000,];>Double[1000,1000,];"
COPY = "aten::clone", "Float[5000,1000,]~;>Float[5000,1000,];"  # 40 MB: 4 ms
TINY = "aten::mul", "Float[10,];Float[10,];>Float[10,];"
KINDS = [operator_kind(*kind) for kind in (MM, MM_64, COPY, TINY)]
MODULES = [Module("Net", "", "Net", -1), Module("Net", "big", "Big", 0), Module("Net", "slow", "Slow", 0)]


def work(
    rows: list[tuple[int, int, int, float, float]],
    taken_s: Mapping[int, float | FloatArray],
    ranks: int = 1,
    steps: int = 1,
) -> ModuleWork:
    """Of rows of module, rank, kind, calls and seconds; all forward. Seconds of modules are the same on all ranks, or
    by rank."""
    module, rank, kind, calls, call_s = (np.array(column) for column in zip(*rows, strict=True))
    shape = len(MODULES), 2, ranks
    own = np.zeros(shape)
    for number, value in taken_s.items():
        own[number, 0] = value
    way = np.zeros(len(rows), np.int64)
    numbers, on_host = np.full(ranks, float(steps)), np.zeros((len(MODULES), ranks), np.bool_)
    made = ModuleWork(
        MODULES, KINDS, numbers, on_host, with_inside(own, MODULES), own * 0, own, *(np.zeros(shape) for _ in range(4)),
        module, way, rank, kind, calls.astype(float), call_s.astype(float),
    )  # fmt: skip
    flops = np.array([2e9, 2e9, 0.0, 0.0])[kind] * calls
    tables = [made.with_inside(made.table(column)) for column in (flops, flops * 0 + calls * 12e6, calls, call_s)]
    return ModuleWork(
        MODULES,
        KINDS,
        numbers,
        on_host,
        made.seconds,
        own * 0,
        own,
        *tables,
        module,
        way,
        rank,
        kind,
        made.calls,
        made.call_s,
    )


def beside(made: ModuleWork, ceilings: Ceilings = CEILINGS) -> Roofline:
    found = roofline(made, {0: ceilings})
    assert found is not None
    return found


def test_a_slow_module_is_told_from_a_big_one() -> None:
    line = beside(work([(1, 0, 0, 5, 0.110), (2, 0, 2, 1, 0.050)], {1: 0.110, 2: 0.050}))
    assert line.least_s[:, 0, 0] == pytest.approx([0.104, 0.100, 0.004])
    assert line.own_gain_s[:, 0, 0] == pytest.approx([0.0, 0.010, 0.046])
    assert [line.bound(module, 0) for module in (1, 2)] == ["compute", "memory"]
    assert [one.name for one in gains(line)] == ["slow", "big"]
    assert reached(line, [1]) == pytest.approx(0.1 / 0.11) and reached(line, [0]) == pytest.approx(0.104 / 0.16)


def test_time_between_operators_and_in_tiny_ones_is_overhead() -> None:
    line = beside(work([(1, 0, 0, 1, 0.021), (2, 0, 3, 1000, 0.005)], {1: 0.080, 2: 0.006}))
    assert [line.bound(module, 0) for module in (1, 2)] == ["overhead", "overhead"]
    assert line.parts_s[:, 1, 0, 0] == pytest.approx([0.021, 0.0, 0.059])


def test_a_wide_type_is_a_choice_where_the_model_has_another_one() -> None:
    both = beside(work([(1, 0, 0, 1, 0.020), (2, 0, 1, 1, 0.040)], {1: 0.020, 2: 0.040}))
    assert both.own_gain_s[2, 0, 0] == pytest.approx(0.020)
    alone = CEILINGS.peak("float64"), CEILINGS.peak("bfloat16"), CEILINGS.peak("float16")
    assert alone == (50e9, 100e9, 100e9)  # what is emulated, or unknown, could be done in float32


def test_caches_lend_speed_to_what_fits_into_them() -> None:
    assert [CEILINGS.bytes_per_s(size) for size in (100, 1 << 20, 1 << 21, 1 << 30)] == [50e9, 50e9, 10e9, 10e9]


def finding() -> Finding:
    one = Finding("late-ranks", 0, "a.py", 1, 1, "f", "comp", [1], 1.0, 1.0, 0.0)
    one = replace(
        one,
        where=Where(module="slow", module_class="Slow", direction="forward"),
        evidence=Evidence(module_time=ModuleTime(seconds_here=0.2, seconds_others=0.1, steps=1)),
    )
    return one


@pytest.mark.parametrize(
    ("here", "taken_s", "different", "says"),
    [
        ([(0, 1, 0.025)], 0.025, "time", "the same as on other ranks (2 GFLOP a step), at 0.4"),
        ([(0, 3, 0.030)], 0.030, "number", "runs 3 operators a step, on other ranks 1; 6 GFLOP a step, 3 times"),
        ([(0, 1, 0.010)], 0.050, "between", "between operators: 40 ms a step, on other ranks 0.0 ms"),
        ([(0, 1, 0.010), (3, 1, 0.010)], 0.020, "number", "only here it runs mul (x 1)"),
    ],
)
def test_why_a_module_is_late_on_a_rank(
    here: list[tuple[int, int, float]], taken_s: float, different: str, says: str
) -> None:
    rows = [(2, 0, 0, 1, 0.010), *((2, 1, *row) for row in here)]
    (late,) = with_work([finding()], work(rows, {2: np.array([0.010, taken_s])}, ranks=2))
    told = late.evidence.module_work
    assert told is not None and told.different == different
    assert says in in_work(late)


def test_a_module_that_has_no_core_is_told_so() -> None:
    made = work([(2, 0, 0, 1, 0.010), (2, 1, 0, 1, 0.011)], {2: np.array([0.010, 0.011])}, ranks=2)
    made.stalled_s[2, 0, 1] = 0.050
    (late,) = with_work([finding()], made)
    assert "no core or sleeps: 50 ms a step, on other ranks 0.0 ms" in in_work(late)


def test_without_a_machine_there_is_no_ceiling() -> None:
    assert roofline(work([(1, 0, 0, 1, 0.02)], {1: 0.02}), {}) is None
