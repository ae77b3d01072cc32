"""Jobs of engines of other makers that train two models: one whose stages are alike, and one with a planted head."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import scalana
from scalana.graphs.spans.actions import KINDS, Actions, Pipeline, find_pipelines
from tests.needs import torch_or_skip
from tests.runtime import jobs

RANKS, STEPS = 2, 4
MILLISECONDS = 5
"""Of a layer in a forward; its backward takes twice as long."""


@dataclass
class Job:
    """A job that was recorded."""

    report: dict[str, Any]
    """Its JSON report."""
    pipelines: list[Pipeline]
    """Of the model whose stages are alike, of the one with the head."""
    same: bool
    """Whether it printed what it prints without a recorder."""


def folder_of(library: str) -> Path:
    """Where a library was put; the test is skipped where it is not."""
    torch_or_skip()
    named = os.environ.get(f"SCALANA_TEST_{library.upper()}")
    folder = Path(named) if named else jobs.ROOT / "build" / "pipeline" / library
    if not (folder / library).is_dir():
        pytest.skip(f"no {library} in {folder}: make pipeline")
    return folder


def recorded(folder: Path, library: str, program: str, *arguments: str) -> Job:
    """Run a program with a recorder, and without one and the time that its layers take."""
    extra = {"PYTHONPATH": str(folder_of(library)), "DS_ACCELERATOR": "cpu"}
    plain = jobs.forked(RANKS, program, *arguments, "0", extra=extra)
    done = jobs.forked(RANKS, program, *arguments, str(MILLISECONDS), extra=extra, record=folder)
    assert plain.returncode == done.returncode == 0, plain.stderr + done.stderr
    jobs.ranks(folder)
    analysis = scalana.analyze(folder)
    return Job(
        json.loads(analysis.to_json()),
        find_pipelines(analysis.ppg.spans),
        plain.stdout.splitlines()[-1] == done.stdout.splitlines()[-1],
    )


def said(actions: Actions) -> str:
    """Actions as they are written: ``0F0 0F1``."""
    columns = zip(actions.stage.tolist(), actions.kind.tolist(), actions.microbatch.tolist(), strict=True)
    return " ".join(f"{stage}{KINDS[kind]}{microbatch}" for stage, kind, microbatch in columns)


def wrong_replay(report: dict[str, Any]) -> list[str]:
    """What is not as it has to be of the two models of a report: shares, the replay, and the loads of the stages."""
    told = []
    for one in report["pipeline"]:
        if sum(one["shares"].values()) != pytest.approx(1, abs=1e-4):
            told.append(f"shares do not add up: {one['shares']}")
        if abs(one["replay_s"] / one["step_s"] - 1) > 0.05:
            told.append(f"replayed {one['replay_s']} for {one['step_s']}")
    even, slow = ([stage["load"] for stage in one["stage"]] for one in report["pipeline"])
    if max(even) > 1.15 or slow[-1] != max(slow) or slow[-1] < 1.25:
        told.append(f"loads {even} and {slow}")
    if abs(report["pipeline"][0]["shares"]["imbalance"]) > 0.05:
        told.append(f"imbalance {report['pipeline'][0]['shares']}")
    return told


def wrong(report: dict[str, Any], advice: str) -> list[str]:
    """What of a report is not as it was planted: the last stage of the second model takes twice as long as it should,
    and nobody is to blame for anything else."""
    told = wrong_replay(report)
    even, slow = report["pipeline"]
    if slow["shares"]["imbalance"] < 0.12:
        told.append(f"imbalance {slow['shares']}")
    blamed = [f for f in report["findings"] if f["ranks"]]
    # What disturbed the machine may be told, too, but not as large.
    large = [f for f in blamed if f["lost_s"] >= 0.5 * blamed[0]["lost_s"]]
    if [(f["kind"], f["ranks"]) for f in large] != [("pipeline-imbalance", [RANKS - 1])]:
        return [*told, f"{[(f['kind'], f['ranks']) for f in blamed]}: {even['shares']} {slow['shares']}"]
    root = blamed[0]["root"]
    if (root["stage"], Path(root["file"]).name, root["function"].split(".")[0]) != (
        slow["stages"] - 1,
        "pausing.py",
        "PlantedPause",
    ):
        told.append(f"named is {root}")
    if advice not in blamed[0]["advice"]:
        told.append(f"advice: {blamed[0]['advice']}")
    return told
