"""Findings on the page: the first of them as the verdict, and each with source, path, advice and evidence."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.report import names
from scalana.report.document.finding import Cause, shortened
from scalana.report.html.columns import columns_markup
from scalana.report.html.markup import Content, Markup, element, join, lines, prose

_MOST_VALUES = 12
"""Of a list in the evidence; the JSON report has all."""
_OPEN = 3
"""Findings that are unfolded at first."""


def verdict(cause: Cause) -> Markup:
    """The most expensive cause: which line, on which rank, how much, and what comes back; then what it rests on."""
    said, *more = cause.sentences
    figures = (element("li", element("b", amount), element("span", what)) for amount, what in cause.figures)
    return element(
        "div",
        element("div", f"Root cause · {cause.ranks}", class_="kicker"),
        element("h2", _place(cause), class_="place"),
        element("p", prose(said), class_="claim"),
        element("ul", *figures, class_="figures"),
        _source(cause),
        _advice(cause),
        _chain(cause),
        *(element("p", prose(sentence)) for sentence in more),
        columns_markup(cause.growth) if cause.growth is not None else None,
        _inside(cause),
        _evidence(cause),
        class_="verdict",
        id="finding-1",
    )


def quiet(kicker: str, first: str, text: str) -> Markup:
    """A sentence about the run as a whole: that nothing was found, and why, or what would help most."""
    return element(
        "div",
        element("div", kicker, class_="kicker"),
        element("p", element("b", prose(first)), prose(text), class_="claim"),
        class_="verdict good",
        id=kicker.lower().replace(" ", "-"),
    )


def others(causes: Sequence[Cause], rest: str) -> Markup:
    """All findings but the first, the most expensive first; ``rest`` counts those that are not shown."""
    return lines(
        *(card(number, cause) for number, cause in enumerate(causes[1:], 2)),
        element("p", prose(rest), class_="soft") if rest else None,
    )


def card(number: int, cause: Cause) -> Markup:
    """One finding, which unfolds."""
    said, *more = cause.sentences
    name = element("span", f"{number}  ", _place(cause), class_="name")
    ranks = element("span", f" · {cause.ranks}", class_="soft")
    return element(
        "details",
        element(
            "summary",
            element("span", name, ranks, element("span", prose(said), class_="said")),
            element("span", cause.share, class_="right"),
        ),
        *(element("p", prose(sentence)) for sentence in more),
        columns_markup(cause.growth) if cause.growth is not None else None,
        _source(cause),
        _advice(cause),
        _chain(cause),
        _inside(cause),
        _evidence(cause),
        class_="finding",
        id=f"finding-{number}",
        open="" if number <= _OPEN else None,
    )


def _place(cause: Cause) -> Markup:
    return join(cause.place, element("span", f" {cause.function}", class_="fn") if cause.function else None)


def _source(cause: Cause) -> Markup | None:
    if not cause.source:
        return None
    digits = len(str(cause.source[-1].number))
    code = [
        element(
            "span",
            f"{'▸' if row.marked else ' '} {row.number:>{digits}} │ {row.text}",
            class_="here" if row.marked else None,
        )
        for row in cause.source
    ]
    says = f"source of {cause.place}"
    box = element("div", *code, class_="source mono", tabindex="0", role="region", aria_label=says)
    changed = cause.is_source_changed
    return join(box, element("p", "(the file has changed since the run)", class_="soft") if changed else None)


def _inside(cause: Cause) -> Markup | None:
    """Where inside the place the time is spent, and the callers of the place."""
    rows: list[Markup] = []
    for one in cause.inside:
        rows += [element("dt", "inside it"), element("dd", element("code", one.place + one.text))]
    if cause.callers:
        called = [element("code", caller) for caller in cause.callers]
        between: list[Content] = [called[0]]
        for caller in called[1:]:
            between += [element("br"), caller]
        rows += [element("dt", "called from"), element("dd", *between)]
    return element("dl", *rows) if rows else None


def _chain(cause: Cause) -> Markup | None:
    if not cause.path:
        return None
    items: list[Markup] = []
    shown = shortened(cause.path)
    for number, hop in enumerate(shown):
        last = number == len(shown) - 1
        if last and len(shown) < len(cause.path):
            more = f"{len(cause.path) - len(shown)} more hops"
            items.append(element("li", element("div", more, class_="hop soft")))
        amount = f": {names.seconds(hop.wait_s)}" if hop.wait_s > 0 else ""
        box = element(
            "div",
            element("b", f"{hop.who} {hop.what}{amount}"),
            element("code", hop.place + (f" {hop.function}" if hop.function else "")),
            class_="hop",
        )
        items.append(element("li", box, class_="root" if last else None))
    return join(element("h3", "From the symptom to the cause"), element("ol", *items, class_="chain"))


def _advice(cause: Cause) -> Markup | None:
    return element("p", prose(f"→ {cause.advice}"), class_="advice") if cause.advice else None


def _evidence(cause: Cause) -> Markup:
    """The numbers as in the JSON report."""
    rows: list[Markup] = []
    for name, value in cause.evidence.items():
        rows += [element("dt", element("code", name)), element("dd", element("code", _value(value)))]
    return element(
        "details", element("summary", "Evidence, as in the JSON report"), element("dl", *rows), class_="more"
    )


def _value(value: object) -> str:
    if isinstance(value, list):
        more = f" ... {len(value) - _MOST_VALUES} more" if len(value) > _MOST_VALUES else ""
        return ", ".join(map(_value, value[:_MOST_VALUES])) + more
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_value(one)}" for name, one in value.items())
    return "not known" if value is None else str(value)
