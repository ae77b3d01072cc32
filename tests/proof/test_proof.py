"""The table of figures is sound, docs/proof.md is what it gives, and what is measured is read and kept as it should."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from . import document, results, running
from .readers import at, cells_where, derived, farthest, in_column, matches, number, share
from .results import ROOT, Machine, Result
from .rows import Bar, Command, Elsewhere, Need, Reader, Row, Sum
from .running import Asked
from .table import ROWS
from .table.topic import Topic

HERE = Machine("a processor", 2, "3.11.7", "2.13.0")
TABLE = """
| planted | told | off |
|---|---|---|
| one | rank 1 | -2.7% |
| two | rank 2 (!) | +1.0% |
| three | nothing | |
"""


def result(value: float | None, error: str = "", date: str = "2025-01-31") -> Result:
    return Result(value, error, HERE, 0.5, 1.0, "abc1234", date, 1.0)


def row(name: str, step: str, bar: str = "<= 2", **of_command: object) -> Row:
    command = Command((step,), **of_command)  # type: ignore[arg-type]
    return Row(name, "a claim", bar, "s", "README.md", command, number(r"([\d.]+) s"))


def test_names_are_unique() -> None:
    names = [one.name for one in ROWS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.name)
def test_a_row_is_sound(one: Row) -> None:
    assert (ROOT / one.document).is_file(), f"{one.document} is gone: name the document that claims this now"
    Bar.parse(one.bar)
    assert "|" not in one.claim + one.unit and one.claim
    assert (one.read is not None) == isinstance(one.measured_by, Command)
    if isinstance(one.measured_by, Sum):
        assert set(one.measured_by.names) <= {other.name for other in ROWS}


def test_results_are_of_rows_that_there_are() -> None:
    assert set(results.load()) <= {one.name for one in ROWS}


def test_the_document_is_what_table_and_results_give() -> None:
    written = document.PAGE.read_text(encoding="utf-8")
    assert written == document.page(results.load()), "`python -m tests.proof --page` writes docs/proof.md"


def test_a_bar_compares_at_the_precision_with_which_it_is_written() -> None:
    assert Bar.parse("<= 1.1").holds(1.14) and not Bar.parse("<= 1.1").holds(1.16)
    assert Bar.parse(">= 17").holds(17) and not Bar.parse(">= 17").holds(16)
    assert Bar.parse("== 0").holds(0) and not Bar.parse("== 0").holds(1)
    assert Bar.parse("<= 1500").words() == "at most 1,500"
    for text in ("1.1", "< 1", "<=1", "<= one", "<= 1 %"):
        with pytest.raises(ValueError, match="not a bar"):
            Bar.parse(text)


def test_readers_take_values_out_of_text_tables_and_json() -> None:
    assert number(r"^took ([\d,.]+) ms", 1e-3)("a line\ntook 1,500.0 ms") == 1.5
    assert farthest(r"off ([-\d.]+)")("off 1.0\noff -3.5") == 3.5
    assert share(r"with ([\d.]+)", r"without ([\d.]+)")("with 3 without 2") == 1.5
    assert matches("wrong", of="table")("table\nwrong\nwrong") == 2
    assert in_column("| planted", 3)(TABLE) == 2.7 and in_column("| planted", 3, min)(TABLE) == 1.0
    assert cells_where("| planted", 2, lambda cell: "(!)" in cell)(TABLE) == 1
    assert at("a", 0)('a warning\n{"a": [2.5]}') == 2.5
    assert derived(len)("[\n1,\n2\n]") == 2


@pytest.mark.parametrize("read", [number("([0-9]+)"), matches("x", of="y"), in_column("| no", 1), at("a")])
def test_a_reader_invents_nothing(read: Reader) -> None:
    with pytest.raises(ValueError):
        read("nothing of it is here")


def test_a_command_runs_once_for_all_of_its_rows(tmp_path: Path) -> None:
    first = row("first", f"echo x >> {tmp_path}/runs; echo took 1.5 s")
    rows = [first, dataclasses.replace(first, name="second", bar="<= 1")]
    found = {one.name: of for one, of in running.measure_all(rows, Asked(), print)}
    assert (tmp_path / "runs").read_text() == "x\n"
    assert [found[name].value for name in ("first", "second")] == [1.5, 1.5]
    assert [document.state(one, found[one.name]) for one in rows] == ["yes", "**no**"]


def test_a_command_that_fails_leaves_no_value(tmp_path: Path) -> None:
    rows = [row("fails", "echo took 1 s; echo no such thing >&2; exit 3"), row("says nothing", "echo done")]
    found = {one.name: of for one, of in running.measure_all(rows, Asked(), print)}
    assert [of.value for of in found.values()] == [None, None]
    assert "ended with 3: no such thing" in found["fails"].error
    assert document.state(rows[0], found["fails"]) == "failed"
    assert "no value" in document.measured(rows[1], found["says nothing"])


def test_a_command_that_does_not_end_is_ended() -> None:
    with pytest.raises(running.Failed, match="did not end within 0 s"):
        running.run(Command(("sleep 60",)), limit_s=0.2)


def test_steps_share_a_folder_and_the_last_one_is_read() -> None:
    assert running.run(Command(("echo 1 > $WORK/n; echo lost", "cat $WORK/n"))) == "1\n"


def test_names_and_patterns_choose_rows() -> None:
    rows = [row("a-one", "one"), row("a-two", "two"), row("b-two", "two"), row("b-gpu", "gpu", gpu=True)]
    rows.append(Row("elsewhere", "a claim", "<= 1", "", "README.md", Elsewhere("a reason")))
    assert [one.name for one in running.chosen(rows, Asked())] == ["a-one", "a-two", "b-two"]
    assert [one.name for one in running.chosen(rows, Asked(("a-t*",)))] == ["a-two", "b-two"], "of one command"
    assert [one.name for one in running.chosen(rows, Asked(("a-one", "b-*")))] == ["a-one", "a-two", "b-two"]
    assert [one.name for one in running.chosen(rows, Asked(gpu=True))] == ["b-gpu"]
    with pytest.raises(ValueError, match="no row is called 'c'"):
        running.chosen(rows, Asked(("a-one", "c")))


def test_what_cannot_be_measured_here_is_left_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "load_average", lambda: 99.0)
    monkeypatch.setattr(running, "PATIENCE_S", 0.0)
    monkeypatch.setattr(running, "gpu_name", lambda: "")
    monkeypatch.delenv("SOME_SOURCES", raising=False)
    rows = [
        row("quiet", "echo 1 s", quiet=True),
        row("needs", "echo 1 s", needs=(Need("SOME_SOURCES", "some sources"),)),
        row("gpu", "echo 1 s", gpu=True),
    ]
    said: list[str] = []
    assert list(running.measure_all(rows, Asked(), said.append)) == []
    assert list(running.measure_all(rows, Asked(gpu=True), said.append)) == []
    assert "quiet machine" in said[0] and "SOME_SOURCES" in said[1] and "torch.cuda is not available" in said[2]
    assert len(list(running.measure_all(rows[:1], Asked(anyway=True), said.append))) == 1


def test_the_load_of_what_was_measured_before_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([9.0, 2.0, 0.5])
    monkeypatch.setattr(running, "load_average", lambda: next(loads))
    monkeypatch.setattr(running, "LOOK_S", 0.0)
    assert running.gets_quiet(1.0) and next(loads, None) is None


def test_other_rows_keep_their_results(tmp_path: Path) -> None:
    rows = [row("kept", ""), row("new", ""), row("never", "")]
    file = tmp_path / "results.json"
    results.save({"kept": result(1.0, date="2024-01-01"), "gone": result(2.0)}, rows, file)
    results.save(results.load(file) | {"new": result(None, "it failed")}, rows, file)
    kept = results.load(file)
    assert list(kept) == ["kept", "new"] and kept["kept"] == result(1.0, date="2024-01-01")
    assert list(json.loads(file.read_text())["new"]) == [field.name for field in dataclasses.fields(Result)]


def test_a_sum_needs_all_of_its_parts() -> None:
    total = Row("all", "a claim", ">= 3", "", "README.md", Sum(("a", "b")))
    parts: Mapping[str, Result] = {"a": result(1.0, date="2025-02-02"), "b": result(2.0)}
    found = results.result_of(total, parts)
    assert found is not None and (found.value, found.date) == (3.0, "2025-01-31")
    assert results.result_of(total, {"a": result(1.0)}) is None
    assert results.result_of(total, {**parts, "b": result(None, "failed")}) is None


def test_the_page_says_what_holds_and_what_was_never_measured() -> None:
    rows = (
        row("held", "", quiet=True),
        row("broken", "", "<= 1"),
        row("failed", ""),
        row("open", "", quiet=True, needs=(Need("SOURCES", "some sources"),)),
        Row("elsewhere", "a claim", "<= 1", "", "README.md", Elsewhere("measured once")),
    )
    kept = {"held": result(1.5), "broken": result(1.5), "failed": result(None, "a | b")}
    page = document.page(kept, [Topic("A topic", rows)])
    assert "Of 5 figures 1 hold, 1 do not, 1 failed, 2 are not measured." in page
    held = "| `held` | a claim | [at most 2 s](../README.md) | 1.5 s | yes | A, load 0.5 to 1, 2025-01-31, abc1234 |"
    assert held in page and "| 1.5 s | **no** |" in page
    assert "| no value: a \\| b | failed |" in page
    assert "| not measured |  | needs some sources and a quiet machine |" in page
    assert "| not measured |  | measured once |" in page
    assert "- **A**: a processor, 2 cores, Python 3.11.7, torch 2.13.0" in page
