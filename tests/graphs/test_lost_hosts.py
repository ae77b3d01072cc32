"""Hosts that died while others went on, in records that have no end."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.run_info import RunInfo
from tests.graphs.runs import Rank, build

LIVED_MS = 10_000.0


def run_of(folder: Path, lived_ms: dict[str, float], ended: frozenset[str]) -> RunInfo:
    """Two ranks on each of some hosts, whose clocks differ; those on hosts of ``ended`` write an end."""
    for rank in range(2 * len(lived_ms)):
        host = [*lived_ms][rank // 2]
        one = Rank(folder, rank, 2 * len(lived_ms), {"host": host, "boot_id": f"boot-{host}"}, period_ms=500.0)
        one.writer.group(1, "world", rank, range(2 * len(lived_ms)))
        for _ in range(4):
            one.work("step", 100.0)
            one.call("allreduce", one.now + 1.0)
        one.work("step", one.start_ms + lived_ms[host] - one.now)
        one.end() if host in ended else one.writer.close()
    return build(folder).run


def test_a_host_that_dies_is_named_with_its_ranks_and_its_last_moment(tmp_path: Path) -> None:
    run = run_of(tmp_path, {"node0": LIVED_MS, "node1": 4_000.0, "node2": LIVED_MS}, frozenset({"node0", "node2"}))
    (lost,) = run.lost_hosts
    assert (lost.name, lost.ranks) == ("node1", (2, 3))
    assert lost.last_heard_s == pytest.approx(4.0, abs=0.6) and lost.others_last_s == pytest.approx(10.0, abs=0.6)
    (said,) = [warning for warning in run.warnings if "last heard of" in warning]
    assert said.startswith("node1 (ranks 2, 3) was last heard of at ")
    assert not any("has no end" in warning for warning in run.warnings)


@pytest.mark.parametrize(("of_node1_ms", "lost"), [(LIVED_MS - 300.0, []), (4_000.0, ["node1"])])
def test_where_all_ranks_are_killed_a_host_is_lost_if_it_is_far_before_the_others(
    tmp_path: Path, of_node1_ms: float, lost: list[str]
) -> None:
    run = run_of(tmp_path, {"node0": LIVED_MS, "node1": of_node1_ms}, frozenset())
    assert [host.name for host in run.lost_hosts] == lost
    assert any("has no end" in warning for warning in run.warnings)
