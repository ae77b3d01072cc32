"""A proposal as JSON, and back what is needed to carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.means import Means
from scalana.detectors.pipeline.plans.plan import Plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError
from scalana.detectors.pipeline.plans.profile_file import read_document, to_document
from scalana.detectors.pipeline.plans.proposal import Proposal
from scalana.detectors.pipeline.torch_csv import parse_torch_csv

SCHEMA = "scalana.plan/1"
ORDER = "plan.csv"
"""The name of the order beside the document."""


def stages_of(profile: LayerProfile, stages: Stages) -> list[dict[str, Any]]:
    """Who has which layers."""
    return [
        {"stage": s, "rank": int(stages.rank[s]), "layers": list(profile.names[stages.cut[s] : stages.cut[s + 1]])}
        for s in range(stages.count)
    ]


def _plan(profile: LayerProfile, plan: Plan) -> dict[str, Any]:
    return {
        "text": plan.text,
        "step_s": plan.step_s,
        "bubble": plan.bubble,
        "memory": plan.memory.tolist(),
        "stages": stages_of(profile, plan.stages),
    }


def _means(profile: LayerProfile, means: Means) -> dict[str, Any]:
    return {
        "engine": means.engine,
        "can": means.can,
        "plan": None if means.plan is None else _plan(profile, means.plan),
        "settings": list(means.settings),
        "file": means.file,
    }


def to_json(proposal: Proposal) -> dict[str, Any]:
    """The document of a proposal."""
    profile, wall = proposal.profile, proposal.wall
    now = profile.now
    return {
        "schema": SCHEMA,
        "engine": proposal.asked.engine,
        "order": ORDER,
        "unit": profile.unit,
        "plan": _plan(profile, proposal.plan),
        "bound_s": proposal.bound.step_s,
        "now": None if now is None else {"text": now.schedule, "step_s": now.step_s},
        "uniform": None if proposal.uniform is None else _plan(profile, proposal.uniform),
        "front": [{"step_s": one.step_s, "memory": one.peak} for one in proposal.front],
        "wall": None
        if wall is None
        else {
            "layer": profile.names[wall.layer],
            "parts": wall.parts,
            "bound_s": wall.bound_s,
            "plan": _plan(wall.profile, wall.plan),
        },
        "engines": [_means(profile, one) for one in proposal.means],
        "candidates": proposal.tried,
        "ended_early": proposal.ended_early,
        "profile": to_document(replace(profile, capacity=None)),
    }


@dataclass(frozen=True)
class Written:
    """What is read back of a plan."""

    profile: LayerProfile
    plan: Plan
    engine: str


def read_plan(data: Any, order: str, name: str) -> Written:
    """A plan from its document and the text of its order; ``name`` is the file for messages.

    Raises:
        ProfileError: for what is no plan.
        OrderError: for an order that cannot be run.
    """
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise ProfileError(f"{name} is no plan; `scalana pipeline plan` writes one")
    profile = read_document(data.get("profile"), name)
    program = parse_torch_csv(order, str(data.get("order", ORDER)))
    try:
        said = data["plan"]
        sizes = [len(stage["layers"]) for stage in said["stages"]]
        rank = np.array([int(stage["rank"]) for stage in said["stages"]], np.int64)
        plan = Plan(
            Stages.sized(np.array(sizes, np.int64), rank),
            program,
            float(said["step_s"]),
            np.array(said["memory"], float),
            float(said["bubble"]),
            str(said["text"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"{name}: the plan lacks something: {error}") from error
    if plan.stages.cut[-1] != profile.layers or plan.program.rank_of_stage.tolist() != rank.tolist():
        raise ProfileError(f"{name}: the order is of other stages than the plan")
    return Written(profile, plan, str(data.get("engine", "torch")))
