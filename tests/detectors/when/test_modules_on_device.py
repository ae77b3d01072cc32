"""Modules of a synthetic run whose device does what its host only launches: its times, and not the host's, are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from scalana.detectors.analysis import Analysis
from scalana.detectors.finding import Finding
from scalana.detectors.run import analyze
from scalana.detectors.when.module_times import MODULES, with_modules
from scalana.detectors.when.module_work import WORK
from scalana.detectors.when.roofline import ROOFLINE, Ceilings, roofline
from scalana.report import data, text
from scalana.report.findings.inside import in_module
from scalana.report.text.paint import Paint
from scalana.report.text.sections import section_lines
from scalana.report.topics import modules
from scalana.runtime.chosen_steps import is_chosen
from scalana.runtime.record import layout
from scalana.runtime.record.format import LANE_STREAM, SPAN_TYPE
from tests.graphs.runs import FILE, LIBRARY, MS, Rank, build, make_ranks
from tests.known import with_section

ROOT = Path(__file__).resolve().parents[3]
STEPS, RANKS, SLOW = 40, 2, 1
TORCH = f"{LIBRARY}/torch/nn/modules/module.py", "Module._wrapped_call_impl", 1
NET = [(FILE, "<module>", 40), TORCH]
LAYER = [*NET, (FILE, "Net.forward", 12), TORCH]
BACKWARD = [(FILE, "<module>", 42), (f"{LIBRARY}/torch/_tensor.py", "Tensor.backward", 1)]
LAUNCH_MS, KERNEL_MS, SLOW_MS, HEAD_MS = 1, 10, 30, 20
CEILINGS = Ceilings({"float32": 400e9}, ((1 << 26, 100e9),))


class Job:
    """One rank whose host launches two layers and a head, forward and backward, and a stream that does them.

    The host of the slow rank takes longer to launch one layer, its device for what is in the other. Hosts wait for
    their devices in every tenth step. What ``unmarked`` names has no marks on the device. In the head the host calls a
    function ``item`` while the device works, and then launches the rest.
    """

    def __init__(self, rank: Rank, unmarked: str, starved_ms: float, slow: str, item: str) -> None:
        self.rank, self.unmarked, self.starved_ms, self.slow, self.item = rank, unmarked, starved_ms, slow, item
        self.free = 0.0
        """When the stream is done, in ms."""

    def pass_of(self, number: int, path: list[Any], name: str, kind: str, direction: str, kernel_ms: float) -> None:
        """One module, one way."""
        rank = self.rank
        begin, since = rank.now, max(rank.now, self.free)
        longer = {"head": self.starved_ms, "layers.0": 2 * LAUNCH_MS if rank.rank == SLOW else 0.0}
        rank.work(path, LAUNCH_MS + (longer.get(name, 0.0) if direction == "forward" else 0.0))
        self.free = max(since, rank.now if name == "head" and self.starved_ms else 0.0) + kernel_ms
        if name == "head" and self.item:
            rank.work([*path, (FILE, self.item, 14)], self.free - rank.now)
            rank.work(path, LAUNCH_MS)
            self.free = rank.now + LAUNCH_MS
        if is_chosen(number):
            self.spans(number, path, (name, kind, direction), (begin, rank.now), (since, self.free))

    def spans(
        self,
        number: int,
        path: list[Any],
        which: tuple[str, str, str],
        host: tuple[float, float],
        device: tuple[float, float],
    ) -> None:
        """What a module's call was on the host, and on the stream."""
        name, kind, direction = which
        writer = self.rank.writer
        told = {"direction": direction, "class": kind, "root": "Net"}
        begun, ended = (round(time * MS) for time in host)
        start, end = (round(time * MS) for time in device)
        where = {"path": self.rank.path(path), "step": number}
        writer.span(SPAN_TYPE["module"], name, begun, ended - begun, attributes={**told, "elements": 64}, **where)
        if name != self.unmarked:
            marks = {"queued_ns": start - begun, "behind_ns": end - ended, "kind": "module"}
            lane = writer.lane(LANE_STREAM, "cuda:0 stream 0")
            writer.span(SPAN_TYPE["device"], name, start, end - start, lane=lane, attributes={**marks, **told}, **where)

    def step(self, number: int) -> None:
        """A step of training."""
        rank = self.rank
        for direction, layers in (("forward", (0, 1)), ("backward", (1, 0))):
            begin, since = rank.now, max(rank.now, self.free)
            forward = direction == "forward"
            for layer in layers:
                slow = rank.rank == SLOW and layer == 1 and direction == self.slow
                path, ms = LAYER if forward else BACKWARD, SLOW_MS if slow else KERNEL_MS
                self.pass_of(number, path, f"layers.{layer}", "Layer", direction, ms)
            if forward:
                self.pass_of(number, LAYER, "head", "Head", direction, HEAD_MS)
            if is_chosen(number):
                wrapper, times = NET if forward else BACKWARD, ((begin, rank.now), (since, self.free))
                self.spans(number, wrapper, ("", "Net", direction), *times)
                self.spans(number, wrapper, ("", "DistributedDataParallel", direction), *times)
        if number % 10 == 9:
            rank.work("step", max(self.free - rank.now, 0.0) + 1)


