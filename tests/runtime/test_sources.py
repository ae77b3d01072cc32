"""What each source of a mixture costs to load is recorded batch by batch, and the program gets the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.runtime.torch.sources.members import members_of
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


def test_what_is_no_mixture() -> None:
    assert names(Set()) == names([1, 2]) == names(None) == []
    assert names(Set(dataset=Set(), sizes=[1, 2], files=["a", "b"], tables=({1: 2}, {3: 4}))) == []
    assert names(Set(datasets=[Set()])) == []
    once = Set()
    assert names(Set(first=once, second=once)) == []
    round_trip = Set()
    round_trip.inner = round_trip  # type: ignore[attr-defined]
    assert names(round_trip) == []


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
    assert got[8:] == [{"Stream 0": 1}] * 5 + [{"Stream 1": 1}] * 5
