"""What a workload is like, as sections."""

from __future__ import annotations

import math

from scalana.report import names
from scalana.report.document.sections import Column, Facts, Row, Section, Table, texts
from scalana.report.values import plain
from scalana.workload.distributions import KINDS
from scalana.workload.draw import GOOD_KS, GOOD_TAIL, chosen
from scalana.workload.fitting import QUANTILES, Fit
from scalana.workload.profile import PROMPT, READ, RESPONSE, TOOL, TURN, VERIFIER, Profile, Quantity

_SECONDS = (TOOL, VERIFIER)
_TEXTS = {
    RESPONSE: "response",
    PROMPT: "prompt",
    TURN: "a turn",
    READ: "answer of a tool",
    TOOL: "tool",
    VERIFIER: "verifier",
}
_SPREAD = (
    Column("p50", 9),
    Column("p90", 9),
    Column("p99", 9),
    Column("max", 9),
    Column("p99/p50", 8),
    Column("cv", 6),
    Column("values", 8),
    Column("", is_text=True, leads=True),
)
_FITS = (
    Column("distance", 9),
    Column("p50", 8),
    Column("p90", 8),
    Column("p99", 8),
    Column("max", 8),
    Column("distribution", is_text=True, leads=True),
)


def sections(profile: Profile) -> list[Section]:
    """Lengths and times, what steps and prompts have in common, and fits."""
    of = f"{profile.steps} steps · {profile.prompts} prompts a step · {profile.answers} answers a prompt"
    facts = Facts(texts(*_facts(profile)))
    result = [Section("workload", "Workload", ((_spread(profile),), (facts,)), of)]
    for name in (RESPONSE, TURN, TOOL, VERIFIER):
        quantity = profile.quantities.get(name)
        if quantity is not None and len(quantity.fits) > 1:
            what = f"{_TEXTS[name]}, {'seconds' if name in _SECONDS else profile.unit + 's'}"
            result.append(Section(f"fits-{name}", f"Fits: {what}", ((_fits(quantity),),)))
    return result


def _amount(value: float, name: str) -> str:
    return names.seconds(value) if name in _SECONDS else f"{value:.0f}"


def _spread(profile: Profile) -> Table:
    rows = []
    for name, quantity in profile.quantities.items():
        what = f"{_TEXTS[name]}, {'seconds' if name in _SECONDS else profile.unit + 's'}"
        cells = [_amount(value, name) for value in quantity.quantiles]
        rows.append(Row((*cells, f"{quantity.tail:.1f}", f"{quantity.variation:.2f}", str(quantity.count), what)))
    return Table(_SPREAD, tuple(rows))


def _facts(profile: Profile) -> list[str]:
    """What tables do not show."""
    response, found = profile.quantities[RESPONSE], []
    if response.clipped > 0.0:
        part = names.percent(response.clipped)
        found.append(
            f"A limit of {profile.cap:.0f} {profile.unit}s ended {part} of the responses: fits count these as longer."
        )
    if profile.variance is not None:
        decided, spread = profile.variance.correlation, math.sqrt(profile.variance.within)
        found.append(
            f"The prompt decides {names.percent(decided)} of the variance of log-lengths (intraclass correlation). "
            f"Answers to one prompt differ by a factor of {math.exp(spread):.2f} (one standard deviation)."
        )
    if profile.drift is not None:
        change = f"{100 * profile.drift.a_step:+.1f} % a step, standard error {100 * profile.drift.error:.1f} %"
        clear = "change over the steps" if profile.drift.is_clear else "do not clearly change over the steps"
        found.append(f"Lengths {clear}: {change}.")
    if len(profile.turns) > 1:
        parts = ", ".join(
            f"{number} in {names.percent(part)}" for number, part in enumerate(profile.turns, 1) if part > 0
        )
        found.append(f"Turns of a trajectory: {parts}.")
    return found


def _fits(quantity: Quantity) -> Table:
    """How far each distribution is from the values."""
    best = chosen(quantity)
    rows = []
    for fit in quantity.fits:
        if not math.isfinite(fit.bic):
            continue
        off = [f"{100 * one:+.1f} %" for one in (*fit.off, fit.off_most)]
        rows.append(Row((f"{fit.ks:.3f}", *off, described(fit) + (" *" if fit.distribution is best else ""))))
    used = "* draws use it."
    if best.kind == "table":
        used = (
            f"None has a distance up to {GOOD_KS} and a maximum within {100 * GOOD_TAIL:.0f} %: draws use the "
            "quantiles of the data."
        )
    how = "The best first, by BIC. Distance: Kolmogorov-Smirnov. p50 to max: error of the quantile."
    return Table(_FITS, tuple(rows), (f"{how} {used}",))


def described(fit: Fit) -> str:
    """A distribution with its parameters.

    >>> from scalana.workload.distributions import Distribution
    >>> described(Fit(Distribution("gamma", (2.0, 31.25)), 0.0, (), 0.0, 0.0))
    'gamma: shape 2, scale 31.2'
    """
    kind = KINDS[fit.distribution.kind]
    given = zip(kind.parameters, fit.distribution.parameters, strict=True)
    return f"{kind.text}: " + ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in given)


def entry(profile: Profile) -> dict[str, object]:
    """A profile as plain data."""
    quantities = {
        name: {
            "count": one.count,
            **dict(zip(("p50", "p90", "p99", "max"), plain(one.quantiles), strict=True)),
            "mean": plain(one.mean),
            "cv": plain(one.variation),
            "clipped": plain(one.clipped),
            "fits": [_fit_entry(fit) for fit in one.fits],
        }
        for name, one in profile.quantities.items()
    }
    variance, drift = profile.variance, profile.drift
    return {
        "source": profile.source,
        "unit": profile.unit,
        "steps": profile.steps,
        "prompts_per_step": profile.prompts,
        "answers_per_prompt": profile.answers,
        "limit": plain(profile.cap),
        "quantities": quantities,
        "variance_of_logs": None
        if variance is None
        else {"between": plain(variance.between), "within": plain(variance.within), "icc": plain(variance.correlation)},
        "drift": None if drift is None else {"per_step": plain(drift.a_step), "error": plain(drift.error)},
        "turns": plain(profile.turns),
    }


def _fit_entry(fit: Fit) -> dict[str, object]:
    kind = KINDS[fit.distribution.kind]
    values = fit.distribution.parameters
    parameters: object = dict(zip(kind.parameters, plain(values), strict=True)) if kind.parameters else plain(values)
    return {
        "kind": kind.name,
        "parameters": parameters,
        "ks": plain(fit.ks),
        "quantile_errors": dict(zip([f"p{100 * part:.0f}" for part in QUANTILES], plain(fit.off), strict=True)),
        "max_error": plain(fit.off_most),
        "bic": plain(fit.bic),
    }
