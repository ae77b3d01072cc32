"""Findings that lie in waiting for data: of which loader, and what that offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.annotate.advice import LOADING
from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import Loading
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.sources.mixture import MIXTURE
from scalana.detectors.when.span_periods import periods_of
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.span_columns import Spans


class LoadingData:
    """Waiting for data from a loader."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings whose work lies in it, with the loader."""
        spans, ranks = facts.ppg.spans, facts.timeline.ranks
        rows = spans.of_ranks(spans.rows("data"), ranks)
        if not len(rows):
            return Annotated(findings)
        loading = periods_of(spans, rows, ranks)
        sections = {MIXTURE.name: facts.mixture} if facts.mixture is not None else {}

        def loads(finding: Finding) -> bool:
            return finding.entries is not None and facts.work_of(finding).lies_in(loading)

        return Annotated([_with_loader(one, rows, spans) if loads(one) else one for one in findings], sections)


def _with_loader(finding: Finding, rows: IntArray, spans: Spans) -> Finding:
    """A finding with the loader for which its ranks wait longest; ``rows`` are the spans of loading."""
    workers, data_set = spans.integers("workers")[rows], spans.texts("dataset")[rows]
    here = np.isin(spans.rank[rows], finding.ranks)
    longest = int(np.where(here, spans.end_s(rows) - spans.start_s(rows), -1.0).argmax())
    found = Loading(
        workers=int(workers[longest]) if workers[longest] >= 0 else None,
        dataset=spans.names[int(data_set[longest])] if data_set[longest] >= 0 else None,
    )
    advice = finding.advice if found.workers is None else finding.advised(LOADING[bool(found.workers)])
    return replace(finding, evidence=replace(finding.evidence, loading=found), advice=advice)
