"""The sentence that says what ranks do at the place of a finding, from the row of its kind."""

from __future__ import annotations

import math
import re

from scalana.detectors.evidence import Turn
from scalana.detectors.finding import Finding
from scalana.detectors.kind import Kind
from scalana.detectors.kinds import kind_of
from scalana.detectors.thresholds.shares import FLOOR
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report import names

SIMILAR = 1.05
"""Times as long as others, below which a rank does not spend more over the run."""

MOST_NAMED = 4
"""Ranks up to which it is said of each how long the others wait for it."""

_TURNS = 4
"""Rounds that are listed."""
UNNAMED = ProcessNames()
"""Of one world."""

_FIELD = re.compile(r"\{([^{}]+)\}")


def claim(finding: Finding, ranks: int, processes: ProcessNames = UNNAMED) -> str:
    """What ranks do here, as a sentence. ``ranks`` is how many processes the job has, ``processes`` their names."""
    kind = kind_of(finding.kind)
    place = finding.evidence.place
    here, others = (place.seconds_here, place.seconds_others) if place is not None else (None, None)
    if turns := finding.evidence.turns:
        return _one_after_the_other(turns, processes.many(finding.ranks, ranks), processes)
    if here is not None and kind.compares:
        return _comparison(finding, processes.placed(finding.ranks, ranks), here, others, processes)
    text = filled(kind, finding, ranks, processes)
    if here is not None and kind.spends:
        text += f" ({names.seconds(here)}{'' if others is None else f', the others {names.seconds(others)}'})"
    return f"{text}."


def filled(kind: Kind, finding: Finding, ranks: int, processes: ProcessNames = UNNAMED) -> str:
    """The first claim of a kind that the evidence of a finding allows, with the values put in."""
    evidence = finding.evidence.as_dict()
    text = next(claim.text for claim in kind.claims if all(evidence.get(key) for key in claim.needs))
    who, several = processes.placed(finding.ranks, ranks), len(set(finding.ranks)) > 1

    def value(field: re.Match[str]) -> str:
        what, _, key = field.group(1).partition(":")
        if what in ("ranks", "Ranks") and not key:
            return who if what == "ranks" else who[0].upper() + who[1:]
        if what == "seconds":
            return names.seconds(_amount(evidence.get(key)))
        if what == "count":
            return f"{_amount(evidence.get(key)):.0f}"
        if what == "percent":
            return names.percent(_amount(evidence.get(key)))
        if what == "rate":
            return names.rate(_amount(evidence.get(key)))
        if what == "times":
            return _times(_amount(evidence.get(key)))
        if what == "ratio":
            return f"{_amount(evidence.get(key)):.3g}"
        if what in ("ranks", "Ranks"):
            named = processes.many(evidence[key], ranks)
            return named if what == "ranks" else named[0].upper() + named[1:]
        if what == "text":
            return str(evidence[key])
        one, _, many = what.partition("|")
        return many if several else one

    return _FIELD.sub(value, text)


def _one_after_the_other(turns: list[Turn], who: str, processes: ProcessNames) -> str:
    """Who does it when, of ranks that take turns."""
    shown = [
        f"{processes.many(turn.ranks)} at {names.seconds(turn.begin_s)} for {names.seconds(turn.seconds)}"
        for turn in turns[:_TURNS]
    ]
    more = f", and {len(turns) - _TURNS} more rounds" if len(turns) > _TURNS else ""
    return f"{who[0].upper()}{who[1:]} do this one after the other, and the others wait: {', then '.join(shown)}{more}."


def _amount(value: float | None) -> float:
    """A number of the evidence; 0 where it means nothing."""
    return value if value is not None and math.isfinite(value) else 0.0


def _comparison(finding: Finding, who: str, here: float, others: float | None, processes: ProcessNames) -> str:
    """What the ranks of a finding (``who``) spend at its place, compared with the others."""
    who = who[0].upper() + who[1:]
    several = len(set(finding.ranks)) > 1
    text = f"{who} spends {names.seconds(here)} here"
    if several:
        text = f"{who} spend {names.seconds(here)} here on average"
    tasks = finding.evidence.large_tasks
    if tasks is not None:
        where, longer = " on one rank after another" if several else "", names.seconds(tasks.large_tasks_over_s)
        return f"{text}: {tasks.large_tasks} tasks{where} take {longer} longer than usual."
    if finding.evidence.whole_role:
        return f"{text}, each as long as the others, while other processes wait for them."
    if finding.evidence.drifts and several:
        return f"{text}, each far more than the others during a part of the run."
    instead = finding.evidence.instead
    if instead is not None and others is not None and others <= FLOOR * here:
        return f"{text}; the others spend {names.seconds(instead.seconds)} in `{instead.function}` instead."
    if others is None:
        return f"{text}{_caused(finding, processes)}." if several else f"{text}."
    if others <= FLOOR * here:
        return f"{text}, the others next to nothing."
    place, leaf = finding.evidence.place, finding.evidence.leaf
    if place is not None and place.others_elsewhere and leaf is not None:
        return f"{text}; the others spend {names.seconds(others)} in other calls of `{leaf.function}`."
    ratio = here / others
    if ratio < SIMILAR:
        more = "no more in total" if ratio > 1 / SIMILAR else "less in total"
        return f"{text}, the others {names.seconds(others)}: {more}, but while the others wait."
    return f"{text}, the others {names.seconds(others)}: {_times(ratio)} times as long."


def _times(factor: float) -> str:
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"


def _caused(finding: Finding, processes: ProcessNames) -> str:
    """How much waiting each rank causes, where all are named and these are few."""
    known = sorted(zip(finding.evidence.caused_s or [], finding.ranks, strict=False), reverse=True)
    if not 1 < len(known) <= MOST_NAMED:
        return ", and each of them makes the others wait at some time"
    (most_s, worst), *more = known
    rest = "".join(f", {processes.one(rank)} {names.rank_seconds(seconds)}" for seconds, rank in more)
    return f"; {processes.one(worst)} causes {names.rank_seconds(most_s)} of waiting{rest}"
