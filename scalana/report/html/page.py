"""The whole page: the verdict first, then what it rests on. A pure function from an analysis to a string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scalana.report.contents import contents_of
from scalana.report.html import findings
from scalana.report.html.markup import Markup, element, lines, prose
from scalana.report.html.sections import sections_markup
from scalana.report.html.style import STYLE
from scalana.version import __version__

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.report.document.contents import Contents

MOST_FINDINGS = 40
"""That are shown; the others stand in the JSON report."""


def render(analysis: Analysis) -> str:
    """The report as one file of HTML: no script, and nothing is loaded. The same analysis gives the same bytes."""
    return draw(contents_of(analysis, MOST_FINDINGS, details=True))


def draw(contents: Contents) -> str:
    """What a report says, as a page."""
    causes = contents.causes
    quiet = findings.quiet("No finding", *contents.nothing) if contents.nothing[1] else None
    helps = findings.quiet("Known change", *contents.headline) if contents.headline[1] else None
    body = lines(
        helps,
        findings.verdict(causes[0]) if causes else quiet,
        _warnings(contents.warnings),
        element("h2", "Other root causes", id="findings") if len(causes) > 1 else None,
        findings.others(causes, contents.rest),
        *sections_markup(contents.sections),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"scalana: {contents.command}"),
        element("style", Markup(STYLE)),
    )
    top = element(
        "header",
        element("h1", "scalana"),
        element("code", contents.command, class_="command"),
        *(element("div", line, class_="soft") for line in contents.head),
        class_="top",
    )
    foot = element("footer", f"scalana {__version__}. The same numbers, for programs: scalana report --format json.")
    page = element("html", head, element("body", top, element("main", body), foot), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _warnings(messages: Sequence[str]) -> Markup | None:
    if not messages:
        return None
    word = "One warning" if len(messages) == 1 else f"{len(messages)} warnings"
    items = element("ul", *(element("li", prose(message)) for message in messages))
    return element("section", element("details", element("summary", word), items, open=""), class_="warnings")
