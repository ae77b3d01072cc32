"""Which findings lie in compiling, and how often their ranks compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.evidence import Compiling
from scalana.detectors.finding import Finding
from scalana.detectors.when.burst_work import BurstWork
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.timeline import Timeline

KIND = "compile"
"""Of spans, as the recorder calls them."""
ADVICE = (
    "Changing input sizes cause recompilation: mark these sizes as dynamic (torch._dynamo.mark_dynamic, or "
    "dynamic=True), or pad inputs to few sizes. TORCH_LOGS=recompiles shows each reason; past "
    "torch._dynamo.config.recompile_limit, code runs uncompiled."
)


def with_compiling(
    findings: Sequence[Finding], table: BlameTable, spans: Spans, timeline: Timeline, steady: Periods | None = None
) -> list[Finding]:
    """Findings whose work lies in compiling with what their ranks compile: what begins in the finding's lines; all,
    where none is known to. ``steady`` is the steady state."""
    rows = _rows(spans, timeline.ranks)
    if not len(rows):
        return list(findings)
    rank, line = spans.rank[rows], spans.line[rows]
    compiling = Periods.joined(rank, spans.start_s(rows), spans.end_s(rows), timeline.ranks)
    edges = gap_edges(timeline)

    def compiles(finding: Finding) -> bool:
        if finding.entries is None:
            return False
        return BurstWork.of(finding, table, timeline, edges).where_lost(finding, steady).lies_in(compiling)

    def with_it(finding: Finding) -> Finding:
        there = (finding.line <= line) & (line <= max(finding.line, finding.end_line))
        own = rows[there] if np.isin(rank[there], finding.ranks).any() else rows
        found = _compiling(own, finding.ranks, spans, timeline)
        advice = finding.advised(ADVICE) if found.again else finding.advice
        return replace(finding, evidence=replace(finding.evidence, compiling=found), advice=advice)

    return [with_it(finding) if compiles(finding) else finding for finding in findings]


def _compiling(rows: IntArray, ranks: list[int], spans: Spans, timeline: Timeline) -> Compiling:
    """How often some ranks and the others compile, and for how long."""
    here = np.isin(np.arange(timeline.ranks), ranks)
    rank, lasted_s = spans.rank[rows], spans.end_s(rows) - spans.start_s(rows)
    # What one compilation leaves for later, such as its backward, has the same number.
    made = np.unique(np.stack((rank, spans.texts("id")[rows])), axis=1)
    compilations = np.bincount(made[0], minlength=timeline.ranks)
    again = np.array([_number(spans.names[at]) > 0 if at >= 0 else False for at in made[1].tolist()], np.bool_)
    return Compiling(
        seconds=float(lasted_s[here[rank]].sum()) / len(ranks),
        compilations=float(compilations[here].mean()),
        again=float((here[made[0]] & again).sum()) / len(ranks),
        compilations_others=None if here.all() else float(np.median(compilations[~here])),
    )


def _rows(spans: Spans, ranks: int) -> IntArray:
    """The compilations of ranks."""
    rows = spans.rows("other")
    rows = rows[(spans.texts("kind")[rows] == spans.number(KIND)) & (spans.number(KIND) >= 0)]
    rank = spans.rank[rows]
    return np.asarray(rows[(rank >= 0) & (rank < ranks)])


def _number(name: str) -> int:
    """How often torch compiled the same code before, of its number for a compilation, "frame/number"."""
    number = name.rpartition("/")[2].partition("_")[0]
    return int(number) if number.isdigit() else 0
