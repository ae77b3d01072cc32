"""Elements of drawings: numbers are written short, and a drawing says what it shows."""

from __future__ import annotations

from scalana.report.html.markup import Content, Markup, element


def shape(tag: str, *content: Content, **attributes: str | float | None) -> Markup:
    """An element of SVG, whose attributes may be numbers.

    >>> shape("rect", x=1.0, width=2 / 3, class_="step")
    '<rect x="1" width="0.67" class="step"></rect>'
    """
    return element(tag, *content, **{name: _short(value) for name, value in attributes.items()})


def label(words: str, x: float, y: float, anchor: str = "start") -> Markup:
    """Words at a point, which is where they begin, their "middle" or their "end"."""
    return shape("text", words, x=x, y=y, text_anchor=anchor)


def drawing(width: float, height: float, says: str, *content: Content) -> Markup:
    """A drawing as wide as there is room, in a box that scrolls where there is little."""
    picture = shape("svg", *content, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=says)
    return element("div", picture, class_="columns", tabindex="0", role="region", aria_label=says)


def _short(value: str | float | None) -> str | None:
    return value if value is None or isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
