"""The co-optimised plan of a diagnosed run, as one of its what-ifs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalana.detectors.pipeline.advice import CHANGES
from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis
from scalana.detectors.pipeline.diagnosis.predictions import Prediction
from scalana.detectors.pipeline.model.simulate import Deadlock
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.from_run import profile_of
from scalana.detectors.pipeline.plans.plan import make_plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, ProfileError
from scalana.detectors.pipeline.plans.proposal import Asked, Proposal, propose
from scalana.detectors.pipeline.plans.search import Effort

EFFORT = Effort(actions=4e6)
"""A fraction of a second: `scalana pipeline plan` looks longer."""
FILE = "plan/plan.csv"
"""Where `scalana run` puts the order, in the run folder."""


def with_plan(diagnosis: Diagnosis) -> tuple[Diagnosis, Proposal | None]:
    """The diagnosis with the plan among its predictions, and the plan; none where nothing is predicted.

    What a step has beside the model of costs stays as it is.
    """
    if not diagnosis.attribution.trusted:
        return diagnosis, None
    try:
        profile = profile_of(diagnosis)
        asked = Asked(engine=_engine(diagnosis), front=False, wall=False, means=False)
        proposal = propose(profile, asked, EFFORT)
        beside_s = diagnosis.attribution.step_s - _now_s(profile, diagnosis)
    except (ProfileError, Deadlock):
        return diagnosis, None
    plan = proposal.plan
    text = CHANGES["plan"].format(stages=plan.stages.count, ranks=profile.ranks)
    one = Prediction(
        "plan", text, plan.step_s + beside_s, plan.peak, tuple(plan.stages.cut.tolist()), plan.program, FILE
    )
    found = [*diagnosis.predictions, one]
    order = sorted(found, key=lambda each: (each.change == "bound", each.step_s))
    return replace(diagnosis, predictions=tuple(order)), proposal


def _engine(diagnosis: Diagnosis) -> str:
    """By which plans are replayed: torch's runtime is what runs them, but where another engine is in use."""
    name = diagnosis.measured.operations.engine.name
    return "torch" if name.startswith("torch") else "ideal"


def _now_s(profile: LayerProfile, diagnosis: Diagnosis) -> float:
    """What the model of costs says of what runs now."""
    program = diagnosis.measured.first_step()
    layers = diagnosis.layers
    cut = np.arange(program.stages + 1) if layers is None else layers.cut
    engine = diagnosis.measured.operations.engine
    return make_plan(profile, Stages(cut, program.rank_of_stage), program, engine, "now").step_s
