"""Samples and events of many records on shelves are those of the records read one by one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from scalana.graphs.readers.columns.gather import gather
from scalana.graphs.readers.folder import run_folder
from scalana.graphs.readers.folder.reading import Rows, Shelves, as_one, put, read_records
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.graphs.readers.processes.rank_selection import choose_records
from scalana.runtime.record import format as record_format
from scalana.runtime.record.codes import Code, Codes
from scalana.runtime.record.format import EventColumns, SampleColumns
from tests.tools.generate_run import write_run
from tests.tools.job_model import Model


class Table:
    def __init__(self, **columns: object) -> None:
        for name, values in columns.items():
            setattr(self, name, np.array(values[0], values[1]))
        self.rows = len(next(iter(columns.values()))[0])

    def __len__(self) -> int:
        return self.rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    write_run(path, Model(16, 6))
    return path


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_records_have_the_same_columns(folder: Path, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_AT_ONCE", at_once)
    alone, together = RunFolder(folder).processes(), read_records(RunFolder(folder))
    assert [record.file for record in alone] == [record.file for record in together]
    for one, other in zip(alone, together, strict=True):
        for kind, name in ((SampleColumns, "samples"), (EventColumns, "events")):
            assert len(getattr(one, name)) == len(getattr(other, name)) > 0
            for column in fields(kind):
                expected, found = (getattr(getattr(record, name), column.name) for record in (one, other))
                np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_records_in_any_order_come_together(folder: Path) -> None:
    """Ranks whose files are named in another order, and a rank that is left out."""

    def gathered(records: list) -> object:
        chosen = choose_records(records[5:] + records[:4])
        return gather(chosen)

    alone, together = gathered(RunFolder(folder).processes()), gathered(read_records(RunFolder(folder)))
    for table in ("samples", "events"):
        for column in fields(getattr(alone, table)):
            expected, found = (getattr(getattr(data, table), column.name) for data in (alone, together))
            np.testing.assert_array_equal(found, expected, err_msg=f"{table}.{column.name}")


def placed(tables: list, part: float = 1.0, names: tuple = ("a",)) -> list:
    """Tables put away one after the other."""
    shelves, rows = Shelves(names), []
    for table in tables:
        rows += shelves.place([table], part)
        put([table], rows[-1:])
    return rows


def test_values_of_any_width_and_number_find_room() -> None:
    tables = [
        Table(a=([1, 2], np.int8), b=([5, 6], np.int64)),
        Table(a=([300], np.int16), b=([7], np.int8)),
        Table(a=([], np.int8), b=([], np.int8)),
        Table(a=([-1] * 50, np.int8), b=([1 << 40] * 50, np.int64)),
        Table(a=([70000], np.int32), b=([9], np.int8)),
    ]
    rows = placed(tables, names=("a", "b"))
    assert [len(row) for row in rows] == [2, 1, 0, 50, 1]
    assert len({id(row.shelf) for row in rows}) > 1  # what was there is not copied to make room
    for row, table in zip(rows, tables, strict=True):
        np.testing.assert_array_equal(row.a, table.a)
        np.testing.assert_array_equal(row.b, table.b)
    whole = as_one(rows)
    assert whole is not None and whole.a.tolist() == [1, 2, 300, *[-1] * 50, 70000]


def test_tables_in_a_row_are_not_copied() -> None:
    rows = placed([Table(a=([number] * 3, np.int8)) for number in range(3)], part=0.1)
    column = rows[0].shelf.columns["a"]
    whole = as_one(rows[1:])
    assert whole is not None and np.shares_memory(whole.a, column)
    np.testing.assert_array_equal(whole.taken("a"), [1, 1, 1, 2, 2, 2])
    with pytest.raises(AttributeError):
        _ = rows[0].a  # it is on the shelf no longer


def test_tables_out_of_order_are_put_in_order() -> None:
    tables = [Table(a=([number] * 2, np.int8), path=([0, 1], np.int8)) for number in range(3)]
    rows = placed(tables, part=0.1, names=("a", "path"))
    whole = as_one([rows[2], rows[0]])
    assert whole is not None and whole.a.tolist() == [2, 2, 0, 0]
    assert rows[0].a.tolist() == [0, 0]
    with pytest.raises(AttributeError):
        _ = rows[1].a  # it was left out


def test_other_tables_are_not_taken_for_one() -> None:
    assert as_one([]) is None
    assert as_one([*placed([Table(a=([1], np.int8))]), Table(a=([1], np.int8))]) is None


def test_a_table_may_have_a_column_of_its_own() -> None:
    (row,) = placed([Table(a=([1, 2], np.int8))])
    changed = row.having(a=np.array([8, 9]))
    assert isinstance(changed, Rows) and changed.a.tolist() == [8, 9] and row.a.tolist() == [1, 2]


@pytest.mark.parametrize(("where", "what"), [(Shelves, "place"), (record_format.ProcessRecord, "read")])
def test_a_failure_holds_nothing_up(where: type, what: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_AT_ONCE", 1)

    def fail(*_: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(where, what, fail)
    with pytest.raises(MemoryError, match="none left"):
        read_records(RunFolder(folder))


def test_of_codes_with_one_id_the_last_counts() -> None:
    every = [Code("f.py", name, 1, 0, b"") for name in "abc"]
    ids, rows = (memoryview(np.array(values, np.int64)) for values in ([7, 3, 7], [0, 1, 2]))
    codes = Codes(ids, rows, every)
    assert dict(codes) == {7: every[2], 3: every[1]}
    assert len(codes) == 2 and 5 not in codes
