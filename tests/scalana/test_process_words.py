"""Runs of processes that are no ranks are described without that word."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report.html import page as html
from scalana.report.text import page as text
from tests.scalana.test_report_text import late_rank

WORKERS = ProcessNames(("main process", "worker", "worker", "worker"), (-1, 0, 1, 2))


@pytest.mark.parametrize("render", [text.render, html.render])
@pytest.mark.parametrize(
    ("names", "word"),
    [
        (WORKERS, "process"),
        (ProcessNames(), "rank"),
        (ProcessNames(("rank", "rank", "rank", "loader"), (0, 1, 2, -1)), "rank"),
    ],
    ids=["workers", "ranks", "ranks and a loader"],
)
def test_processes_are_ranks_only_where_they_are(tmp_path: Path, names: ProcessNames, word: str, render) -> None:
    analysis = late_rank(tmp_path)
    analysis = replace(analysis, ppg=replace(analysis.ppg, run=replace(analysis.ppg.run, names=names)))
    page = re.sub(r"(?s)<style>.*?</style>|<[^>]*>|&[a-z]+;", " ", render(analysis)).partition('"findings"')[0]
    said = set(re.findall(r"\b(rank|process)-seconds\b", page))
    assert said == {word}
    if word == "process":
        assert not re.findall(r".{20}\brank\b.{20}", page)
