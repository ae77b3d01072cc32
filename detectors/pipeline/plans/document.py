"""A proposal as JSON, and back what is needed to carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scalana.detectors.pipeline.model.actions import Program
from scalana.detectors.pipeline.model.schedules import BY_NAME
from scalana.detectors.pipeline.model.torch_csv import parse_torch_csv
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.means import Means
from scalana.detectors.pipeline.plans.plan import Plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError
from scalana.detectors.pipeline.plans.profile_file import read_document, to_document
from scalana.detectors.pipeline.plans.proposal import Proposal

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
    """By which it is carried out: a name in :data:`~scalana.detectors.pipeline.model.engines.ENGINES`, or
    `torchtitan`."""
    settings: tuple[str, ...] = ()
    """What its engine is told, lines of a file."""


def read_plan(data: Any, order: str, name: str) -> Written:
    """A plan from its document and the text of its order; ``name`` is the file for messages.

    Raises:
        ProfileError: for what is no plan.
        OrderError: for an order that cannot be run.
    """
    profile = _profile(data, name)
    program = parse_torch_csv(order, str(data.get("order", ORDER)))
    return Written(profile, _read_plan(data.get("plan"), profile, program, name), str(data.get("engine", "torch")))


def means_in(data: Any, engine: str, name: str) -> Mapping[str, Any]:
    """What the document of a plan says of an engine's best one, as :func:`_means` wrote it; ``engine`` in small
    letters.

    Raises:
        ProfileError: where there is no such plan, with the reason.
    """
    _profile(data, name)
    for means in data.get("engines", ()):
        if str(means.get("engine")).lower() == engine:
            if means.get("plan") is None:
                raise ProfileError(f"{name}: no plan for {means['engine']}: " + " ".join(means.get("settings", ())))
            found: Mapping[str, Any] = means
            return found
    raise ProfileError(f"{name} has no plan for {engine}; write it again with `scalana pipeline plan`")


def read_means(data: Any, engine: str, settings: str, order: str | None, name: str) -> Written:
    """An engine's best plan from the document, the text of its settings, and that of its order if it has one.

    Raises:
        ProfileError: for what is no plan.
        OrderError: for an order that cannot be run.
    """
    profile, means = _profile(data, name), means_in(data, engine, name)
    if order is not None:
        program = parse_torch_csv(order, str(means["file"]))
    else:
        chunks = len(means["plan"]["stages"]) // profile.ranks
        schedule = "1F1B" if chunks == 1 else "Interleaved1F1B"
        program = BY_NAME[schedule].program(profile.ranks, profile.microbatches, chunks)
    plan = _read_plan(means["plan"], profile, program, name)
    return Written(profile, plan, engine, tuple(settings.splitlines()))


def _profile(data: Any, name: str) -> LayerProfile:
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise ProfileError(f"{name} is not a plan; `scalana pipeline plan` writes one")
    return read_document(data.get("profile"), name)


def _read_plan(said: Any, profile: LayerProfile, program: Program, name: str) -> Plan:
    try:
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
        raise ProfileError(f"{name}: the plan is incomplete: {error}") from error
    if plan.stages.cut[-1] != profile.layers or plan.program.rank_of_stage.tolist() != rank.tolist():
        raise ProfileError(f"{name}: the order has other stages than the plan")
    return plan
