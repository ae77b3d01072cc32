"""A kernel of Triton's that takes longer on one device: what its name tells, and what is known of the kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import scalana
from scalana.importers.registry import import_traces
from scalana.report.findings.inside import in_compiled
from scalana.runtime.record.layout import models_file
from tests.tools.device_job import MS, Fault, Job

JOB = Job(ranks=2, steps=2, fault=Fault(1, kernel_ns=3 * MS))
KERNEL = "triton_poi_fused_gelu_sin_0"
FRAMES = [["/job/net.py", 6, "forward"], ["/job/net.py", 9, "forward"], ["/job/net.py", 7, "forward"]]
SMOOTH = [["L['self'].smooth", "net.Smooth"]]
SOURCES = [
    {"op": "sin", "frames": [0, 1], "modules": SMOOTH},
    {"op": "gelu", "frames": [2], "modules": []},
    {"op": "gelu_backward", "frames": [2], "modules": []},
]


def wrapper(name: str, phase: str, sources: list[list[int]]) -> dict:
    calls = [{"line": 12, "kernel": KERNEL, "sources": sources}]
    return {"file": f"/tmp/{name}.py", "compilation": "0/0", "phase": phase, "by": "writing", "calls": calls}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An imported job of which one kernel, that rank 1 has alone, is one of Triton's."""
    (tmp_path / "traces").mkdir()
    for rank, trace in enumerate(JOB.traces()):
        text = json.dumps(trace).replace("radix_sort", KERNEL).replace("aten::sort", KERNEL)
        (tmp_path / "traces" / f"rank{rank}.json").write_text(text)
    import_traces([str(tmp_path / "traces")], str(tmp_path / "run"), str(tmp_path))
    return tmp_path / "run"


def test_the_name_alone_tells_the_operators(run: Path) -> None:
    (finding,) = scalana.analyze(run).findings
    assert (finding.kind, finding.ranks, finding.evidence.as_dict()["kernel"]) == ("device-late", [1], KERNEL)
    told = finding.evidence.as_dict()["compiled"]
    assert (told["operators"], told["line"], told["known_by"]) == (["gelu_sin"], 0, "name")
    assert in_compiled(finding) == f"This code is compiled: {KERNEL}, made of gelu_sin."


def test_a_kernel_that_is_known_has_its_line_and_operators(run: Path) -> None:
    """Of two kernels with the name, that which does more counts."""
    wrappers = [wrapper("a", "forward", [[0, 900], [1, 100]]), wrapper("b", "backward", [[2, 200]])]
    told = {"models": [], "frames": FRAMES, "graphs": [], "sources": SOURCES, "wrappers": wrappers}
    record = min((run / "records").glob("*.rec"))
    Path(models_file(str(record))).write_text(json.dumps(told))
    (finding,) = scalana.analyze(run).findings
    compiled = finding.evidence.as_dict()["compiled"]
    assert (compiled["file"], compiled["line"], compiled["operators"]) == ("/job/net.py", 9, ["sin"])
    assert compiled["fused_with"] == [{"operator": "gelu", "file": "/job/net.py", "line": 7}]
    assert (finding.where.module, finding.where.direction) == ("smooth", "forward")
    assert in_compiled(finding) == (
        f"This code is compiled, in the forward of module smooth (Smooth): {KERNEL}, made of sin, mostly from "
        "net.py:9; fused with gelu of net.py:7."
    )


def test_other_kernels_are_not_said_to_be_compiled(tmp_path: Path) -> None:
    import_traces([str(JOB.write(tmp_path / "traces"))], str(tmp_path / "run"), str(tmp_path))
    (finding,) = scalana.analyze(tmp_path / "run").findings
    assert "compiled" not in finding.evidence.as_dict() and in_compiled(finding) == ""
