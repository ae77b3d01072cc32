"""A pipeline plan as text: the layers of each rank, the predicted gain, and settings for engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scalana.detectors.pipeline.plans.means import Means
from scalana.detectors.pipeline.plans.plan import Plan
from scalana.detectors.pipeline.plans.profile import LayerProfile, Now
from scalana.detectors.pipeline.plans.proposal import Proposal
from scalana.report import names
from scalana.report.document.sections import Column, Facts, Fit, Part, Row, Section, Table, texts
from scalana.report.text.paint import Paint, clip, wrap
from scalana.report.text.sections import section_lines

if TYPE_CHECKING:
    from scalana.verify.run import Checked

_MOST_RANKS = 16
_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size(value: float, unit: str) -> str:
    """Memory in its unit: bytes with a prefix, or a plain number."""
    if unit != "bytes":
        return f"{value:.1f}".removesuffix(".0")
    for name, factor in _UNITS:
        if value >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value:.0f} B"


def text(proposal: Proposal, files: Sequence[str], width: int, paint: Paint) -> str:
    """All of it."""
    lines = section_lines(section_of(proposal), width, paint)
    for means in proposal.means:
        lines += ["", *_means(means, proposal.now_s, width, paint)]
    if files:
        lines += ["", *wrap("Written: " + ", ".join(files), width, "  ")]
    return "\n".join(lines) + "\n"


def section_of(proposal: Proposal) -> Section:
    """The plan, compared with others, rank by rank, and what limits it."""
    profile = proposal.profile
    facts = f"{profile.layers} layers · {profile.ranks} ranks · {profile.microbatches} microbatches"
    if profile.capacity is not None:
        facts += f" · at most {size(float(profile.capacity.min()), profile.unit)} a rank"
    says = (
        "The two parts of a backward pass were not measured: each counts as half. Where activations are recomputed,"
        " that is too little; --whole-backward plans without splitting."
    )
    is_assumed = proposal.plan.splits and halves_assumed(profile)
    blocks: list[tuple[Part, ...]] = [
        (Facts((facts,)),),
        (_compared(proposal), Facts(texts(says if is_assumed else ""))),
        (_ranks(proposal.plan, profile),),
        *((Facts((said,)),) for said in _walls(proposal)),
    ]
    if len(proposal.front) > 1:
        blocks.append((_front(proposal),))
    return Section("plan", "Pipeline plan", tuple(blocks), proposal.asked.engine)


def halves_assumed(profile: LayerProfile) -> bool:
    """Whether I and W are half of the backward in every layer, which nothing that was measured is."""
    _, whole, back, weight = profile.seconds
    return bool((abs(back - whole / 2) <= 1e-9 * whole).all() and (abs(weight - whole / 2) <= 1e-9 * whole).all())


_COMPARED = (
    Column("", 12, is_text=True),
    Column("step", 9),
    Column("faster", 7),
    Column("bubble", 7),
    Column("memory", 9),
    Column("", is_text=True, fit=Fit.WRAP),
)


def _compared(proposal: Proposal) -> Table:
    """The plan, compared with what runs now, the uniform plan and the bound."""
    profile, plan, now_s = proposal.profile, proposal.plan, proposal.now_s
    rows = []
    if profile.now is not None:
        now = profile.now
        memory = size(now.peak, profile.unit) if now.peak == now.peak else ""
        measured = f"measured: {now.engine} {now.schedule}".strip()
        rows.append(Row(("now", names.seconds(now.step_s), _faster(now_s, now.step_s), "", memory, measured)))
    if proposal.uniform is not None:
        rows.append(_plan_row("uniform", proposal.uniform, proposal, proposal.uniform.text))
    way = "backward split where it pays" if plan.splits else "whole backward passes"
    rows.append(_plan_row("plan", plan, proposal, f"{plan.stages.count} stages, {way}"))
    bound_s, limit = proposal.bound.step_s, "no cut, placement or order is faster"
    rows.append(Row(("bound", names.seconds(bound_s), _faster(now_s, bound_s), "", "", limit)))
    search = f"{proposal.tried} candidates in {names.seconds(proposal.searched_s)}"
    if proposal.ended_early:
        search += "; the time budget ended the search: a longer one may find a better plan"
    return Table(_COMPARED, tuple(rows), (f"{search}.",))


def _faster(now_s: float, step_s: float) -> str:
    """How many times as fast; nothing where it is not known how fast it is now."""
    return f"{now_s / step_s:.2f} x" if now_s == now_s else ""


def _plan_row(name: str, plan: Plan, proposal: Proposal, text: str) -> Row:
    faster, memory = _faster(proposal.now_s, plan.step_s), size(plan.peak, proposal.profile.unit)
    return Row((name, names.seconds(plan.step_s), faster, names.percent(plan.bubble), memory, text))


def _ranks(plan: Plan, profile: LayerProfile) -> Table:
    """The layers of each rank."""
    work, rows = profile.work_s, []
    for rank in range(min(profile.ranks, _MOST_RANKS)):
        parts, busy = [], 0.0
        for s in (plan.stages.rank == rank).nonzero()[0].tolist():
            first, end = int(plan.stages.cut[s]), int(plan.stages.cut[s + 1])
            busy += float(work[first:end].sum()) * profile.microbatches
            parts.append(f"{s}: " + layers_text(profile.names[first:end]))
        memory = size(float(plan.memory[rank]), profile.unit)
        rows.append(Row((str(rank), names.percent(busy / plan.step_s), memory, "; ".join(parts))))
    stages = Column("stages: layers", is_text=True, fit=Fit.WRAP)
    columns = Column("rank", 4), Column("busy", 6), Column("memory", 9), stages
    more = profile.ranks - _MOST_RANKS
    return Table(columns, tuple(rows), texts(f"and {more} more ranks: see plan.json" if more > 0 else ""))


def layers_text(layers: Sequence[str]) -> str:
    """`layers.0 to layers.4 (5)`."""
    if len(layers) == 1:
        return layers[0]
    return f"{layers[0]} to {layers[-1]} ({len(layers)})"


def _walls(proposal: Proposal) -> list[str]:
    """When one layer is in the way, and what splitting it would bring."""
    profile, wall = proposal.profile, proposal.wall
    found: list[str] = []
    if proposal.bound.by_wall:
        name = profile.names[proposal.bound.wall]
        limits = f"{name} limits every plan: one rank runs all its microbatches"
        found.append(f"{limits}, so no plan is faster than the bound.")
    if wall is not None and wall.plan.step_s < 0.99 * proposal.plan.step_s:
        name = profile.names[wall.layer]
        found.append(
            f"Split into {wall.parts} parts over several ranks (as a vocabulary can be), {name} would let a step take"
            f" {names.seconds(wall.plan.step_s)}, {proposal.plan.step_s / wall.plan.step_s:.2f} x faster than the plan;"
            f" its bound would be {names.seconds(wall.bound_s)}."
        )
    return found


def _front(proposal: Proposal) -> Table:
    """What more or less memory brings."""
    unit = "memory" if proposal.profile.unit == "bytes" else "memory (microbatches times layers)"
    columns = Column("step", 9), Column("faster", 7), Column(f"{unit}: effect of more or less memory", is_text=True)
    rows = [
        Row((names.seconds(one.step_s), _faster(proposal.now_s, one.step_s), size(one.peak, proposal.profile.unit)))
        for one in proposal.front
    ]
    return Table(columns, tuple(rows))


def _means(means: Means, now_s: float, width: int, paint: Paint) -> list[str]:
    """What an engine makes of it, and what to type."""
    head = f"  {means.engine} ({means.can}): "
    if means.plan is None:
        return wrap(means.settings[0], width, "    ", head)
    faster = f", {now_s / means.plan.step_s:.2f} x" if now_s == now_s else ""
    said = f"{names.seconds(means.plan.step_s)}{faster}"
    return [paint(head, "bold") + said, *(clip(f"    {line}", max(width, 60)) for line in means.settings)]


def checked_text(checked: Checked, now: Now | None) -> str:
    """What carrying a plan out showed."""
    from scalana.detectors.pipeline.model.engines import RUNTIMES

    stretched = f", {checked.stretch:.3g} times as long" if checked.stretch != 1 else ""
    where = RUNTIMES.get(checked.engine, checked.engine)
    if checked.planned_s is None:
        lines = [f"{_compared_with_measured(checked)} on {where} with emulated layers{stretched}"]
    else:
        lines = [
            f"{_compared_with_measured(checked)} on {where} with the model's layers, predicted from their time here"
        ]
        lines.append(f"the costs in the plan predict a step of {names.seconds(checked.planned_s)}")
    lines.append("steps: " + ", ".join(names.seconds(step) for step in checked.steps_s))
    if now is not None:
        gain = now.step_s / checked.measured_s
        lines.append(
            f"{gain:.2f} x faster than the run that was recorded, whose steps take {names.seconds(now.step_s)}"
        )
    if checked.late:
        lines.append(f"{checked.late} actions were late: the machine was too busy for a fair comparison")
    return "\n".join(lines) + "\n"


def gained_text(base: str, before: Checked, after: Checked) -> str:
    """What a plan gained over another one, carried out the same way."""
    said = f"{base}: {_compared_with_measured(before)}"
    predicted, measured = (getattr(before, of) / getattr(after, of) for of in ("predicted_s", "measured_s"))
    return f"{said}\nthe plan is {measured:.2f} x faster, as predicted {predicted:.2f} x\n"


def _compared_with_measured(checked: Checked) -> str:
    """A prediction, compared with what was measured."""
    error = f"{checked.error:+.1%}".replace("%", " %")
    return f"predicted {names.seconds(checked.predicted_s)}, measured {names.seconds(checked.measured_s)} ({error})"
