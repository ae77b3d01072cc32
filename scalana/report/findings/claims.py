"""The sentence that says who does what at the place of a finding, from the row of its kind."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from scalana.detectors.kinds import Kind, kind_of
from scalana.detectors.late_ranks.advice import NOTHING
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report import names

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding

ALIKE = 1.05
"""Times as long as others, below which a rank does not spend more over the run."""

UNNAMED = ProcessNames()
"""Of one world."""

_FIELD = re.compile(r"\{([^{}]+)\}")


def claim(finding: Finding, ranks: int, processes: ProcessNames = UNNAMED) -> str:
    """Who does what here, as a sentence. ``ranks`` is how many processes the job has, ``processes`` their names."""
    kind = kind_of(finding.kind)
    here, others = (number(finding.evidence, key) for key in ("seconds_here", "seconds_others"))
    if here is not None and kind.compares:
        return _comparison(finding, processes.many(finding.ranks, ranks), here, others)
    text = filled(kind, finding, ranks, processes)
    if here is not None and kind.spends:
        text += f" ({names.seconds(here)}{'' if others is None else f', the others {names.seconds(others)}'})"
    return f"{text}."


def filled(kind: Kind, finding: Finding, ranks: int, processes: ProcessNames = UNNAMED) -> str:
    """The first claim of a kind that the evidence of a finding allows, with the values put in."""
    evidence = finding.evidence
    text = next(claim.text for claim in kind.claims if all(evidence.get(key) for key in claim.needs))
    who, several = processes.many(finding.ranks, ranks), len(set(finding.ranks)) > 1

    def value(field: re.Match[str]) -> str:
        what, _, key = field.group(1).partition(":")
        if what in ("ranks", "Ranks") and not key:
            return who if what == "ranks" else who[0].upper() + who[1:]
        if what == "seconds":
            return names.seconds(number(evidence, key) or 0.0)
        if what == "count":
            return f"{number(evidence, key) or 0.0:.0f}"
        if what == "ranks":
            others = evidence[key]
            return processes.many(others, ranks) if isinstance(others, Iterable) else "others"
        if what == "text":
            return str(evidence[key])
        one, _, many = what.partition("|")
        return many if several else one

    return _FIELD.sub(value, text)


def _comparison(finding: Finding, who: str, here: float, others: float | None) -> str:
    """What the ranks of a finding (``who``) spend at its place, compared with the others."""
    who = who[0].upper() + who[1:]
    several = len(set(finding.ranks)) > 1
    text = f"{who} spends {names.seconds(here)} here"
    if several:
        text = f"{who} spend {names.seconds(here)} here on average"
    large, over, ratio = (number(finding.evidence, key) for key in ("large_tasks", "large_tasks_over_s", "ratio"))
    if large is not None and over is not None:
        where = " on one rank after another" if several else ""
        return f"{text}: {large:.0f} tasks{where} take {names.seconds(over)} longer than usual."
    if finding.evidence.get("drifts") and several:
        return f"{text}, each far more than the others during a part of the run."
    if others is None:
        return f"{text}, and each of them makes the others wait at some time." if several else f"{text}."
    if others <= NOTHING * here:
        return f"{text}, the others next to nothing."
    if ratio is None:
        ratio = here / others
    if ratio < ALIKE:
        more = "no more in total" if ratio > 1 / ALIKE else "less in total"
        return f"{text}, the others {names.seconds(others)}: {more}, but while the others wait."
    factor = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{text}, the others {names.seconds(others)}: {factor} times as long."


def number(evidence: Mapping[str, object], key: str) -> float | None:
    """A number of the evidence, None where it is missing or means nothing."""
    try:
        value = float(evidence[key])  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
