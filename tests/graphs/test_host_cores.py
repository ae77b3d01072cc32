"""Which ranks share cores: by host, as the union of what its ranks may use."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.host_cores import HostCores, core_numbers


def cores(*rows: tuple[str, str]) -> HostCores:
    """Of the host of each rank, and the list of cores that it may use there."""
    return HostCores.of([host for host, _ in rows], [core_numbers({"core_list": listed}) for _, listed in rows])


@pytest.mark.parametrize(
    ("rows", "sharing", "count"),
    [
        ([("a", "0"), ("a", "1")], [], 2),  # bound to a core each
        ([("a", "0-1")] * 2, [], 2),
        ([("a", "0-1")] * 4, [0, 1, 2, 3], 2),
        ([("a", "0"), ("a", "1"), ("b", "0"), ("b", "1")], [], 4),  # cores of two hosts have the same numbers
        ([("a", "0-1")] * 3 + [("b", "0-1")] * 2, [0, 1, 2], 4),
        ([("a", "0"), ("a", "0"), ("a", "0-7"), ("a", "0-7")], [0, 1], 8),  # two on one core, though the host has eight
        ([("a", "0,2"), ("a", "0,2"), ("a", "1,3"), ("a", "1,3-5,7")], [], 7),
        ([("a", ""), ("a", "")], [], 0),
        ([("a", "0"), ("a", "")], [], 1),
        ([], [], 0),
    ],
)
def test_ranks_share_cores_where_they_are_more_than_these(
    rows: list[tuple[str, str]], sharing: list[int], count: int
) -> None:
    known = cores(*rows)
    assert known.sharing() == sharing
    assert known.count() == count


def test_cores_of_some_ranks_are_their_own() -> None:
    known = cores(("a", "0"), ("a", "0"), ("a", "0-7"), ("b", "3"))
    assert known.count([0, 1]) == 1
    assert known.count([0, 3]) == 2


def test_cores_take_as_long_as_what_must_run_on_them() -> None:
    bound = cores(("a", "0"), ("a", "0"), ("a", "0-3"), ("b", ""))
    assert bound.least_s(np.array([3.0, 1.0, 8.0, 5.0])).tolist() == [4.0, 4.0, 3.0, 0.0]


def test_cores_that_no_rank_of_a_host_may_use_are_unused() -> None:
    rows = [("a", "0"), ("a", "1"), ("b", "0-1"), ("b", "0-3"), ("c", "0")]
    known = HostCores.of(
        [host for host, _ in rows], [core_numbers({"core_list": listed}) for _, listed in rows], [8, 8, 4, 4, 0]
    )
    assert [known.unused(rank) for rank in range(5)] == [6, 6, 0, 0, 0]
    assert [known.confined_to(rank) for rank in range(5)] == [[0], [1], [2], [2, 3], [4]]
    assert cores(("a", "0")).unused(0) == 0


@pytest.mark.parametrize(
    ("meta", "numbers"),
    [
        ({"core_list": "0-2,8", "cores": "4"}, {0, 1, 2, 8}),
        ({"core_list": "7"}, {7}),
        ({"core_list": "0-", "cores": "4"}, {0}),
        ({"core_list": "all", "cores": "4"}, set()),
        ({"cores": "3"}, {0, 1, 2}),  # earlier records: all of a host may use them
        ({"cores": "1"}, set()),  # bound to one, nobody knows which
        ({}, set()),
    ],
)
def test_a_record_lists_the_cores_of_its_process(meta: dict[str, str], numbers: set[int]) -> None:
    assert core_numbers(meta) == numbers


def test_earlier_records_of_bound_ranks_do_not_share_a_core() -> None:
    known = HostCores.of(["a", "a"], [core_numbers({"cores": "1"})] * 2)
    assert known.sharing() == []
