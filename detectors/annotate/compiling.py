"""Findings that lie in compiling, and how often their ranks compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.annotate.advice import COMPILING
from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import Compiling
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.when.span_periods import periods_of
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.compilations import compilations, compiled_before
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline


class InCompiling:
    """Compilations."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings whose work lies in compiling, with what their ranks compile."""
        spans, timeline = facts.ppg.spans, facts.timeline
        rows = compilations(spans, timeline.ranks)
        if not len(rows):
            return Annotated(findings)
        compiling = periods_of(spans, rows, timeline.ranks)

        def compiles(finding: Finding) -> bool:
            return finding.entries is not None and facts.lasting_work_of(finding).lies_in(compiling)

        return Annotated([_with_compiling(one, rows, spans, timeline) if compiles(one) else one for one in findings])


def _with_compiling(finding: Finding, rows: IntArray, spans: Spans, timeline: Timeline) -> Finding:
    """A finding with what begins in its lines; all, where none is known to."""
    rank, line = spans.rank[rows], spans.line[rows]
    there = (finding.line <= line) & (line <= max(finding.line, finding.end_line))
    own = rows[there] if np.isin(rank[there], finding.ranks).any() else rows
    found = _compiling(own, finding.ranks, spans, timeline)
    advice = finding.advised(COMPILING) if found.again else finding.advice
    return replace(finding, evidence=replace(finding.evidence, compiling=found), advice=advice)


def _compiling(rows: IntArray, ranks: list[int], spans: Spans, timeline: Timeline) -> Compiling:
    """How often some ranks and the others compile, and for how long."""
    here = np.isin(np.arange(timeline.ranks), ranks)
    rank, lasted_s = spans.rank[rows], spans.end_s(rows) - spans.start_s(rows)
    # What one compilation leaves for later, such as its backward, has the same number.
    made = np.unique(np.stack((rank, spans.texts("id")[rows])), axis=1)
    times = np.bincount(made[0], minlength=timeline.ranks)
    again = np.array([compiled_before(spans.names[at]) > 0 if at >= 0 else False for at in made[1].tolist()], np.bool_)
    return Compiling(
        seconds=float(lasted_s[here[rank]].sum()) / len(ranks),
        compilations=float(times[here].mean()),
        again=float((here[made[0]] & again).sum()) / len(ranks),
        compilations_others=None if here.all() else float(np.median(times[~here])),
    )
