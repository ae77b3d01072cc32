"""Scaling loss for people: sizes, then one block per place that loses."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace

from scalana.detectors.evidence import SizeCosts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import SCALING_KINDS
from scalana.detectors.runs.scaling import JobPrediction, Scaling, Size
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Row, Section, Table, Tone, section
from scalana.report.findings.cause import cause_of
from scalana.report.findings.claims import filled
from scalana.report.text.findings import context, headline
from scalana.report.text.page import joined, warning_lines
from scalana.report.text.paint import Paint, clip, rule, wrap
from scalana.report.text.sections import section_lines
from scalana.report.text.tables import table_lines
from scalana.report.topics.efficiency import WORDS

MOST_FINDINGS = 5
"""Shown in full; the others stand in the JSON report."""

_MOST_SIZES = 8
"""Columns of the table of a place: the largest sizes."""

_INEFFICIENT = 0.8
"""Efficiency below which it is marked."""

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
    blocks = [_header(scaling, width, paint), section_lines(sizes_of(scaling), width, paint)]
    efficiencies = efficiencies_of(scaling)
    blocks.append(section_lines(efficiencies, width, paint) if efficiencies is not None else [])
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


_COLUMNS = (
    Column("ranks", 5),
    Column("runs", 4),
    Column("seconds", 7),
    Column("ideal", 7),
    Column("efficiency", 10),
    Column("work", 7, is_spared=True),
    Column("waiting", 7, is_spared=True),
    Column("transfer", 8, is_spared=True),
    Column("no core", 7, is_spared=True),
    Column("start", 7, is_spared=True),
)


def sizes_of(scaling: Scaling) -> Section:
    """One row per size: seconds of an average rank, without the start of the job."""
    rows = [_size(size) for size in scaling.sizes]
    if scaling.prediction is not None:
        rows.append(_prediction(scaling.prediction))
    note = "seconds of an average rank; seconds = work + waiting + transfer"
    return section("sizes", "", "", Table(_COLUMNS, tuple(rows), (note,)))


def efficiencies_of(scaling: Scaling) -> Section | None:
    """One row per size: the factors of the POP model; None where they are not known."""
    if not scaling.efficiencies:
        return None
    factors = {name: word for name, word in WORDS.items() if name not in ("parallel", "useful")}
    columns = (
        Column("ranks", 5),
        Column("global", 6),
        Column("computation", 11),
        Column("parallel", 8),
        *(Column(word, len(word), is_spared=True) for word in factors.values()),
    )
    rows = []
    for one in scaling.efficiencies:
        parts = (names.percent(float(getattr(one.factors, name))) for name in factors)
        computation = names.percent(one.computation)
        rows.append(
            Row((str(one.ranks), _efficiency(one.total), computation, _efficiency(one.factors.parallel), *parts))
        )
    note = "POP model: global = computation x parallel; parallel = balance x serialisation x transfer"
    return section("efficiencies", "", "", Table(columns, tuple(rows), (note,)))


def _size(size: Size) -> Row:
    parts = size.work_s, size.wait_s, size.transfer_s, size.core_wait_s, size.setup_s
    times = _short(size.seconds), _short(size.ideal_s)
    return Row((str(size.ranks), str(size.runs), *times, _efficiency(size.efficiency), *map(_short, parts)))


def _prediction(prediction: JobPrediction) -> Row:
    """The size that was asked for, and the range."""
    times = _short(prediction.seconds), _short(prediction.ideal_s)
    cells = str(prediction.ranks), "", *times, _efficiency(prediction.efficiency)
    text = f"predicted, between {_short(prediction.low)} and {_short(prediction.high)} seconds"
    return Row((*cells, *[""] * (len(_COLUMNS) - len(cells))), text)


def _efficiency(efficiency: float) -> Cell:
    return Cell(names.percent(efficiency), tone=Tone.WORSE if efficiency < _INEFFICIENT else Tone.PLAIN)


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
    return [*lines, "", *table_lines(_table(costs), width, paint), *context(cause, width, paint)]


def _claim(finding: Finding, costs: SizeCosts, scaling: Scaling) -> str:
    """What kind of loss it is, as a sentence."""
    strong = scaling.ideal.scaling == "strong"
    who = names.ranks(finding.ranks, scaling.sizes[-1].ranks)
    who = who[0].upper() + who[1:]
    if finding.kind == "communication":
        operation = (finding.path[-1].operation or "communication").replace("_", " ")
        text = f"The {operation} itself takes {'too long' if strong else 'longer'} on more ranks; "
        late = costs.waiting_caused[-1] > 0.1 * costs.seconds[-1]
        return text + ("other ranks wait for its late messages." if late else "no rank waits for it.")
    if finding.kind in _BY_ROW:
        return f"{filled(_BY_ROW[finding.kind], finding, scaling.sizes[-1].ranks)}."
    if costs.waiting_caused[-1] > 0.5 * finding.saving_s:
        return f"{who} make{'s' if len(finding.ranks) == 1 else ''} the others wait with this work."
    if strong:
        return "The work here does not shrink in proportion to the number of ranks."
    return "The work of each rank here grows with the number of ranks."


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


def _table(costs: SizeCosts) -> Table:
    """Seconds of an average rank by size, and what they consist of."""
    amounts = {
        "seconds": costs.seconds,
        "ideal": costs.ideal,
        "work": costs.work,
        "waiting caused": costs.waiting_caused,
        "transfer": costs.transfer,
    }
    shown = {
        label: values
        for label, values in amounts.items()
        if label in ("seconds", "ideal") or max(values) > 0.01 * max(costs.seconds)
    }
    columns = Column("ranks", 16, is_text=True), *(Column(str(size), 8) for size in costs.sizes[-_MOST_SIZES:])
    rows = (Row((label, *map(_short, values[-_MOST_SIZES:]))) for label, values in shown.items())
    return Table(columns, tuple(rows))


def _nothing(scaling: Scaling) -> str:
    size = scaling.sizes[-1]
    return (
        f"Nothing stands out: on {size.ranks} ranks the program runs at {names.percent(size.efficiency)} of ideal "
        f"{scaling.ideal.scaling} scaling, and no place loses more than the noise."
    )


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3f}"
