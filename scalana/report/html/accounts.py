"""Accounts of one kind of job, whose shares add up to the whole: one bar each, with its picture and its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalana.report import device, names, pipeline_text, pipeline_timeline, rl, rl_svg, sections
from scalana.report.html.bars import PALETTE, Part, bar, legend
from scalana.report.html.markup import Content, Markup, element, lines, table
from scalana.report.paint import Paint

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.device.account import DeviceAccount
    from scalana.detectors.pipeline.detector import Pipeline
    from scalana.detectors.rl.account import RLAccount

_LARGEST_PICTURE = 600_000
"""Characters of a picture from which on it is left out: the page is to stay small."""
_WIDTH = 110
"""Columns of tables that are set as text."""
_SMALL = 0.0005
"""Of the whole: rows below are left out."""


def section_of(name: str, analysis: Analysis) -> Markup:
    """One part of the report that a kind of job has; of a kind that this page does not know, as text."""
    data = analysis.sections[name]
    if name in _KNOWN:
        title, draw = _KNOWN[name]
        return element("section", element("h2", title), draw(data, analysis), id=name)
    section = next(one for one in sections.SECTIONS if one.name == name)
    return element("section", _text(section.text(data, analysis, _WIDTH, Paint(False))), id=name)


def _pipelines(pipelines: list[Pipeline], analysis: Analysis) -> Markup:
    made: list[Content] = []
    for number, pipeline in enumerate(pipelines):
        step_s = pipeline.diagnosis.attribution.step_s
        order = list(pipeline_text.MEANINGS)
        rows = [
            _Row(
                share.name,
                share.part * step_s,
                ("← " if share.blamed else "") + share.told,
                PALETTE[order.index(share.name)] if share.name in order else PALETTE[-1],
            )
            for share in pipeline_text.shares(pipeline, analysis.ppg.run.names)
        ]
        made += [
            element("h3", pipeline_text.title(pipeline)),
            element("p", " · ".join(pipeline_text.facts(pipeline, analysis.ppg.run)), class_="soft"),
            *(element("p", note) for note in pipeline_text.notes(pipeline)),
            _account(rows, step_s, "a step of the pipeline", ("a step", "what it is, or ← who is behind it")),
            element("p", pipeline_text.avoidable(pipeline) or None),
            _picture(pipeline_timeline.timeline(analysis)) if number == 0 else None,
            _text(pipeline_text.tables(pipeline, _WIDTH, Paint(False))),
        ]
    return lines(*made)


def _device(account: DeviceAccount, analysis: Analysis) -> Markup:
    parts = [Part(name, seconds, style) for (name, seconds), style in zip(device.parts(account), PALETTE, strict=False)]
    said = device.in_words(account, analysis)
    return lines(
        element("p", device.where(account), class_="soft"),
        bar(parts, account.total_s, "time of the devices"),
        legend(parts, account.total_s),
        *(element("p", sentence) for sentence in said),
        *_idle(account, analysis),
    )


def _idle(account: DeviceAccount, analysis: Analysis) -> list[Markup]:
    """Where hosts were while devices had nothing to do."""
    places = device.idle_places(account, analysis)
    rows = [_Row(place, seconds, "", PALETTE[3]) for seconds, place in places]
    return [_account(rows, account.total_s, "nothing to do", ("seconds", "while the host was at"))] if rows else []


def _rl(account: RLAccount, analysis: Analysis) -> Markup:
    who, steps = rl.awaited(account, analysis.ppg.run.names), max(len(account.step_s), 1)
    rows = [
        _Row(text, float(row.sum()) / steps, name, PALETTE[number % len(PALETTE)])
        for number, (text, row, name) in enumerate(zip(account.texts, account.seconds, who, strict=True))
    ]
    picture = rl_svg.svg(account.picture, analysis.ppg.run.names) if account.picture is not None else None
    return lines(
        element("p", rl.title(account), class_="soft"),
        _account(rows, account.total_s / steps, "time of all processes", ("a step", "awaited")),
        *(element("p", rl.slower(slow, analysis.ppg.run.names)) for slow in account.slow),
        _picture(picture),
        _text(rl.tables(account, _WIDTH, Paint(False))),
    )


_KNOWN: dict[str, tuple[str, Callable[[Any, Analysis], Markup]]] = {
    "pipeline": ("Pipeline", _pipelines),
    "device": ("On the devices", _device),
    "rl": ("Reinforcement learning", _rl),
}


@dataclass(frozen=True, slots=True)
class _Row:
    """One share of an account."""

    name: str
    seconds: float
    told: str
    """Who or what is behind it."""
    style: str


def _account(rows: Sequence[_Row], whole_s: float, label: str, heads: tuple[str, str]) -> Markup:
    """A bar, and a table that says what its parts are; ``heads`` are those of seconds and of who is behind it."""
    shown = [row for row in rows if abs(row.seconds) >= _SMALL * whole_s]
    cells: list[list[Content]] = [
        [
            element("span", element("span", class_=f"key {row.style}", aria_hidden="true"), row.name),
            names.percent(row.seconds / whole_s),
            names.seconds(row.seconds),
            row.told,
        ]
        for row in shown
    ]
    drawn = bar([Part(row.name, row.seconds, row.style) for row in shown], whole_s, label)
    return lines(drawn, table(["part", "share", *heads], cells, frozenset((0, 3))))


def _text(text: list[str]) -> Markup:
    """Tables as the text report sets them."""
    return element("pre", "\n".join(text).strip("\n"), class_="plain", tabindex="0")


def _picture(svg: str | None) -> Markup | None:
    if svg is None:
        return None
    if len(svg) > _LARGEST_PICTURE:
        return element("p", "The timeline of a step is too large for this page.", class_="soft")
    return element("div", Markup(svg), class_="picture", tabindex="0", role="region", aria_label="timeline of a step")
