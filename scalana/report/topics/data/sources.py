"""The sources of a mixture of data: what each costs to load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.sources.mixture import MIXTURE, Mixture
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Row, Section, Table, Tone, section, texts
from scalana.report.values import plain

_MOST_SOURCES = 8
"""Shown; the JSON report has all."""

_COLUMNS = (
    Column("loading", 8, is_right=True),
    Column("share", 6, is_right=True),
    Column("samples", 8, is_right=True),
    Column("a sample", 9, is_right=True),
    Column("least..most", 18, is_right=True),
    Column("source", is_text=True, leads=True, tone=Tone.PLACE),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """A row for each source, the most expensive first."""
    mixture = analysis.section(MIXTURE)
    if mixture is None:
        return []
    load_s, items = _sums(mixture)
    order = np.argsort(-load_s.sum(axis=0), kind="stable").tolist()
    rows = []
    for source in order[:_MOST_SOURCES]:
        mine = load_s[:, source]
        each_s = float(mine.sum() / max(items[:, source].sum(), 1.0))
        share, samples = (float(values[:, source].sum() / values.sum()) for values in (load_s, items))
        amounts = (names.seconds(float(mine.mean())), names.percent(share), names.percent(samples))
        between = names.span(float(mine.min()), float(mine.max()))
        rows.append(Row((*amounts, names.seconds(each_s), between, Cell(mixture.batches.names[source]))))
    more = len(order) - _MOST_SOURCES
    notes = texts(f"and {more} more: see the JSON report" if more > 0 else "")
    where = f"{mixture.workers} workers a rank" if mixture.workers > 1 else "1 worker a rank"
    of = f"loading by an average rank, {where if mixture.workers else 'no workers'}"
    return [section("sources", "Sources of data", of, Table(_COLUMNS, tuple(rows), notes))]


def entries(analysis: Analysis) -> dict[str, Any]:
    """Every source, for the JSON report."""
    mixture = analysis.section(MIXTURE)
    if mixture is None:
        return {}
    load_s, items = _sums(mixture)
    return {
        "sources": [
            {
                "name": name,
                "samples": plain(float(items[:, source].sum())),
                "load_s": plain(float(load_s[:, source].sum())),
                "load_s_of_ranks": [plain(float(value)) for value in load_s[:, source]],
            }
            for source, name in enumerate(mixture.batches.names)
        ]
    }


def _sums(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and samples of every source, each ``[ranks, sources]``, of all batches that ranks got."""
    return mixture.load_s.sum(axis=0), mixture.items.sum(axis=0)
