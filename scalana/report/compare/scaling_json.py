"""Scaling loss as JSON, for programs (``docs/scaling.md``)."""

from __future__ import annotations

import json
from typing import Any

from scalana.detectors.runs.scaling import JobPrediction, Scaling, Size
from scalana.detectors.runs.scaling.size_efficiency import SizeEfficiency
from scalana.report.findings.entry import finding_entry
from scalana.report.topics.efficiency import entry
from scalana.report.values import plain

SCHEMA = "scalana.scaling/1"


def document(scaling: Scaling) -> dict[str, Any]:
    """The comparison as dicts, lists, strings, numbers and None."""
    run = scaling.reference.ppg.run
    return {
        "schema": SCHEMA,
        "command": [str(word) for word in run.command],
        "scaling": {
            "kind": scaling.ideal.scaling,
            "stated": scaling.ideal.stated,
            "work_exponent": plain(scaling.ideal.exponent),
        },
        "noise": _noise(scaling),
        "runs": [{"folder": one.name, "ranks": one.ranks, "seconds": plain(one.seconds)} for one in scaling.table.runs],
        "sizes": [_size(size) for size in scaling.sizes],
        "efficiencies": [_efficiencies(one) for one in scaling.efficiencies],
        "prediction": _prediction(scaling.prediction),
        "findings": [finding_entry(finding, run.cwd, run.names) for finding in scaling.findings],
        "warnings": list(scaling.warnings),
    }


def render(scaling: Scaling) -> str:
    """The comparison as indented JSON; the same runs give the same bytes."""
    return json.dumps(document(scaling), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _noise(scaling: Scaling) -> dict[str, Any]:
    noise = scaling.noise
    left_out = [scaling.table.runs[noise.disturbed.run].name] if noise.disturbed is not None else []
    return {"relative": plain(noise.relative), "from_repeated_runs": noise.repeated, "left_out": left_out}


def _size(size: Size) -> dict[str, Any]:
    seconds = ("job_s", "seconds", "ideal_s", "work_s", "wait_s", "transfer_s", "core_wait_s", "setup_s", "efficiency")
    return {"ranks": size.ranks, "runs": size.runs, **{name: plain(getattr(size, name)) for name in seconds}}


def _efficiencies(found: SizeEfficiency) -> dict[str, Any]:
    return {
        "ranks": found.ranks,
        **entry(found.factors),
        "computation_scalability": plain(found.computation),
        "global": plain(found.total),
    }


def _prediction(prediction: JobPrediction | None) -> dict[str, Any] | None:
    if prediction is None:
        return None
    seconds = ("seconds", "low", "high", "ideal_s", "efficiency")
    return {"ranks": prediction.ranks, **{name: plain(getattr(prediction, name)) for name in seconds}}
