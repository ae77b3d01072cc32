"""What each source of a mixture costs to load is recorded batch by batch, and the program gets the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime import session
from scalana.runtime.torch.sources import tables
from scalana.runtime.torch.sources.loads import Mixture
from scalana.runtime.torch.sources.members import members_of, named
from tests.needs import torch_or_skip

from . import jobs
from .test_spans import told


class Set:
    """A data set of a test."""

    def __init__(self, **held: object) -> None:
        self.__dict__.update(held)

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return index


class Words(Set):
    """Another one."""


def names(data_set: object) -> list[str]:
    return [name for name, _ in members_of(data_set, lambda one: isinstance(one, Set))]


def test_members_have_the_names_by_which_they_differ() -> None:
    assert names(Set(parts={"web": Set(), "books": Set()})) == ["web", "books"]
    assert names(Set(datasets=[Set(name="web"), Set(name="books")])) == ["web", "books"]
    assert names(Set(datasets=(Set(), Words()))) == ["Set", "Words"]
    assert names(Set(datasets=[Set(root="/data/web/"), Set(root=Path("/data/books"))])) == ["web", "books"]
    assert names(Set(datasets=[Set(), Set()])) == ["Set 0", "Set 1"]
    assert names(Set(text=Set(), video=Set())) == ["text", "video"]
    assert names(Set(datasets=[Set(dataset=Set(name="web")), Set(dataset=Set(name="books"))])) == ["web", "books"]
    assert names(Set(dataset=Set(inner=Set(datasets=[Set(), Words()])))) == ["Set", "Words"]


def test_members_without_a_name_are_called_after_their_files_or_generator() -> None:
    def of(*shards: str) -> Set:
        return Set(pipeline=[Words(urls=list(shards)), len])

    assert names(Set(datasets=[of("s3://a/web-000.tar", "s3://a/web-001.tar"), of("/b/books.tar")])) == [
        "web",
        "books.tar",
    ]
    assert names(Set(pipeline=[Set(datasets=[of("/a/web-0.tar"), of("/a/books-0.tar")]), len])) == [
        "web-0.tar",
        "books-0.tar",
    ]

    class Builder(Set):
        def examples(self) -> None: ...

    def reading(function: object) -> Set:
        return Set(make=Builder(config=Set(generator=function)).examples, kwargs={"shards": [1, 2]})

    def text() -> None: ...

    def video() -> None: ...

    assert names(Set(datasets=[reading(text), reading(video)])) == ["text", "video"]


def test_what_is_no_mixture() -> None:
    assert names(Set()) == names([1, 2]) == names(None) == []
    assert names(Set(dataset=Set(), sizes=[1, 2], files=["a", "b"], tables=({1: 2}, {3: 4}))) == []
    assert names(Set(datasets=[Set()])) == []
    once = Set()
    assert names(Set(first=once, second=once)) == []
    round_trip = Set()
    round_trip.inner = round_trip  # type: ignore[attr-defined]
    assert names(round_trip) == []


class Column:
    """A column of a table, in chunks at some addresses."""

    def __init__(self, *chunks: tuple[int, int]) -> None:
        self.chunks = [Chunk(address, size) for address, size in chunks]
        self.num_chunks = len(chunks)

    def take(self, rows: list[int]) -> Column:
        self.rows = [self.chunks[0].values[row] for row in rows]
        return self

    def to_pylist(self) -> list[int]:
        return self.rows


class Chunk:
    """Some rows of a column."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.values: list[int] = []

    def __len__(self) -> int:
        return self.size

    def buffers(self) -> list[SimpleNamespace | None]:
        return [None, SimpleNamespace(address=self.address)] if self.address else [None]


class Table:
    """Stands for a map-style data set of Hugging Face."""

    def __init__(self, *columns: Column, order: list[int] | None = None, **about: str) -> None:
        self._data = SimpleNamespace(columns=list(columns))
        self._info = SimpleNamespace(**about)
        self._indices = None
        self.size = sum(map(len, columns[0].chunks))
        if order is not None:
            column = Column((1, len(order)))
            column.chunks[0].values = order
            self._indices = SimpleNamespace(column=lambda _: column)
            self.size = len(order)

    def __len__(self) -> int:
        return self.size


