"""The report for people: what must be on it, and that it fits."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scalana.detectors.evidence import Evidence, Leaf
from scalana.graphs.dependences.unmatched import OpenCall
from scalana.graphs.host_cores import HostCores
from scalana.graphs.samples.unseen import Unseen
from scalana.graphs.structure.psg import VertexKind
from scalana.report import names, text
from scalana.report.findings.cause import excerpt
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import cost
from tests.known import evidence
from tests.scalana.examples import LATE_LINE, balanced, late_rank

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_names_the_line_the_rank_the_loss_and_the_saving(tmp_path: Path) -> None:
    report = text.render(late_rank(tmp_path))
    headline = next(line for line in report.splitlines() if line.startswith("1  "))
    assert "train.py:9" in headline and "augment" in headline and "100 % of all waiting" in headline
    assert "Rank 2 spends 9.00 s here, the others 3.00 s: 3.0 times as long." in report
    assert "18.0 rank-seconds" in report and "6.00 s (60 %) shorter" in report
    assert "▸  9 │     for image in batch:" in report and "▸ 12" not in report
    assert "called from  train.py:17 main\n" in report and "└ bench.py:4 warm_up\n" in report


def test_path_runs_from_the_symptom_to_the_cause(tmp_path: Path) -> None:
    report = text.render(late_rank(tmp_path))
    symptom = next(line for line in report.splitlines() if "train.py:18 main" in line)
    assert "rank 0 and 2 more  wait in allreduce  18.0 s" in symptom
    assert report.index(symptom) < report.index("is late")


def test_warnings_of_the_run_and_of_the_analysis(tmp_path: Path) -> None:
    report = text.render(late_rank(tmp_path))
    assert report.count("warning:") == 2


@pytest.mark.parametrize("width", [60, 80, 93, 100])
def test_fits_the_width_and_colour_changes_nothing_else(tmp_path: Path, width: int) -> None:
    analysis = late_rank(tmp_path)
    analysis.ppg.run.command = ["python", "x" * 300]
    long = "Model.forward.<locals>." + "very_long_name" * 8
    analysis = replace(analysis, findings=[replace(analysis.findings[0], function=long)])
    analysis.warnings.append("long " * 60)
    plain = text.render(analysis, width=width)
    assert max(map(len, plain.splitlines())) <= width
    colored = text.render(analysis, width=width, color=True)
    assert "\x1b[" in colored and ANSI.sub("", colored) == plain


def test_without_a_finding_it_says_so_and_where_the_time_goes(tmp_path: Path) -> None:
    report = text.render(balanced(tmp_path))
    assert "Nothing stands out" in report
    assert "Where the time goes" in report and "train.py:9 augment" in report
    assert "shorter" not in report


def test_nothing_is_not_said_of_what_was_not_recorded(tmp_path: Path) -> None:
    analysis = balanced(tmp_path)
    analysis.ppg.run.notes = ["rank 1: torch: a call of c10d::allreduce_ was not recorded: KeyError: 3"]
    report = text.render(analysis)
    assert "Nothing stands out in what was recorded:" in report and "The record is incomplete" in report
    analysis.ppg.timeline.calls.location = np.zeros(0, dtype=np.int64)
    report = text.render(analysis)
    assert "Waiting is unknown: no communication between the ranks was recorded." in report


def test_ranks_that_wait_to_the_end_for_others_without_a_record_are_named(tmp_path: Path) -> None:
    analysis = balanced(tmp_path)
    psg, run = analysis.ppg.psg, analysis.ppg.run
    vertex = next(vertex.index for vertex in psg.vertices if vertex.kind is VertexKind.COMM)
    run.open_calls = [
        OpenCall(rank, psg[vertex].operation, vertex, 4.0, 0, 7, seconds) for rank, seconds in ((0, 6.0), (1, 0.5))
    ]
    assert "Waiting is unknown" not in text.render(analysis)
    run.missing_ranks = [2, 3]
    report = " ".join(text.render(analysis).split())
    assert "Waiting is unknown: rank 0 waited in allreduce (train.py:18) for the last 6.00 s" in report
    assert "The records of ranks 2, 3 are not here." in report and "Nothing stands out" not in report


def test_what_is_not_recorded_comes_before_that_nothing_is_found(tmp_path: Path) -> None:
    analysis = balanced(tmp_path)
    analysis.ppg.run.unseen = [Unseen("Dask's workers", 0.5 * analysis.time.total_s)]
    report = " ".join(text.render(analysis).split())
    assert "Waiting is unknown: the processes spend" in report
    assert "in Dask's workers, which is not recorded." in report and "Nothing stands out" not in report
    analysis.ppg.run.unseen = [Unseen("Dask's workers", 0.0)]
    assert "Nothing stands out" in text.render(analysis)


def test_source_that_is_gone_is_left_out(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    (tmp_path / "train.py").unlink()
    report = text.render(analysis)
    assert "train.py:9" in report and "▸" not in report


def test_source_that_was_edited_since_is_marked(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    file = tmp_path / "train.py"
    analysis.ppg.run.start_unix_s = file.stat().st_mtime - 100
    assert "changed since the run" in text.render(analysis)
    os.utime(file, (0, file.stat().st_mtime - 95))
    assert "changed since the run" not in text.render(analysis)


def test_table_shows_least_and_most_over_ranks(tmp_path: Path) -> None:
    row = next(line for line in text.render(late_rank(tmp_path)).splitlines() if line.endswith("train.py:9 augment"))
    assert "3.00..9.00" in row
    assert row.split()[:2] == ["45", "%"]


def test_places_called_from_several_sites_are_one_row(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    psg = analysis.ppg.psg
    other = psg.add(psg[3].kind, psg[3].place, 1)
    twin = psg.add(psg[4].kind, psg[4].place, other)
    for name, values in analysis.ppg.metrics.items():
        analysis.ppg.metrics[name] = np.vstack([values, values[:2] * 0])
    analysis.ppg.metrics["time_s"][twin] = 1.0
    rows = [line for line in text.render(analysis).splitlines() if line.endswith("train.py:9 augment")]
    assert len(rows) == 1 and "4.00..10.00" in rows[0]


def test_small_findings_are_counted(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    analysis = replace(analysis, findings=analysis.findings * (text.MOST_FINDINGS + 2))
    report = text.render(analysis)
    assert f"\n{text.MOST_FINDINGS}  train.py" in report and f"\n{text.MOST_FINDINGS + 1}  train.py" not in report
    assert "2 smaller causes" in report


def test_hidden_delay_saves_nothing(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    finding = replace(analysis.findings[0], saving_s=0.0)
    assert "would not shorten the run" in cost(finding, analysis.ppg.run)


@pytest.mark.parametrize(
    ("ranks", "lost_s", "saving_s", "why"),
    [
        ([2], 4.0, 0.006, "as other delays at the same time take its place"),
        ([2], 2.2, 2.7, "more than the others wait, as part of this delays the end of the run"),
        ([2], 6.0, 1.9, ""),
        ([0, 1, 2, 3], 6.0, 1.9, ""),  # in turns
    ],
)
def test_a_saving_that_is_not_what_each_rank_waits_says_why(
    tmp_path: Path, ranks: list[int], lost_s: float, saving_s: float, why: str
) -> None:
    analysis = late_rank(tmp_path)
    finding = replace(analysis.findings[0], ranks=ranks, lost_s=lost_s, saving_s=saving_s)
    said = cost(finding, analysis.ppg.run)
    assert why in said and ("take its place" in said or "more than" in said) == bool(why)


@pytest.mark.parametrize(
    ("cpu", "core_wait", "cores", "frees"),
    [
        (0.9, 0.05, 2, True),
        (0.25, 0.7, 2, True),  # it has a core for a quarter of the time, and wants one for nearly all of it
        (0.9, 0.05, 4, False),
        (0.02, 0.01, 2, False),  # it sleeps
        (0.0, 0.9, 2, False),  # others have the cores
    ],
)
def test_a_cause_that_has_a_core_may_save_more(
    tmp_path: Path, cpu: float, core_wait: float, cores: int, frees: bool
) -> None:
    analysis = late_rank(tmp_path)
    finding = replace(analysis.findings[0], evidence=evidence(cpu_share=cpu, core_wait_share=core_wait))
    run = replace(analysis.ppg.run, cores=HostCores.of(["node"] * 4, [frozenset(range(cores))] * 4))
    assert ("frees a core" in cost(finding, run)) == frees


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("unresolved", "the samples do not explain why"),
        ("carried-in", "before the recording begins"),
        ("waiting-for-core", "waits for a core"),
        ("slow-transfer", "Messages of rank 2 arrive late"),
        ("pipeline-bubble", "Rank 2: pipeline bubble"),
    ],
)
def test_every_kind_has_a_sentence(tmp_path: Path, kind: str, expected: str) -> None:
    finding = replace(late_rank(tmp_path).findings[0], kind=kind, evidence=evidence())
    assert expected in claim(finding, 4)


def test_hang(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    call = evidence(waiting_ranks=[0, 1, 3], operation="allreduce", sequence=3, seconds_here=3.0)
    finding = replace(analysis.findings[0], kind="hang", evidence=call)
    analysis = replace(analysis, findings=[finding])
    assert claim(finding, 4) == "Rank 2 never reached the allreduce that keeps ranks 0, 1, 3 waiting."
    assert "does not arrive" in text.render(analysis)
    finding = replace(finding, evidence=call.updated(evidence(also_in="barrier")))
    assert claim(finding, 4).endswith("waiting, but waits in barrier.")


def test_evidence_is_optional(tmp_path: Path) -> None:
    found = late_rank(tmp_path).findings[0]

    def said(ranks: list[int], **known: float) -> str:
        return claim(replace(found, ranks=ranks, evidence=evidence(**known)), 4)

    everybody = [0, 1, 2, 3]
    assert said([2]) == "Rank 2 is late here."
    expected = "Rank 2 spends 3.00 s here, the others next to nothing."
    assert said([2], seconds_here=3.0, seconds_others=0.0, ratio=float("nan")) == expected
    assert "All 4 ranks spend 3.00 s here on average" in said(everybody, seconds_here=3.0)
    tasks = said(everybody, seconds_here=3.0, large_tasks=12, large_tasks_over_s=1.5)
    assert tasks.endswith("average: 12 tasks on one rank after another take 1.50 s longer than usual.")
    less = said([2], seconds_here=2.0, seconds_others=2.5, ratio=0.8)
    assert less.endswith("the others 2.50 s: less in total, but while the others wait.")
    assert said(everybody) == "All 4 ranks are late here."


def test_the_function_below_a_named_call_is_shown_beside_it(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    finding = analysis.findings[0]
    assert "inside it" not in text.render(analysis)
    inside = Evidence(leaf=Leaf(finding.file, 12, "pause", 3))
    analysis = replace(analysis, findings=[replace(finding, evidence=inside)])
    assert "\n  inside it    in pause, line 12, called from 3 lines\n" in text.render(analysis)
    inside = Evidence(leaf=Leaf(str(tmp_path / "vec.hpp"), 8, "dot", 1))
    analysis = replace(analysis, findings=[replace(finding, evidence=inside)])
    assert "\n  inside it    in dot, vec.hpp:8\n" in text.render(analysis)


def test_excerpt_marks_the_place_and_cuts_long_ones(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("".join(f"    line{n} = {n}\n" for n in range(1, 101)))
    rows = excerpt(str(file), 50, 90)
    assert rows[0].number == 48 and rows[0].text == "line48 = 48"
    assert [row.number for row in rows if row.marked] == list(range(50, 56))
    assert excerpt(str(file), 101, 101) == [] and excerpt(str(file), 0, 0) == []
    assert excerpt(str(tmp_path / "none.py"), 1, 1) == []


def test_excerpt_of_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "latin.py"
    file.write_bytes(b"x = 1\ny = '\xe9'\n")
    assert [row.text for row in excerpt(str(file), 2, 2)] == ["x = 1", "y = '\ufffd'"]


def test_relative_only_below_the_working_directory() -> None:
    assert names.relative("/a/job/src/x.py", "/a/job") == "src/x.py"
    assert names.relative("/a/job2/x.py", "/a/job") == "/a/job2/x.py"
    assert names.relative("x.py", "/a/job") == "x.py"
    assert names.relative("/a/x.py", "") == "/a/x.py"
    assert names.relative("/etc/x.py", "/") == "etc/x.py"


def test_ranks_as_words() -> None:
    assert names.ranks([3, 1, 2]) == "ranks 1-3"
    assert names.ranks([0, 1, 4]) == "ranks 0, 1, 4"
    assert names.ranks(range(0, 60, 2)).endswith("22, ...")


def test_excerpt_follows_the_finding(tmp_path: Path) -> None:
    analysis = late_rank(tmp_path)
    rows = excerpt(analysis.findings[0].file, LATE_LINE, LATE_LINE)
    assert [row.number for row in rows if row.marked] == [LATE_LINE]
