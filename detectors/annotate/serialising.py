"""Findings that lie in pickling and unpickling: of what, how many objects and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.annotate.advice import FIRST_UNPICKLED, SERIALISING
from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import Serialising
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.when.span_periods import periods_of
from scalana.graphs.arrays.types import IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import REQUESTS

KIND = "pickle-bound"


class SerialisingObjects:
    """Pickling objects for other processes, and unpickling them."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings whose work lies in it, with the objects that are pickled at their lines."""
        spans, ranks = facts.ppg.spans, facts.timeline.ranks
        rows = spans.of_ranks(spans.rows("serialisation"), ranks)
        if not len(rows):
            return Annotated(findings)
        periods = periods_of(spans, rows, ranks)

        def serialises(finding: Finding) -> bool:
            if finding.entries is None:
                return finding.kind == KIND
            return facts.work_of(finding).lies_in(periods)

        return Annotated([_with_objects(one, rows, facts) if serialises(one) else one for one in findings])


def _with_objects(finding: Finding, rows: IntArray, facts: Facts) -> Finding:
    """A finding with what its ranks pickle at its line; ``rows`` are the spans of all that is pickled."""
    spans = facts.ppg.spans
    rows = rows[np.isin(spans.rank[rows], finding.ranks) & _at_line(finding, rows, facts)]
    if not len(rows):
        return finding
    lasted_s, nbytes = spans.end_s(rows) - spans.start_s(rows), spans.integers("bytes", 0)[rows]
    busy_s = spans.integers("busy_ns", 0)[rows] / 1e9
    lasted_s = np.where(busy_s > 0.0, busy_s, lasted_s)
    what = _most(rows, lasted_s, spans)
    words = np.array([spans.names[name].partition(" ") for name in spans.table.name[rows].tolist()])
    # What is pickled within a request is a part of it.
    kept = busy_s > 0.0 if what == REQUESTS else words[:, 2] == what
    rows, lasted_s, nbytes, pickled = rows[kept], lasted_s[kept], nbytes[kept], words[kept, 0] == "pickle"
    once = pickled if pickled.any() else ~pickled  # some ranks may unpickle what others pickle
    pickles = int(np.maximum(spans.integers("requests", 1)[rows][once], 1).sum())
    found = Serialising(
        pickled=what,
        pickles=pickles,
        pickle_bytes=int(nbytes[once].sum()),
        pickle_s=float(lasted_s.sum()),
        longest_pickle_s=float(lasted_s.max()),
        unpickled=not pickled.any() and what != REQUESTS,
    )
    # More processes would each pickle the same.
    evidence = replace(finding.evidence, serialising=found, balanced_saving_s=None)
    return replace(finding, evidence=evidence, advice=_advice(found, len(finding.ranks)) or finding.advice)


def _advice(found: Serialising, ranks: int) -> str | None:
    """What to do, where it is known. A worker imports modules for the first object of a class, which shows in one that
    takes far longer than the others."""
    first = found.unpickled and found.longest_pickle_s * ranks > MAJORITY * found.pickle_s and found.pickles > ranks
    return FIRST_UNPICKLED if first else SERIALISING.get(found.pickled)


def _at_line(finding: Finding, rows: IntArray, facts: Facts) -> np.ndarray:
    """Which spans are of the lines of a finding, or of what it calls there ``[rows]``."""
    spans, psg = facts.ppg.spans, facts.psg
    vertex, line = spans.vertex[rows].astype(np.int64), spans.line[rows].astype(np.int64)
    files = {number: psg[number].place.file for number in np.unique(vertex).tolist() if 0 <= number < len(psg)}
    here = np.array([files.get(number) == finding.file for number in vertex.tolist()], np.bool_)
    here &= (line >= finding.line) & (line <= max(finding.end_line, finding.line))
    below = {one.index for one in psg.walk(finding.vertex)} if 0 < finding.vertex < len(psg) else set()
    return here | np.isin(vertex, list(below))


def _most(rows: IntArray, lasted_s: np.ndarray, spans: Spans) -> str:
    """What is pickled for longest: the second word of a span's name."""
    name, of = np.unique(spans.table.name[rows], return_inverse=True)
    longest = name[int(np.argmax(np.bincount(of, lasted_s)))]
    return spans.names[int(longest)].partition(" ")[2]