def count(rank: Rank) -> None:
    """One product of 2 GFLOP in each layer, launched on a device, as it would be counted on two steps."""
    content = {
        "machine": {"cpu": "A", "cores": 4, "threads": 1, "torch": "2", "device": "A GPU"},
        "modules": [["Net", f"layers.{layer}", "Layer", "forward"] for layer in range(2)],
        "kinds": [["aten::mm", "Float[1000,1000,]@;Float[1000,1000,]@;>Float[1000,1000,]@;"]],
        "steps": [2, 3],
        "rows": [[row, layer, 0, 1, MS // 2, MS // 2] for row in range(2) for layer in range(2)],
    }
    Path(layout.operators_file(rank.file)).write_text(json.dumps(content))


def run(
    folder: Path, unmarked: str = "none", starved_ms: float = 0.0, slow: str = "forward", item: str = ""
) -> Analysis:
    folder.mkdir(exist_ok=True)
    ranks = make_ranks(folder, RANKS)
    jobs = [Job(rank, unmarked, starved_ms, slow, item) for rank in ranks]
    for number in range(STEPS):
        for job in jobs:
            begin = job.rank.now
            job.step(number)
            job.rank.writer.span(
                SPAN_TYPE["step"], "step", round(begin * MS), round((job.rank.now - begin) * MS),
                step=number, attributes={"source": "optimizer"},
            )  # fmt: skip
    for rank in ranks:
        rank.call("allreduce", max(one.now for one in ranks) + 1, where="sum", seq=1)
        rank.end()
        count(rank)
    return analyze(build(folder, command=["train"]))


def told(analysis: Analysis) -> dict[str, Any]:
    whole = data.document(analysis)
    jsonschema.validate(whole, json.loads((ROOT / "docs" / "report.schema.json").read_text()))
    return whole


def by_name(analysis: Analysis) -> dict[tuple[str, str], Any]:
    return {(module["name"], module["class"]): module for module in told(analysis)["modules"]["modules"]}


def test_modules_are_told_with_the_time_of_the_device_and_that_of_the_host_beside_it(tmp_path: Path) -> None:
    analysis = run(tmp_path)
    found = by_name(analysis)
    layer = found["layers.1", "Layer"]
    assert layer["on"] == "device"
    assert layer["forward_s"] == pytest.approx({"least": 0.010, "median": 0.020, "most": 0.030})
    assert layer["backward_s"]["most"] == pytest.approx(0.010)
    assert layer["host"]["forward_s"]["most"] == pytest.approx(0.001)
    assert layer["starved_s"] == pytest.approx({"forward": 0.0, "backward": 0.0}, abs=2e-3)
    assert found["", "Net"]["forward_s"]["most"] == pytest.approx(0.060)
    report = text.render(analysis, width=120)
    assert "ms of a step on the device" in report and "starved: at most this share of the time on the device" in report
    lines = [line.split() for line in section_lines(modules.sections(analysis)[0], 120, Paint(False))]
    wrapper, net, layers = (next(line for line in lines if line[-1] == last) for last in (
        "DistributedDataParallel", "Net", "Layer"
    ))  # fmt: skip
    assert wrapper[:5] == net[:5] == ["60.00", "70.00", "80.00", "50.00", "20.00"]
    assert layers[:5] == ["40.00", "50.00", "60.00", "30.00", "20.00"] and layers[-4:] == [
        "layers.*",
        "2",
        "x",
        "Layer",
    ]


def test_what_is_not_marked_on_the_device_stays_on_the_host(tmp_path: Path) -> None:
    analysis = run(tmp_path, unmarked="head")
    head = by_name(analysis)["head", "Head"]
    assert "on" not in head and "host" not in head and head["forward_s"]["most"] == pytest.approx(0.001)
    assert "head  Head, on the host" in text.render(analysis, width=120)


def test_a_device_that_waits_for_its_host_is_said_to(tmp_path: Path) -> None:
    """The host takes 100 ms to launch the head, for 20 ms of kernels."""
    analysis = run(tmp_path, starved_ms=100.0)
    head = by_name(analysis)["head", "Head"]
    assert head["forward_s"]["median"] == pytest.approx(head["starved_s"]["forward"] + 0.020, abs=0.002)
    assert head["starved_s"]["forward"] > 0.040
    assert by_name(analysis)["layers.0", "Layer"]["starved_s"]["backward"] < 0.002


@pytest.mark.parametrize(
    ("kind", "module", "slow", "says"),
    [
        ("device-late", "layers.1", "forward", "30 ms a step on the device, on other ranks 10 ms"),
        ("device-late", "layers.1", "backward", "30 ms a step on the device, on other ranks 10 ms"),
        ("late-ranks", "layers.0", "forward", "3.0 ms a step on the host, on other ranks 1.0 ms"),
    ],
)
def test_a_finding_of_devices_is_in_what_their_device_takes_longer_for_and_others_in_what_the_host_does(
    tmp_path: Path, kind: str, module: str, slow: str, says: str
) -> None:
    analysis = run(tmp_path, slow=slow)
    on, other = ("device", "host") if kind == "device-late" else ("host", "device")
    assert analysis.section(MODULES) is not None
    layer = next(number for number, one in enumerate(analysis.section(MODULES).modules) if one.name == "layers.1")
    vertex = int(analysis.section(MODULES).places[layer][0][0])
    one = Finding(kind, vertex, FILE, 12, 12, "Net.forward", "comp", [SLOW], 1.0, 1.0, 0.0)
    (one,) = with_modules([one], analysis.section(MODULES), analysis.ppg)
    assert (one.where.module, one.where.direction) == (module, slow)
    found = one.evidence.as_dict()["module_time"]
    assert isinstance(found, dict) and found["on"] == on
    took = {
        "layers.1": {"device": (0.030, 0.010), "host": (0.001, 0.001)},
        "layers.0": {"device": (0.010, 0.010), "host": (0.003, 0.001)},
    }[module]
    assert (found["seconds_here"], found["seconds_others"]) == pytest.approx(took[on])
    beside = found[f"{other}_seconds_here"], found[f"{other}_seconds_others"]
    assert beside == pytest.approx(took[other])
    assert f"{module} (Layer): {says}" in in_module(one)


def test_work_is_divided_by_the_time_of_the_device(tmp_path: Path) -> None:
    analysis = run(tmp_path)
    assert analysis.section(WORK) is not None
    analysis = with_section(analysis, ROOFLINE, roofline(analysis.section(WORK), dict.fromkeys(range(RANKS), CEILINGS)))
    work = by_name(analysis)["layers.0", "Layer"]["work"]["forward"]
    assert work["seconds"] == pytest.approx(0.010) and work["flops_per_s"] == pytest.approx(2e9 / 0.010)
    assert work["least_s"] == pytest.approx(0.005) and work["reached"] == pytest.approx(0.5)
    assert "between_operators_s" not in work
    report = " ".join(text.render(analysis, width=200).split())
    assert "ms on the device in a step" in report and "CPU time" not in report
    assert "mm of float32 [1000, 1000] x [1000, 1000] could take 5.00" in report


def test_what_a_device_took_that_was_not_marked_is_not_said_to_reach_anything(tmp_path: Path) -> None:
    analysis = run(tmp_path, unmarked="layers.0")
    assert analysis.section(WORK) is not None
    analysis = with_section(analysis, ROOFLINE, roofline(analysis.section(WORK), dict.fromkeys(range(RANKS), CEILINGS)))
    found = by_name(analysis)
    assert "reached" not in found["layers.0", "Layer"]["work"]["forward"]
    assert found["layers.1", "Layer"]["work"]["forward"]["reached"] == pytest.approx(0.25, rel=0.5)


def test_hosts_that_launch_ahead_have_no_slow_steps_for_that(tmp_path: Path) -> None:
    analysis = run(tmp_path)
    steps = told(analysis)["steps"]
    assert steps["ahead"] and not steps["slowest"]
    assert steps["mean_s"] * (steps["count"] - steps["warm_up"]) == pytest.approx(steps["steady_s"], abs=1e-3)
    assert steps["median_s"] < 0.01 < steps["mean_s"] == pytest.approx(0.070, rel=0.1)
    assert f"{steps['count'] - steps['warm_up']} " in text.render(analysis, width=200)
    assert "steps of 7" in text.render(analysis, width=200) and "ms on average (" in text.render(analysis, width=200)


def test_a_device_that_its_host_waits_for_inside_of_a_module_is_not_starved(tmp_path: Path) -> None:
    """What the host does else meanwhile keeps the device from nothing that is known."""
    awaits, computes = (
        by_name(run(tmp_path / name, item=name))["head", "Head"]["starved_s"]["forward"] for name in ("item", "prepare")
    )
    assert computes == pytest.approx((HEAD_MS + LAUNCH_MS) / 1e3, abs=0.003)
    assert awaits < 0.4 * computes  # samples tell when it waited, to 5 ms
