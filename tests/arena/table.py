"""What many random programs say together."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median

from .trial import Outcome


@dataclass(frozen=True)
class Summary:
    """Of some programs."""

    programs: int
    faulty: int
    right: int
    """First findings with the line and the ranks of the fault."""
    quiet: int
    """Balanced programs without a finding."""
    error_median: float | None
    """Of the seconds of what is right, relative."""
    error_90th: float | None
    load: float
    """On average."""

    @property
    def right_share(self) -> float:
        """Of the programs with a fault, in percent; 100 where there is none."""
        return 100.0 * self.right / self.faulty if self.faulty else 100.0

    @property
    def quiet_share(self) -> float:
        """Of the balanced programs, in percent; 100 where there is none."""
        balanced = self.programs - self.faulty
        return 100.0 * self.quiet / balanced if balanced else 100.0


def summary(outcomes: Sequence[Outcome]) -> Summary:
    """Add them up."""
    errors = sorted(outcome.error for outcome in outcomes if outcome.faulty and outcome.error is not None)
    return Summary(
        len(outcomes),
        sum(outcome.faulty for outcome in outcomes),
        sum(outcome.right for outcome in outcomes if outcome.faulty),
        sum(outcome.right for outcome in outcomes if not outcome.faulty),
        median(errors) if errors else None,
        errors[math.ceil(0.9 * len(errors)) - 1] if errors else None,
        round(fmean(outcome.load for outcome in outcomes), 1),
    )


def json_of(outcomes: Sequence[Outcome]) -> str:
    """For programs."""
    total = summary(outcomes)
    whole = {**asdict(total), "right_share": total.right_share, "quiet_share": total.quiet_share}
    return json.dumps({"summary": whole, "wrong": [asdict(one) for one in outcomes if not one.right]}, indent=1)


def markdown_of(outcomes: Sequence[Outcome]) -> str:
    """For people: the whole, and a line each for what is wrong."""
    total = summary(outcomes)
    rows = [
        ("programs", f"{total.programs}, {total.faulty} of them with a fault; load {total.load}"),
        ("first finding right (line and ranks)", f"{total.right} of {total.faulty} ({total.right_share:.1f} %)"),
        (
            "error of its seconds, median and 90th percentile",
            f"{_percent(total.error_median)}, {_percent(total.error_90th)}",
        ),
        ("quiet where balanced", f"{total.quiet} of {total.programs - total.faulty} ({total.quiet_share:.1f} %)"),
    ]
    lines = ["| | |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)]
    wrong = [one for one in outcomes if not one.right]
    if wrong:
        lines += ["", "| seed | program | planted | first finding |", "|---|---|---|---|"]
        lines += [f"| {one.seed} | {one.name} | {_planted(one)} | {one.said or 'none'} |" for one in wrong]
    return "\n".join(lines)


def _planted(outcome: Outcome) -> str:
    if not outcome.faulty:
        return "nothing"
    ranks, lines = ", ".join(map(str, outcome.ranks)), ", ".join(map(str, outcome.lines))
    return f"{ranks}: line {lines}, {outcome.true_s:.2f} s"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100.0 * value:.1f} %"
