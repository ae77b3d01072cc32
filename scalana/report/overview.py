"""What the head of a report and its table of places say, before they are set as text or as a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalana.detectors.when.servers import seconds_of
from scalana.report import names
from scalana.report.hot import HotPlace, hot_places, seconds_by_place

if TYPE_CHECKING:
    from scalana.detectors.account import TimeSplit
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.finding import Finding

_MOST_PLACES = 8
_LEAST_SHARE = 0.005
"""Of the rank-seconds: places below are left out of the table."""

_MOST_OUTSIDE = 3
_LARGE_OUTSIDE = 0.1
"""Of the time apart from the steps: places below are not named."""

PARTS = {
    "work_s": "work",
    "stall_s": "stalled",
    "wait_s": "waiting",
    "transfer_s": "transfer",
    "other_s": "other",
}
"""Of rank-seconds, in the order in which they are shown, and what they are called."""


def facts(analysis: Analysis) -> list[str]:
    """How many ranks, how long, how it ended, and how it was sampled."""
    run = analysis.ppg.run
    told = [run.names.count(run.ranks), names.seconds(run.seconds or 0.0)]
    if run.ranks > 1:
        told.append(names.rank_seconds(analysis.time.total_s))
    told.append(_ending(run.exit_code))
    if run.rate_hz:
        told.append(f"{run.rate_hz:g} samples a second")
    return [fact for fact in told if fact]


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if 128 < exit_code < 160:
        return f"ended by signal {exit_code - 128}"
    return f"exit code {exit_code}"


def shown_time(analysis: Analysis) -> TimeSplit:
    """The rank-seconds that are divided: of the steady state, where there is one."""
    return analysis.time if analysis.steady is None else analysis.steady.time


def nothing(analysis: Analysis, table: bool) -> tuple[str, str]:
    """That there is no finding, and why; "" and "" where no time was recorded. ``table``: places are listed."""
    time = shown_time(analysis)
    if time.total_s <= 0:
        return "", ""
    run = analysis.ppg.run
    first = "Nothing stands out: "
    if run.ranks == 1:
        text = "there is one rank, which waits for no other."
    elif not len(analysis.ppg.timeline.calls):
        first, text = "Nothing can be told of waiting: ", "no communication between the ranks was recorded."
    else:
        if time.wait_s <= 0.0005 * time.total_s:
            text = "no rank made another one wait."
        else:
            text = (
                f"ranks waited for each other {names.percent(time.wait_s / time.total_s)} of the time"
                f"{'' if analysis.steady is None else ' in the steps'}, and no line of the program on particular ranks "
                "explains a noticeable part of it."
            )
        if run.notes or run.missing_ranks:
            first = "Nothing stands out in what was recorded: "
            text += " But not all was recorded, as the warnings say: a cause may lie in what was not."
    text += " The table shows where the time goes." if table else ""
    return first, text


def rest(findings: list[Finding]) -> str:
    """How many findings are not shown, and what they cost; "" where all are."""
    if not findings:
        return ""
    causes = "one smaller cause" if len(findings) == 1 else f"{len(findings)} smaller causes"
    lost_s = sum(finding.lost_s for finding in findings)
    return f"And {causes}, {names.seconds(lost_s)} of waiting together: see the JSON report."


@dataclass(frozen=True, slots=True)
class HotTable:
    """The places with the most time of their own."""

    places: list[HotPlace]
    where: list[str]
    """File and line of each, as short as they are clear."""
    whole_s: float
    """Seconds of an average rank, of which they are parts."""
    of: str
    """What the seconds are of."""


def hot_table(analysis: Analysis) -> HotTable | None:
    """Places by time, seconds of an average rank; those of the steady state, where there is one."""
    ppg, steady = analysis.ppg, analysis.steady
    places = hot_places(ppg.metrics, ppg, steady.outside if steady is not None else None)
    whole = float(ppg.run.seconds or 0.0) if steady is None else steady.time.total_s / max(ppg.run.ranks, 1)
    whole = max(whole, sum(place.time_s for place in places))
    shown = [place for place in places if place.time_s >= _LEAST_SHARE * whole][:_MOST_PLACES]
    if not shown or whole <= 0:
        return None
    of = "seconds of an average rank" if steady is None else "in the steps, seconds of an average rank"
    files = names.shortest(names.relative(place.file, ppg.run.cwd) for place in shown)
    where = [names.place(files[names.relative(place.file, ppg.run.cwd)], place.line, place.end_line) for place in shown]
    return HotTable(shown, where, whole, of)


def outside(analysis: Analysis) -> str:
    """What ranks did in start-up and end, and between steps; "" where there is nothing to tell."""
    if analysis.steady is None or analysis.window is not None:
        return ""
    ppg = analysis.ppg
    places = seconds_by_place(analysis.steady.outside["time_s"], ppg)
    whole = sum(seconds for *_, seconds in places)
    if whole <= 0.0:
        return ""
    shown = [place for place in places if place[3] >= _LARGE_OUTSIDE * whole][:_MOST_OUTSIDE]
    files = names.shortest(names.relative(file, ppg.run.cwd) for file, *_ in shown)
    parts = [
        f"{names.place(files[names.relative(file, ppg.run.cwd)], line)} {name}".rstrip() + f" {names.seconds(seconds)}"
        for file, line, name, seconds in shown
    ]
    return f"apart from the steps: {names.seconds(whole)}" + (", of it " + ", ".join(parts) if parts else "")


def servers(analysis: Analysis) -> str:
    """How long an average rank waited for servers without a record, a part of what it is stalled; "" for not at all."""
    ppg = analysis.ppg
    seconds = {
        name: value
        for name, value in seconds_of(ppg.servers, ppg.run.ranks, list(range(ppg.run.ranks))).items()
        if value >= _LEAST_SHARE * float(ppg.run.seconds or 0.0)
    }
    if not seconds or analysis.window is not None:
        return ""
    shown = [f"{name} {names.seconds(value)}" for name, value in list(seconds.items())[:_MOST_OUTSIDE]]
    more = f", {len(seconds) - len(shown)} more" if len(seconds) > len(shown) else ""
    what = "waiting for servers without a record, in the whole run, told as stalled, a rank on average"
    return f"{what}: {', '.join(shown)}{more}"


def amount(value: float, of: float) -> str:
    """A cell of the table; a dot for what is nothing beside the row's time."""
    return names.amount(value) if value > 0.005 * of else "·"
