"""Bars whose parts add up, with their legend. Parts differ by pattern too, and each says what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalana.report import names
from scalana.report.document.pictures import Bars
from scalana.report.html.markup import Markup, element, join, lines

PALETTE = tuple("green amber red blue gray teal violet brown pink olive navy lime rust plum".split())
"""Classes of the style sheet, each a colour with a pattern of its own."""

LEAST = 0.0005
"""Of the whole: parts below are not in the legend."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bar."""

    name: str
    seconds: float
    style: str
    """One of :data:`PALETTE`."""


def bar(parts: Sequence[Part], whole_s: float, label: str = "") -> Markup:
    """Parts next to each other, in all as wide as they are of ``whole_s``."""
    pieces = [
        element(
            "span",
            class_=f"part {part.style}",
            style=f"width:{100 * max(part.seconds, 0.0) / whole_s:.3f}%",
            title=f"{part.name} {names.seconds(part.seconds)} ({names.percent(part.seconds / whole_s)})",
        )
        for part in parts
        if whole_s > 0 and part.seconds > 0
    ]
    said = f"{label}: " if label else ""
    said += ", ".join(f"{part.name} {names.seconds(part.seconds)}" for part in parts if part.seconds > 0)
    return element("div", *pieces, class_="bar", role="img", aria_label=said)


def legend(parts: Sequence[Part], whole_s: float) -> Markup:
    """What the parts are, how much, and how large a share."""
    rows = [
        element(
            "li",
            element("span", class_=f"key {part.style}", aria_hidden="true"),
            join(
                f"{part.name} ", element("b", names.percent(part.seconds / whole_s)), f" {names.seconds(part.seconds)}"
            ),
        )
        for part in parts
        if whole_s > 0 and abs(part.seconds) >= LEAST * whole_s
    ]
    return element("ul", *rows, class_="legend")


def bars_markup(bars: Bars) -> Markup:
    """The caption, and a bar a row."""
    rows = []
    for row in bars.rows:
        parts = [
            Part(name, seconds, style) for name, seconds, style in zip(bars.names, row.seconds, PALETTE, strict=False)
        ]
        kind, mark = ("late", "▸ ") if row.is_marked else (None, "")
        who = element("span", f"{mark}{row.name}", class_=kind)
        cells = who, bar(parts, bars.whole_s, row.name), element("span", row.note, class_="num")
        rows.append(element("div", *cells, class_="rank"))
    return lines(element("p", bars.caption, class_="soft"), element("div", lines(*rows), class_="ranks"))
