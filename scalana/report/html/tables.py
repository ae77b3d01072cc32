"""Tables of the page: places, regions, and modules of models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scalana.report import compiled, modules, names, overview, regions
from scalana.report.html.markup import Content, Markup, element, lines, table
from scalana.report.paint import Paint

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis


def hot(analysis: Analysis) -> Markup | None:
    """The places with the most time of their own."""
    found = overview.hot_table(analysis)
    if found is None:
        return None
    several, rows = analysis.ppg.run.ranks > 1, []
    for place, where in zip(found.places, found.where, strict=True):
        parts = (place.work_s, place.stall_s, place.wait_s, place.transfer_s)
        cells: list[Content] = [
            element("code", where),
            place.name,
            names.percent(place.time_s / found.whole_s),
            *(overview.amount(part, place.time_s) for part in parts),
        ]
        rows.append(cells + ([f"{names.amount(place.least_s)}..{names.amount(place.most_s)}"] if several else []))
    head = ["place", "in", "share", "work", "stalled", "waiting", "transfer", *(["least..most"] if several else [])]
    below = [text for text in (overview.outside(analysis), overview.servers(analysis)) if text]
    return lines(
        element("p", f"{found.of[0].upper()}{found.of[1:]}.", class_="soft"),
        table(head, rows, frozenset((0, 1))),
        *(element("p", text) for text in below),
    )


def named_regions(analysis: Analysis) -> Markup | None:
    """The regions that the program names."""
    rows: list[list[Content]] = []
    for region in analysis.regions[: regions.MOST_REGIONS]:
        seconds, wait_s = regions.of_recorded(analysis, region)
        amounts = (float(seconds.min()), float(np.median(seconds)), float(seconds.max()))
        wait = overview.amount(float(wait_s.mean()), float(seconds.mean()))
        cells: list[Content] = [" / ".join(region.path), *map(names.amount, amounts), wait, str(region.count)]
        rows.append(cells)
    if not rows:
        return None
    more = len(analysis.regions) - len(rows)
    return lines(
        element("p", "Seconds of a rank.", class_="soft"),
        table(["region", "least", "median", "most", "waiting", "times"], rows, frozenset((0,))),
        element("p", f"and {more} more: see the JSON report", class_="soft") if more else None,
    )


def of_modules(analysis: Analysis) -> Markup | None:
    """The modules of PyTorch, as the text report sets them."""
    text = modules.table(analysis, 110, Paint(False))
    return element("pre", "\n".join(text[1:]), class_="plain", tabindex="0") if text else None


def of_compiled(analysis: Analysis) -> Markup | None:
    """Compiled code, likewise."""
    text = compiled.table(analysis, 110, Paint(False))
    return element("pre", "\n".join(text[1:]), class_="plain", tabindex="0") if text else None
