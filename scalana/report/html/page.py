"""The whole page: the verdict first, then what it rests on. A pure function from an analysis to a string."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from scalana.detectors.kinds import kind_of
from scalana.report import overview, sections
from scalana.report.document import by_loss, warnings
from scalana.report.html import accounts, findings, matrix, over_time, ranks, stepping, tables
from scalana.report.html.bars import bar, legend
from scalana.report.html.markup import Markup, element, join, lines
from scalana.report.html.style import STYLE
from scalana.version import __version__

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis


def render(analysis: Analysis) -> str:
    """The report as one file of HTML: no script, and nothing is loaded. The same analysis gives the same bytes."""
    run = analysis.ppg.run
    command = shlex.join(str(word) for word in run.command) or "(command not recorded)"
    places = tables.hot(analysis)
    faults = [finding for finding in by_loss(analysis.findings) if kind_of(finding.kind).is_fault]
    if faults:
        first: Markup | None = findings.verdict(faults[0], run)
    else:
        nothing = overview.nothing(analysis, places is not None)
        first = findings.quiet(*nothing) if nothing[1] else None
    body = lines(
        first,
        _warnings(warnings(analysis)),
        element("h2", "Other root causes", id="findings") if len(faults) > 1 else None,
        findings.others(faults, run),
        _section("Where the time of the ranks goes", "time", _time(analysis), ranks.section(analysis)),
        _section("Steps", "steps", stepping.section(analysis)),
        _section("Over time", "over-time", over_time.section(analysis, faults)),
        *(accounts.section_of(one.name, analysis) for one in sections.SECTIONS if one.name in analysis.sections),
        _section("Regions", "regions", tables.named_regions(analysis)),
        _section("Modules", "modules", tables.of_modules(analysis)),
        _section("Compiled code, by the lines that it came from", "compiled", tables.of_compiled(analysis)),
        _section("Places with the most time of their own", "places", places),
        _section("Places and ranks", "matrix", matrix.section(analysis)),
        _section("How it was recorded", "recorded", _recorded(analysis)),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"scalana: {command}"),
        element("style", Markup(STYLE)),
    )
    top = element(
        "header",
        element("h1", "scalana"),
        element("code", command, class_="command"),
        element("div", " · ".join(overview.facts(analysis)), class_="soft"),
        class_="top",
    )
    foot = element("footer", f"scalana {__version__}. The same numbers, for programs: scalana report --format json.")
    page = element("html", head, element("body", top, element("main", body), foot), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _section(title: str, name: str, *content: Markup | None) -> Markup | None:
    """A part of the page, where there is anything in it."""
    if not any(content):
        return None
    return element("section", element("h2", title), lines(*content), id=name)


def _warnings(messages: list[str]) -> Markup | None:
    if not messages:
        return None
    word = "One warning" if len(messages) == 1 else f"{len(messages)} warnings"
    items = element("ul", *(element("li", message) for message in messages))
    return element("section", element("details", element("summary", word), items, open=""), class_="warnings")


def _time(analysis: Analysis) -> Markup | None:
    time = overview.shown_time(analysis)
    if time.total_s <= 0:
        return element("p", "No time was recorded.")
    parts = ranks.parts_of([float(getattr(time, field)) for field in overview.PARTS])
    of = "All ranks, in the steps:" if analysis.steady is not None else "All ranks:"
    return lines(element("p", of), bar(parts, time.total_s, "all ranks"), legend(parts, time.total_s))


def _recorded(analysis: Analysis) -> Markup:
    run = analysis.ppg.run
    hosts = sorted({host for host in run.host_of_rank if host})
    rows = {
        "command": shlex.join(str(word) for word in run.command),
        "folder of the job": run.cwd,
        "begin": datetime.fromtimestamp(run.start_unix_s, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        if run.start_unix_s is not None
        else "",
        "samples": f"{run.rate_hz:g} a second and thread" if run.rate_hz else "",
        "hosts": ", ".join(hosts[:8]) + (f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""),
        "calls of communication": str(sum(run.calls_of_rank)) if run.calls_of_rank else "",
        "without a record": run.names.many(run.missing_ranks) if run.missing_ranks else "",
        "thinned": run.names.many(run.thinned_ranks, run.ranks) if run.thinned_ranks else "",
    }
    return element("dl", *(join(element("dt", name), element("dd", text)) for name, text in rows.items() if text))
