"""The regions that the user named, as reports tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import names
from scalana.report.paint import Paint, clip, rule

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.when.regions import RegionTime

MOST_REGIONS = 12
"""Shown in the text; the JSON report has all."""


def table(analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """A row for every region: seconds of the rank that is in it least, in the middle, most, and waiting in it."""
    if not analysis.regions:
        return []
    left, line, right = rule("Regions", "seconds of a rank", width)
    head = f"  {'least':>7} {'median':>7} {'most':>7} {'waiting':>7} {'times':>7}  region"
    rows = []
    for region in analysis.regions[:MOST_REGIONS]:
        seconds, wait_s = of_recorded(analysis, region)
        amounts = (seconds.min(), float(np.median(seconds)), seconds.max())
        cells = " ".join(f"{names.amount(float(value)):>7}" for value in amounts)
        waiting = float(wait_s.mean())
        wait = f"{names.amount(waiting) if waiting > 0.005 * float(seconds.mean()) else '·':>7}"
        name = "  " * (len(region.path) - 1) + region.path[-1]
        styled = paint(wait, "red") if wait.strip() != "·" else wait
        rows.append(f"  {cells} {styled} {region.count:>7}  " + paint(clip(name, max(width - 44, 8)), "cyan"))
    more = len(analysis.regions) - MOST_REGIONS
    if more > 0:
        rows.append(f"  and {more} more: see the JSON report")
    return [paint(left, "bold") + paint(line + right, "dim"), paint(head, "dim"), *rows]


def of_recorded(analysis: Analysis, region: RegionTime) -> tuple[np.ndarray, np.ndarray]:
    """Seconds in a region, and of waiting in it, of the ranks that have a record ``[ranks with a record]``."""
    there = np.unique(analysis.ppg.timeline.locations.rank)
    return (region.seconds[there], region.wait_s[there]) if len(there) else (region.seconds, region.wait_s)
