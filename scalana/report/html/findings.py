"""Findings on the page: the first of them as the verdict, and each with source, path, advice and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.detectors.kinds import kind_of
from scalana.report import finding_text, names, overview
from scalana.report.document import finding_entry
from scalana.report.html.growth import growth
from scalana.report.html.markup import Content, Markup, element, join, lines
from scalana.report.source import excerpt

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding
    from scalana.graphs.run_info import RunInfo

_MOST_VALUES = 12
"""Of a list in the evidence; the JSON report has all."""
MOST_FINDINGS = 40
"""That are shown; what comes after them stands in the JSON report."""
_OPEN = 3
"""Findings that are unfolded at first."""


def verdict(finding: Finding, run: RunInfo) -> Markup:
    """The most expensive cause: which line, on which rank, how much, and what comes back; then what it rests on."""
    said, *more = finding_text.sentences(finding, run)
    return element(
        "div",
        element("div", f"Root cause · {run.names.many(finding.ranks, run.ranks)}", class_="kicker"),
        element("h2", _place(finding, run), class_="place"),
        element("p", said, class_="claim"),
        _figures(finding, run),
        _source(finding, run),
        _advice(finding),
        _chain(finding, run),
        *(element("p", sentence) for sentence in more),
        growth(finding),
        _inside(finding, run),
        _evidence(finding, run),
        class_="verdict",
        id="finding-1",
    )


def quiet(first: str, text: str) -> Markup:
    """That nothing was found, in the words of :func:`scalana.report.overview.nothing`."""
    return element(
        "div",
        element("div", "No finding", class_="kicker"),
        element("p", element("b", first), text, class_="claim"),
        class_="verdict good",
        id="no-finding",
    )


def others(findings: list[Finding], run: RunInfo) -> Markup:
    """All findings but the first, the most expensive first; of very many, the smallest are counted."""
    shown = findings[1:MOST_FINDINGS]
    rest = overview.rest(findings[MOST_FINDINGS:])
    return lines(
        *(card(number, finding, run) for number, finding in enumerate(shown, 2)),
        element("p", rest, class_="soft") if rest else None,
    )


def card(number: int, finding: Finding, run: RunInfo) -> Markup:
    """One finding, which unfolds."""
    right = f"{names.percent(finding.lost_share)} of all waiting" if finding.lost_share > 0 else finding.kind
    said, *more = finding_text.sentences(finding, run)
    name = element("span", f"{number}  ", _place(finding, run), class_="name")
    ranks = element("span", f" · {run.names.many(finding.ranks, run.ranks)}", class_="soft")
    return element(
        "details",
        element(
            "summary",
            element("span", name, ranks, element("span", said, class_="said")),
            element("span", right, class_="right"),
        ),
        *(element("p", sentence) for sentence in more),
        growth(finding),
        _source(finding, run),
        _advice(finding),
        _chain(finding, run),
        _inside(finding, run),
        _evidence(finding, run),
        class_="finding",
        id=f"finding-{number}",
        open="" if number <= _OPEN else None,
    )


def _place(finding: Finding, run: RunInfo) -> Markup:
    where = names.place(names.near(finding.file, run.cwd), finding.line)
    return join(where, element("span", f" {finding.function}", class_="fn") if finding.function else None)


def _figures(finding: Finding, run: RunInfo) -> Markup:
    """The numbers that matter; the sentence with them is in the finding's own block."""
    unit = kind_of(finding.kind).unit
    shown = [(names.rank_seconds(finding.lost_s), unit)] if finding.lost_s > 0 else []
    if finding.lost_share > 0:
        shown.append((names.percent(finding.lost_share), "of all waiting"))
    if finding.saving_s > 0:
        most = "at most " if finding.evidence.is_bound else ""
        share = f" ({names.percent(finding.saving_s / run.seconds)})" if run.seconds else ""
        shown.append((f"{most}{names.seconds(finding.saving_s)}", f"shorter if mended{share}"))
    return element("ul", *(element("li", element("b", a), element("span", b)) for a, b in shown), class_="figures")


def _source(finding: Finding, run: RunInfo) -> Markup | None:
    rows = excerpt(finding.file, finding.line, finding.end_line)
    if not rows:
        return None
    digits = len(str(rows[-1].number))
    code = [
        element(
            "span",
            f"{'▸' if row.marked else ' '} {row.number:>{digits}} │ {row.text}",
            class_="here" if row.marked else None,
        )
        for row in rows
    ]
    where = names.place(names.near(finding.file, run.cwd), finding.line)
    box = element("div", *code, class_="source mono", tabindex="0", role="region", aria_label=f"source of {where}")
    changed = finding_text.source_changed(finding, run)
    return join(box, element("p", "(the file has changed since the run)", class_="soft") if changed else None)


def _inside(finding: Finding, run: RunInfo) -> Markup | None:
    """Where inside the place, and who calls it."""
    rows: list[Markup] = []
    leaf, (where, tail) = finding_text.leaf(finding, run.cwd), finding_text.library(finding, run.cwd)
    for text in filter(None, (leaf, where + tail)):
        rows += [element("dt", "inside it"), element("dd", element("code", text))]
    callers = finding_text.callers(finding, run.cwd)
    if callers:
        called = [element("code", caller) for caller in callers]
        between: list[Content] = [called[0]]
        for one in called[1:]:
            between += [element("br"), one]
        rows += [element("dt", "called from"), element("dd", *between)]
    return element("dl", *rows) if rows else None


def _chain(finding: Finding, run: RunInfo) -> Markup | None:
    hops = finding_text.chain(finding, run)
    if not hops:
        return None
    items: list[Markup] = []
    shown = finding_text.shortened(hops)
    for number, hop in enumerate(shown):
        last = number == len(shown) - 1
        if last and len(shown) < len(hops):
            more = f"{len(hops) - len(shown)} more hops"
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


def _advice(finding: Finding) -> Markup | None:
    return element("p", f"→ {finding.advice}", class_="advice") if finding.advice else None


def _evidence(finding: Finding, run: RunInfo) -> Markup:
    """The numbers as in the JSON report."""
    entry = finding_entry(finding, run.cwd, run.names)
    claimed = {name: entry[name] for name in ("kind", "ranks", "lost_s", "lost_share", "saving_s")}
    rows: list[Markup] = []
    for name, value in {**claimed, **entry["evidence"]}.items():
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
