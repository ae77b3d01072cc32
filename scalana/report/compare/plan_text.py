"""A pipeline plan, as people read it: who has which layers, what it brings, what engines make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scalana.report import names
from scalana.report.text.paint import Paint, clip, rule, wrap

if TYPE_CHECKING:
    from scalana.detectors.pipeline.plans.means import Means
    from scalana.detectors.pipeline.plans.plan import Plan
    from scalana.detectors.pipeline.plans.profile import LayerProfile, Now
    from scalana.detectors.pipeline.plans.proposal import Proposal
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
    profile = proposal.profile
    left, line, right = rule("Pipeline plan", f"{proposal.asked.engine}", width)
    facts = f"{profile.layers} layers · {profile.ranks} ranks · {profile.microbatches} microbatches"
    if profile.capacity is not None:
        facts += f" · at most {size(float(profile.capacity.min()), profile.unit)} a rank"
    lines = [paint(left, "bold") + paint(line + right, "dim"), *wrap(facts, width, "  "), ""]
    lines += _compared(proposal, width, paint)
    if proposal.plan.splits and halves_assumed(profile):
        says = (
            "The two parts of a backward pass were not measured: each counts as half. Where activations are recomputed,"
            " that is too little; --whole-backward plans without splitting."
        )
        lines += wrap(says, width, "  ")
    lines += ["", *_ranks(proposal.plan, profile, width, paint)]
    lines += _walls(proposal, width)
    if len(proposal.front) > 1:
        lines += ["", *_front(proposal, paint)]
    for means in proposal.means:
        lines += ["", *_means(means, proposal.now_s, width, paint)]
    if files:
        lines += ["", *wrap("Written: " + ", ".join(files), width, "  ")]
    return "\n".join(lines) + "\n"


def halves_assumed(profile: LayerProfile) -> bool:
    """Whether I and W are half of the backward in every layer, which nothing that was measured is."""
    _, whole, back, weight = profile.seconds
    return bool((abs(back - whole / 2) <= 1e-9 * whole).all() and (abs(weight - whole / 2) <= 1e-9 * whole).all())


def _row(name: str, step_s: float, now_s: float, bubble: str, memory: str, text: str, width: int) -> list[str]:
    faster = f"{now_s / step_s:.2f} x" if now_s == now_s else ""
    cells = f"  {name:<12} {names.seconds(step_s):>9} {faster:>7} {bubble:>7} {memory:>9}  "
    return wrap(text, width, " " * len(cells), cells) if text else [cells.rstrip()]


def _compared(proposal: Proposal, width: int, paint: Paint) -> list[str]:
    """The plan, compared with what runs now, the uniform plan and the bound."""
    profile, plan, now_s = proposal.profile, proposal.plan, proposal.now_s
    lines = [paint(f"  {'':<12} {'step':>9} {'faster':>7} {'bubble':>7} {'memory':>9}", "dim")]
    if profile.now is not None:
        now = profile.now
        text = f"measured: {now.engine} {now.schedule}".strip()
        memory = size(now.peak, profile.unit) if now.peak == now.peak else ""
        lines += _row("now", now.step_s, now_s, "", memory, text, width)
    if proposal.uniform is not None:
        lines += _plan_row("uniform", proposal.uniform, proposal, width)
    lines += _plan_row("plan", plan, proposal, width)
    lines += _row("bound", proposal.bound.step_s, now_s, "", "", "no cut, placement or order is faster", width)
    search = f"{proposal.tried} candidates in {names.seconds(proposal.searched_s)}"
    if proposal.ended_early:
        search += "; the time budget ended the search: a longer one may find a better plan"
    return [*lines, *(paint(line, "dim") for line in wrap(search + ".", width, "  "))]


def _plan_row(name: str, plan: Plan, proposal: Proposal, width: int) -> list[str]:
    text = plan.text if name != "plan" else f"{plan.stages.count} stages"
    if name == "plan":
        text += ", backward split where it pays" if plan.splits else ", whole backward passes"
    memory = size(plan.peak, proposal.profile.unit)
    return _row(name, plan.step_s, proposal.now_s, names.percent(plan.bubble), memory, text, width)


def _ranks(plan: Plan, profile: LayerProfile, width: int, paint: Paint) -> list[str]:
    """Who has which layers."""
    lines = [paint(f"  {'rank':>4} {'busy':>6} {'memory':>9}  stages: layers", "dim")]
    work = profile.work_s
    for rank in range(min(profile.ranks, _MOST_RANKS)):
        parts, busy = [], 0.0
        for s in (plan.stages.rank == rank).nonzero()[0].tolist():
            first, end = int(plan.stages.cut[s]), int(plan.stages.cut[s + 1])
            busy += float(work[first:end].sum()) * profile.microbatches
            parts.append(f"{s}: " + layers_text(profile.names[first:end]))
        cells = (
            f"  {rank:>4} {names.percent(busy / plan.step_s):>6} {size(float(plan.memory[rank]), profile.unit):>9}  "
        )
        lines += wrap("; ".join(parts), width, " " * len(cells), cells)
    if profile.ranks > _MOST_RANKS:
        lines.append(paint(f"  and {profile.ranks - _MOST_RANKS} more ranks: see plan.json", "dim"))
    return lines


def layers_text(layers: Sequence[str]) -> str:
    """`layers.0 to layers.4 (5)`."""
    if len(layers) == 1:
        return layers[0]
    return f"{layers[0]} to {layers[-1]} ({len(layers)})"


def _walls(proposal: Proposal, width: int) -> list[str]:
    """When one layer is in the way, and what splitting it would bring."""
    profile, wall = proposal.profile, proposal.wall
    lines: list[str] = []
    if proposal.bound.by_wall:
        name = profile.names[proposal.bound.wall]
        says = f"{name} limits every plan: one rank runs all its microbatches, so no plan is faster than the bound."
        lines += ["", *wrap(says, width, "  ")]
    if wall is not None and wall.plan.step_s < 0.99 * proposal.plan.step_s:
        name = profile.names[wall.layer]
        says = (
            f"Split into {wall.parts} parts over several ranks (as a vocabulary can be), {name} would let a step take"
            f" {names.seconds(wall.plan.step_s)}, {proposal.plan.step_s / wall.plan.step_s:.2f} x faster than the plan;"
            f" its bound would be {names.seconds(wall.bound_s)}."
        )
        lines += ["", *wrap(says, width, "  ")]
    return lines


def _front(proposal: Proposal, paint: Paint) -> list[str]:
    unit = "memory" if proposal.profile.unit == "bytes" else "memory (microbatches times layers)"
    lines = [paint(f"  {'step':>9} {'faster':>7}  {unit}: effect of more or less memory", "dim")]
    for one in proposal.front:
        faster = f"{proposal.now_s / one.step_s:.2f} x" if proposal.now_s == proposal.now_s else ""
        lines.append(f"  {names.seconds(one.step_s):>9} {faster:>7}  {size(one.peak, proposal.profile.unit)}")
    return lines


def _means(means: Means, now_s: float, width: int, paint: Paint) -> list[str]:
    """What an engine makes of it, and what to type."""
    head = f"  {means.engine} ({means.can}): "
    if means.plan is None:
        return wrap(means.settings[0], width, "    ", head)
    faster = f", {now_s / means.plan.step_s:.2f} x" if now_s == now_s else ""
    said = f"{names.seconds(means.plan.step_s)}{faster}"
    return [paint(head, "bold") + said, *(clip(f"    {line}", max(width, 60)) for line in means.settings)]


_RUNTIMES = {"torch": "torch's runtime", "megatron": "Megatron", "deepspeed": "DeepSpeed"}


def checked_text(checked: Checked, now: Now | None) -> str:
    """What carrying a plan out showed."""
    stretched = f", {checked.stretch:.3g} times as long" if checked.stretch != 1 else ""
    where = _RUNTIMES.get(checked.engine, checked.engine)
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