def test_rows_of_data_sets_that_are_joined_into_one_table() -> None:
    empty = Column((0, 5))
    web = Table(empty, Column((0x10, 2), (0x20, 3)), dataset_name="web")
    books = Table(Column((0, 4)), Column((0x30, 4)), dataset_name="books")
    tables.join(named([("", web), ("", books)], lambda one: isinstance(one, Table)))
    columns = Column((0, 9)), Column((0x10, 2), (0x20, 3), (0x30, 4))
    assert tables.rows_of(web) is None and tables.rows_of(Table(Column((0x10, 2), (0x40, 1)))) is None
    whole = tables.rows_of(Table(*columns))
    assert whole is not None and whole.names == ["web", "books"]
    assert whole.counted(0) == whole.counted(4) == {0: 1} and whole.counted(5) == whole.counted(-1) == {1: 1}
    assert whole.counted([0, 8, 5]) == {0: 1, 1: 2} == whole.counted(slice(4, 7))
    turned = tables.rows_of(Table(*columns, order=[8, 0, 7, 1]))
    assert turned is not None and turned.counted([0, 1, -2]) == {0: 1, 1: 2}
    # What is joined with more keeps its names; what has the same name is counted.
    more = Table(Column((0x50, 1)), dataset_name="books")
    tables.join([("books", more), ("all", Table(*columns))])
    rows = tables.rows_of(Table(Column((0x10, 2), (0x20, 3), (0x30, 4), (0x50, 1))))
    assert rows is not None and rows.names == ["web", "books (2)", "books (3)"]


def test_time_of_rows_that_one_call_loads_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "core", SimpleNamespace(now=lambda: 0))
    mixture = Mixture(["web", "books"], -1, 0)
    mixture.begin(0)
    rows = SimpleNamespace(counted=lambda key: key)
    mixture.add_rows(rows, {1: 4}, 100)  # type: ignore[arg-type]
    assert (mixture.items, mixture.spent, mixture.joint) == ([0, 4], [0, 100], False)
    mixture.add_rows(rows, {0: 3, 1: 1}, 100)  # type: ignore[arg-type]
    assert (mixture.items, mixture.spent, mixture.joint) == ([3, 5], [75, 125], True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_items_and_seconds_of_each_batch_by_source(tmp_path: Path, workers: int) -> None:
    torch_or_skip()
    program = Path(__file__).parent / "programs" / "mixtures.py"
    plain = jobs.with_torch(program, str(workers))
    done = jobs.with_torch(program, str(workers), record=tmp_path)
    assert plain.returncode == done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    batches: list[tuple[tuple[int, int], dict[str, int]]] = []
    records = sorted(jobs.records(tmp_path), key=lambda one: int(one.meta["start_ns"]))
    for place, record in enumerate(records):
        for kind, name, _, said in told(record):
            if (kind, name) != ("other", "source"):
                continue
            batch = place, int(said["batch"])
            if not batches or batches[-1][0] != batch:
                batches.append((batch, {}))
            batches[-1][1][str(said["source"])] = int(said["items"])
            assert said["workers"] == workers and said["worker"] == (0 if workers else -1)
            assert int(said["load_ns"]) > 0
    got = [items for _, items in batches]
    assert got[:5] == [{"low": 4}, {"low": 2, "high": 2}, {"high": 2}, {"low": 1, "high": 1}, {"low": 1}]
    assert [sum(items.values()) for items in got[5:8]] == [4, 4, 2]
    assert got[8:18] == [{"Stream 0": 1}] * 5 + [{"Stream 1": 1}] * 5
    ahead = [sum(items.get(name, 0) for items in got[18:]) for name in ("web", "books-0")]
    assert sum(map(sum, (items.values() for items in got[18:]))) == sum(ahead)
    assert all(count in (5, 6) for count in ahead)  # the end of each is read while the last batch is made, or later
