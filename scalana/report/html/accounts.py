"""Accounts of one kind of job, whose shares add up to the whole: one bar each, with its picture and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scalana.report import names, pipeline_timeline, rl_svg, sections
from scalana.report.html.bars import PALETTE, Part, bar, legend
from scalana.report.html.markup import Markup, element, lines
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
_TITLES = {"pipeline": "Pipeline", "device": "On the devices", "rl": "Reinforcement learning"}


def section_of(name: str, analysis: Analysis) -> Markup:
    """One part of the report that a kind of job has."""
    data = analysis.sections[name]
    shown = {"pipeline": _pipelines, "device": _device, "rl": _rl}[name](data, analysis)  # type: ignore[operator]
    section = next(one for one in sections.SECTIONS if one.name == name)
    text = "\n".join(section.text(data, analysis, _WIDTH, Paint(False))[1:]).strip("\n")
    tables = element("pre", text, class_="plain", tabindex="0")
    more = element("details", element("summary", "Tables"), tables, class_="more", open="")
    return element("section", element("h2", _TITLES[name]), shown, more, id=name)


def _shares(parts: Mapping[str, float], whole_s: float, label: str) -> Markup:
    """A bar and its legend; ``parts`` are seconds."""
    listed = [
        Part(name, value, PALETTE[number % len(PALETTE)])
        for number, (name, value) in enumerate((name, value) for name, value in parts.items() if value)
    ]
    return lines(bar(listed, whole_s, label), legend(listed, whole_s))


def _pipelines(pipelines: list[Pipeline], analysis: Analysis) -> Markup:
    made = []
    for pipeline in pipelines:
        found = pipeline.diagnosis.attribution
        parts = {name: share * found.step_s for name, share in found.shares.items()}
        made += [
            element("p", f"A step of {names.seconds(found.step_s)}:"),
            _shares(parts, found.step_s, "a step of the pipeline"),
        ]
    return lines(*made, _picture(pipeline_timeline.timeline(analysis)))


def _device(account: DeviceAccount, analysis: Analysis) -> Markup:
    parts = {
        "busy": account.busy_s,
        "waiting for other ranks": account.waiting_s,
        "in communication": account.transfer_s,
        "nothing to do": account.gap_s,
    }
    return _shares(parts, account.total_s, "time of the devices")


def _rl(account: RLAccount, analysis: Analysis) -> Markup:
    seconds = {text: float(row.sum()) for text, row in zip(account.texts, account.seconds, strict=True)}
    picture = rl_svg.svg(account.picture, analysis.ppg.run.names) if account.picture is not None else None
    return lines(_shares(seconds, account.total_s, "process time"), _picture(picture))


def _picture(svg: str | None) -> Markup | None:
    if svg is None:
        return None
    if len(svg) > _LARGEST_PICTURE:
        return element("p", "The timeline of a step is too large for this page.", class_="soft")
    return element("div", Markup(svg), class_="picture", tabindex="0", role="region", aria_label="timeline of a step")
