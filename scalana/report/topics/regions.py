"""The regions that the user named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.when.region_times import REGIONS, RegionTime
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Row, Section, Table, Tone, section, texts
from scalana.report.topics.places import amount
from scalana.report.values import plain

MOST_REGIONS = 12
"""Shown; the JSON report has all."""

_COLUMNS = (
    Column("least", 7),
    Column("median", 7),
    Column("most", 7),
    Column("waiting", 7, tone=Tone.WAITING),
    Column("times", 7),
    Column("region", is_text=True, leads=True, tone=Tone.PLACE),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """A row for every region: seconds of the rank that is in it least, in the middle, most, and waiting in it."""
    regions = analysis.section(REGIONS)
    if not regions:
        return []
    rows = []
    for region in regions[:MOST_REGIONS]:
        seconds, wait_s = _of_recorded(analysis, region)
        amounts = (names.amount(float(value)) for value in (seconds.min(), np.median(seconds), seconds.max()))
        wait = amount(float(wait_s.mean()), float(seconds.mean()))
        name = Cell(region.path[-1], indent=len(region.path) - 1, full=" / ".join(region.path))
        rows.append(Row((*amounts, wait, str(region.count), name)))
    more = len(regions) - MOST_REGIONS
    notes = texts(f"and {more} more: see the JSON report" if more > 0 else "")
    return [section("regions", "Regions", "seconds of a rank", Table(_COLUMNS, tuple(rows), notes))]


def entries(analysis: Analysis) -> dict[str, Any]:
    """Every region, for the JSON report."""
    regions = analysis.section(REGIONS)
    return {"regions": [_entry(region, analysis) for region in regions]} if regions else {}


def _entry(region: RegionTime, analysis: Analysis) -> dict[str, Any]:
    seconds, wait_s = _of_recorded(analysis, region)
    return {
        "name": region.path[-1],
        "path": list(region.path),
        "count": region.count,
        "least_s": plain(float(seconds.min())),
        "median_s": plain(float(np.median(seconds))),
        "most_s": plain(float(seconds.max())),
        "wait_s": plain(float(wait_s.sum())),
    }


def _of_recorded(analysis: Analysis, region: RegionTime) -> tuple[np.ndarray, np.ndarray]:
    """Seconds in a region, and of waiting in it, of the ranks that have a record ``[ranks with a record]``."""
    there = np.unique(analysis.ppg.timeline.locations.rank)
    return (region.seconds[there], region.wait_s[there]) if len(there) else (region.seconds, region.wait_s)
