"""Scaling loss for people: sizes, then one block per place that loses."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from scalana.detectors.kinds import SCALING_KINDS
from scalana.report import names
from scalana.report.findings.cause import cause_of
from scalana.report.findings.claims import filled
from scalana.report.text.findings import context, headline
from scalana.report.text.page import joined, warning_lines
from scalana.report.text.paint import NARROW, Paint, clip, rule, wrap

if TYPE_CHECKING:
    from scalana.detectors.evidence import SizeCosts
    from scalana.detectors.finding import Finding
    from scalana.detectors.runs.scaling import JobPrediction, Scaling, Size
    from scalana.graphs.run_info import RunInfo

MOST_FINDINGS = 5
"""Shown in full; the others stand in the JSON report."""

_LIKELY = 0.5
"""Confidence below which a kind of growth is but one of several that could be."""

_IDLE = 0.2
"""Part of work on a CPU, or ready to, below which it is something else than computing."""

_GROWTH = {
    "falls": "falls with the ranks",
    "falls to a constant": "falls to a constant part",
    "constant": "stays the same",
    "logarithmic": "grows with the logarithm of the ranks",
    "slower than p": "grows slower than the ranks",
    "like p": "grows with the ranks",
    "faster than p": "grows faster than the ranks",
    "falls, then grows": "falls, and then grows with the ranks",
}

_BY_ROW = {kind.name: kind for kind in SCALING_KINDS if kind.claims}
"""Kinds of which the claim does not depend on the sizes."""


def render(scaling: Scaling, *, width: int = 100, color: bool = False) -> str:
    """The comparison in at most ``width`` columns, with ANSI colours if ``color``. Ends with a newline."""
    paint = Paint(color)
    run = scaling.reference.ppg.run
    blocks = [_header(scaling, width, paint), _sizes(scaling, width, paint)]
    blocks.append(warning_lines(scaling.warnings, width, paint))
    for number, finding in enumerate(scaling.findings[:MOST_FINDINGS], 1):
        blocks.append(_block(number, finding, scaling, run, width, paint))
    if len(scaling.findings) > MOST_FINDINGS:
        rest = scaling.findings[MOST_FINDINGS:]
        lost = names.rank_seconds(sum(finding.lost_s for finding in rest))
        blocks.append([f"  And {len(rest)} smaller, {lost} together: see the JSON report."])
    if not scaling.findings:
        blocks.append(wrap(_nothing(scaling), width, "  "))
    return joined(blocks)


def _header(scaling: Scaling, width: int, paint: Paint) -> list[str]:
    ideal, run = scaling.ideal, scaling.reference.ppg.run
    left, line, _ = rule("scalana scaling", "", width)
    how = "as stated" if ideal.stated else f"inferred: the total work grows as p^{abs(ideal.exponent):.2f}"
    if math.isnan(ideal.exponent) and not ideal.stated:
        how = "assumed"
    noise = names.percent(scaling.noise.relative)
    facts = [
        f"{ideal.scaling} scaling ({how})",
        f"{len(scaling.table.runs)} runs of {len(scaling.sizes)} sizes",
        f"noise {noise} ({'of repeated runs' if scaling.noise.repeated else 'assumed: no size was run twice'})",
    ]
    command = clip(shlex.join(str(word) for word in run.command) or "(command not recorded)", width - 2)
    return [
        paint(left, "bold") + paint(line, "dim"),
        "  " + paint(command, "bold"),
        *wrap(" · ".join(facts), width, "  "),
    ]


def _sizes(scaling: Scaling, width: int, paint: Paint) -> list[str]:
    """One row per size: seconds of an average rank, without the start of the job."""
    parts = width >= NARROW
    head = f"  {'ranks':>5} {'runs':>4} {'seconds':>7} {'ideal':>7} {'efficiency':>10}"
    if parts:
        head += f" {'work':>7} {'waiting':>7} {'transfer':>8} {'no core':>7} {'start':>7}"
    rows = [_size(size, parts, paint) for size in scaling.sizes]
    if scaling.prediction is not None:
        rows += _prediction(scaling.prediction, parts, paint)
    note = "  seconds of an average rank" + ("; seconds = work + waiting + transfer" if parts else "")
    return [paint(head, "dim"), *rows, paint(note, "dim")]


def _size(size: Size, parts: bool, paint: Paint) -> str:
    efficiency = f"{names.percent(size.efficiency):>10}"
    row = f"  {size.ranks:>5} {size.runs:>4} {_short(size.seconds):>7} {_short(size.ideal_s):>7} "
    row += paint(efficiency, "red" if size.efficiency < 0.8 else "")
    if parts:
        row += f" {_short(size.work_s):>7} {_short(size.wait_s):>7} {_short(size.transfer_s):>8}"
        row += f" {_short(size.core_wait_s):>7} {_short(size.setup_s):>7}"
    return row


def _prediction(prediction: JobPrediction, wide: bool, paint: Paint) -> list[str]:
    """The row of the size that was asked for, and the range: on the same line if ``wide``, or on one of its own."""
    row = f"  {prediction.ranks:>5} {'':>4} {_short(prediction.seconds):>7} {_short(prediction.ideal_s):>7} "
    row += f"{names.percent(prediction.efficiency):>10}"
    text = f"predicted, between {_short(prediction.low)} and {_short(prediction.high)}"
    return [paint(f"{row} {text}", "yellow")] if wide else [paint(row, "yellow"), paint(f"{'':>7} {text}", "yellow")]


def _block(number: int, finding: Finding, scaling: Scaling, run: RunInfo, width: int, paint: Paint) -> list[str]:
    costs = finding.evidence.scaling
    assert costs is not None  # all findings of a comparison have them
    claims = f"{_claim(finding, costs, scaling)}{_asleep(finding)}"
    sentences = (claims, _cost(finding, scaling), _model(costs))
    cause = cause_of(finding, run, sentences)
    share = f"{names.percent(min(finding.lost_share, 1.0))} of the loss"
    cause = replace(cause, share=share, path=cause.path if len(cause.path) > 1 else ())
    lines = [headline(number, cause, width, paint)]
    for sentence in cause.sentences:
        lines += wrap(sentence, width, "  ")
    return [*lines, "", *_table(costs, paint), *context(cause, width, paint)]


def _claim(finding: Finding, costs: SizeCosts, scaling: Scaling) -> str:
    """What kind of loss it is, as a sentence."""
    strong = scaling.ideal.scaling == "strong"
    who = names.ranks(finding.ranks, scaling.sizes[-1].ranks)
    who = who[0].upper() + who[1:]
    if finding.kind == "communication":
        operation = (finding.path[-1].operation or "communication").replace("_", " ")
        text = f"The {operation} itself takes {'too long' if strong else 'longer'} on more ranks; "
        late = costs.waiting_caused[-1] > 0.1 * costs.seconds[-1]
        return text + ("others wait for what arrives late." if late else "no rank waits for it.")
    if finding.kind in _BY_ROW:
        return f"{filled(_BY_ROW[finding.kind], finding, scaling.sizes[-1].ranks)}."
    if costs.waiting_caused[-1] > 0.5 * finding.saving_s:
        return f"{who} make{'s' if len(finding.ranks) == 1 else ''} the others wait with this work."
    return "This work shrinks less than the ranks grow." if strong else "This work of every rank grows with the ranks."


def _asleep(finding: Finding) -> str:
    """Whether the work is no computing."""
    share, _ = finding.evidence.cpu_split()
    if share is None or share >= _IDLE:
        return ""
    return f" Only {names.percent(share)} of this is computation: it sleeps, or waits for a lock or a device."


def _cost(finding: Finding, scaling: Scaling) -> str:
    size = scaling.sizes[-1]
    share = names.percent(finding.saving_s / size.seconds) if size.seconds > 0 else ""
    return (
        f"On {size.ranks} ranks it costs {names.seconds(finding.saving_s)} ({share}) more than with ideal scaling, "
        f"{names.rank_seconds(finding.lost_s)}."
    )


def _model(costs: SizeCosts) -> str:
    if costs.growth is None or costs.confidence is None:
        return ""
    growth = f"{_GROWTH[costs.growth]}: {costs.model} seconds (confidence {names.percent(costs.confidence)})."
    text = f"It {growth}" if costs.confidence >= _LIKELY else f"How it grows is uncertain; most likely it {growth}"
    expected = costs.predicted
    if expected is not None:
        text += (
            f" On {expected.ranks} ranks that is {names.seconds(expected.seconds)}, between "
            f"{names.seconds(expected.low)} and {names.seconds(expected.high)}; ideal would be "
            f"{names.seconds(expected.ideal)}."
        )
    if costs.left_out:
        left_out = " and ".join(costs.left_out)
        text += f" The model leaves out {left_out}, which fits no simple model: run that size again."
    return text


def _table(costs: SizeCosts, paint: Paint) -> list[str]:
    """Seconds of an average rank by size, and what they consist of."""
    rows = [("ranks", [f"{size}" for size in costs.sizes])]
    for label, values in (
        ("seconds", costs.seconds),
        ("ideal", costs.ideal),
        ("work", costs.work),
        ("waiting caused", costs.waiting_caused),
        ("transfer", costs.transfer),
    ):
        if label in ("seconds", "ideal") or max(values) > 0.01 * max(costs.seconds):
            rows.append((label, [_short(value) for value in values]))
    return [
        paint(line, "dim") if label in ("ranks", "ideal") else line
        for label, cells in rows
        for line in [f"    {label:<14} " + " ".join(f"{cell:>8}" for cell in cells[-8:])]
    ]


def _nothing(scaling: Scaling) -> str:
    size = scaling.sizes[-1]
    return (
        f"Nothing stands out: on {size.ranks} ranks the program runs at {names.percent(size.efficiency)} of ideal "
        f"{scaling.ideal.scaling} scaling, and no place loses more than the noise."
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3f}"
