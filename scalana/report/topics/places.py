"""The places with the most time of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.server_waits import seconds_of
from scalana.detectors.when.steady import STEADY
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Facts, Fit, Row, Section, Table, Tone, section, texts
from scalana.report.topics.hot import HotPlace, hot_places, seconds_by_place

_MOST_PLACES = 8
_LEAST_SHARE = 0.005
"""Of the rank-seconds: places below are left out of the table."""

_MOST_OUTSIDE = 3
_LARGE_OUTSIDE = 0.1
"""Of the time apart from the steps: places below are not named."""

_COLUMNS = (
    Column("share", 6),
    Column("work", 7, is_spared=True),
    Column("stalled", 7, is_spared=True, tone=Tone.STALLED),
    Column("waiting", 7, is_spared=True, tone=Tone.WAITING),
    Column("transfer", 8, is_spared=True),
    Column("least..most", 13),
    Column("place", is_text=True, leads=True, fit=Fit.CLIP_LEFT, tone=Tone.PLACE),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """The table of places by time."""
    found = hot_table(analysis)
    if found is None:
        return []
    several = analysis.ppg.run.ranks > 1
    rows = [_row(place, where, found.whole_s, several) for place, where in zip(found.places, found.where, strict=True)]
    below = Facts(texts(outside(analysis), servers(analysis)), hangs=True)
    return [section("places", "Where the time goes", found.of, Table(_COLUMNS, tuple(rows)), below)]


def _row(place: HotPlace, where: str, whole_s: float, several: bool) -> Row:
    parts = (place.work_s, place.stall_s, place.wait_s, place.transfer_s)
    return Row(
        (
            names.percent(place.time_s / whole_s),
            *(amount(part, place.time_s) for part in parts),
            f"{names.amount(place.least_s)}..{names.amount(place.most_s)}" if several else "",
            Cell(where, f" {place.name}" if place.name else ""),
        )
    )


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
    ppg, steady = analysis.ppg, analysis.section(STEADY)
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
    steady = analysis.section(STEADY)
    if steady is None or analysis.window is not None:
        return ""
    ppg = analysis.ppg
    places = seconds_by_place(steady.outside["time_s"], ppg)
    whole = sum(seconds for *_, seconds in places)
    if whole <= 0.0:
        return ""
    shown = [place for place in places if place[3] >= _LARGE_OUTSIDE * whole][:_MOST_OUTSIDE]
    files = names.shortest(names.relative(file, ppg.run.cwd) for file, *_ in shown)
    parts = [
        f"{names.place(files[names.relative(file, ppg.run.cwd)], line)} {name}".rstrip() + f" {names.seconds(seconds)}"
        for file, line, name, seconds in shown
    ]
    return f"outside the steps: {names.seconds(whole)}" + (", including " + ", ".join(parts) if parts else "")


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
    what = "waiting for servers without a record (part of stalled; average rank, whole run)"
    return f"{what}: {', '.join(shown)}{more}"


def amount(value: float, of: float) -> str:
    """A cell of the table; a dot for what is next to nothing in the row's time."""
    return names.amount(value) if value > 0.005 * of else "·"
