"""A link between hosts that is slower than others: what of it the transfers of a run prove, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.graphs.host_traffic import HostTraffic
from scalana.graphs.metrics import timeline_metrics
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.timeline import Timeline
from scalana.report.findings.claims import claim
from tests.detectors.jobs import structure
from tests.detectors.simulator import Program, simulate

STEPS, SIZE, FAST_MS, SLOW_MS, WORK_MS = 12, 1_000_000, 1.0, 20.0, 200.0
Slow = Callable[[int, int], bool]
"""Whether the link from one host to another is slow."""


def exchange(hosts: list[int], slow: Slow) -> Program:
    """Each rank exchanges messages with each other one, one pair after another."""
    random = np.random.default_rng(3)
    program: Program = [[] for _ in hosts]
    for _ in range(STEPS):
        for rank in range(len(hosts)):
            program[rank].append(("work", "compute", WORK_MS))
        for source, target in permutations(range(len(hosts)), 2):
            way_ms = SLOW_MS if slow(hosts[source], hosts[target]) else FAST_MS
            program[source] += [("coll", "barrier", [source, target], -1), ("send", target)]
            program[target].append(("coll", "barrier", [source, target], -1))
            program[target].append(("recv", source, way_ms * random.uniform(1.0, 1.2)))
    return program


def reductions(hosts: list[int], groups: list[list[int]], slow: Slow) -> Program:
    """Groups that each reduce among themselves, by a ring: as slow as the slowest link of it."""
    program: Program = [[] for _ in hosts]
    for _ in range(STEPS):
        for rank in range(len(hosts)):
            program[rank].append(("work", "compute", WORK_MS))
        for group in groups:
            ring = [*group, group[0]]
            is_slow = any(slow(hosts[a], hosts[b]) for a, b in pairwise(ring))
            for rank in group:
                program[rank].append(("coll", "allreduce", group, -1, SLOW_MS if is_slow else FAST_MS))
    return program


def between(*pair: int) -> Slow:
    return lambda a, b: {a, b} == set(pair)


def ring_traffic(hosts: list[int], slow: Slow, others_ms: float = FAST_MS) -> tuple[HostTraffic, ...]:
    """What the connections of a ring over hosts count in its reductions: on a slow link bytes are on their way all the
    time, on the others for as long as these need."""
    nbytes = STEPS * SIZE * 2 * (len(hosts) - 1) // len(hosts)

    def way(a: int, b: int) -> HostTraffic:
        busy_s = STEPS * (SLOW_MS if slow(a, b) else others_ms) / 1e3
        return HostTraffic(f"node{a}", f"node{b}", nbytes, busy_s, busy_s, nbytes / busy_s, 0)

    control = HostTraffic("node0", "node2", 2_000, 0.5, 0.5, 9e3, 0)  # bytes of a store: slow, and few
    return (*(way(a, b) for a, b in pairwise([*hosts, hosts[0]])), control)


def analysed(program: Program, hosts: list[int], traffic: tuple[HostTraffic, ...] = ()) -> tuple[Analysis, Timeline]:
    timeline, names = simulate(program)
    calls = timeline.calls
    timeline = replace(timeline, calls=replace(calls, nbytes=np.full(len(calls), SIZE)))
    psg, seconds = structure(names), float(timeline.locations.end_s.max())
    run = RunInfo(ranks=len(hosts), seconds=seconds, host_of_rank=[f"node{host}" for host in hosts], traffic=traffic)
    return analyze(PPG(psg, timeline, timeline_metrics(timeline, len(psg)), run)), timeline


@pytest.mark.parametrize(
    ("slow", "name"),
    [
        (between(0, 2), "The link between node0 and node2"),
        (lambda a, b: (a, b) == (2, 1), "The link from node2 to node1"),
        (lambda a, b: 1 in (a, b), "The network of node1"),
        (lambda a, b: a == 1, "The outgoing network of node1"),
        (lambda a, b: b == 1, "The incoming network of node1"),
    ],
    ids=["a pair", "a way", "a host", "out of a host", "into a host"],
)
def test_messages_show_which_link_is_slow(slow: Slow, name: str) -> None:
    hosts = [0, 1, 2]
    analysis, timeline = analysed(exchange(hosts, slow), hosts)
    sound, as_fast = analysed(exchange(hosts, lambda a, b: False), hosts)
    (finding, *others) = analysis.findings
    known = finding.evidence.link
    assert (finding.kind, others, sound.findings) == ("slow-link", [], [])
    assert known is not None and known.slow_link == name
    assert known.link_call_s / known.link_usual_call_s == pytest.approx(SLOW_MS / FAST_MS, rel=0.1)
    assert 0.9 <= known.link_bytes_per_s * SLOW_MS / 1e3 / SIZE <= 2.0  # two messages may cross it at once
    assert known.others_bytes_per_s > 5 * known.link_bytes_per_s
    gained_s = float(timeline.locations.end_s.max() - as_fast.locations.end_s.max())
    assert finding.saving_s == pytest.approx(gained_s, rel=0.05)
    assert claim(finding, 3).startswith(f"{name} moves ")


@pytest.mark.parametrize(
    ("hosts", "groups", "slow", "name"),
    [
        ([0, 0, 1, 1, 2, 2, 3, 3], [[0, 2], [1, 3], [4, 6], [5, 7]], between(2, 3), "link between node2 and node3"),
        ([0, 1, 2, 3], [[0, 1], [2, 3], [1, 2], [3, 0]], lambda a, b: 2 in (a, b), "network of node2"),
        ([0, 0, 1, 1, 2, 2, 3, 3], [[0, 2, 4], [1, 3, 7], [5, 6, 2]], between(0, 2), "link between node0 and node2"),
        ([0, 1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]], between(0, 2), "network among node0, node1 and node2"),
    ],
    ids=["a pair", "a host", "what no fast group uses", "a group"],
)
def test_collectives_show_as_much_as_their_groups_tell_apart(
    hosts: list[int], groups: list[list[int]], slow: Slow, name: str
) -> None:
    analysis, _ = analysed(reductions(hosts, groups, slow), hosts)
    assert analysis.findings[0].evidence.link is not None
    assert analysis.findings[0].evidence.link.slow_link == f"The {name}"


@pytest.mark.parametrize(
    ("groups", "slow"),
    [([[0, 1, 2, 3]], between(0, 1)), ([[0, 1], [2, 3]], lambda a, b: True), ([[0, 1], [2, 3]], between(5, 6))],
    ids=["one group", "all slow", "none slow"],
)
def test_without_a_faster_link_to_compare_with_nothing_is_said(groups: list[list[int]], slow: Slow) -> None:
    hosts = [0, 1, 2, 3]
    analysis, _ = analysed(reductions(hosts, groups, slow), hosts)
    assert all(finding.kind != "slow-link" for finding in analysis.findings)


@pytest.mark.parametrize(
    ("slow", "name"),
    [
        (between(2, 3), "The link between node2 and node3"),
        (lambda a, b: 1 in (a, b), "The network of node1"),
    ],
    ids=["a pair", "a host"],
)
def test_connections_show_the_slow_link_of_a_collective_over_all_hosts(slow: Slow, name: str) -> None:
    hosts = [0, 1, 2, 3]
    analysis, timeline = analysed(reductions(hosts, [hosts], slow), hosts, ring_traffic(hosts, slow))
    nowhere = between(5, 6)
    sound, as_fast = analysed(reductions(hosts, [hosts], nowhere), hosts, ring_traffic(hosts, nowhere))
    finding, known = analysis.findings[0], analysis.findings[0].evidence.link
    assert known is not None and (finding.kind, known.slow_link) == ("slow-link", name)
    assert known.link_operation == "allreduce" and known.others_bytes_per_s > 10 * known.link_bytes_per_s
    gained_s = float(timeline.locations.end_s.max() - as_fast.locations.end_s.max())
    assert finding.saving_s == pytest.approx(gained_s, rel=0.05)
    assert all(finding.kind != "slow-link" for finding in sound.findings)


def test_connections_that_are_no_evidence() -> None:
    """Their bytes are acknowledged late, but delivered fast; they are busy for longer than all collectives take;
    messages over the same link are fast."""
    hosts, slow = [0, 1, 2, 3], between(2, 3)
    traffic = ring_traffic(hosts, slow)
    late = tuple(replace(one, bytes_per_s=1e9) for one in traffic)
    longer = tuple(replace(one, busy_s=3 * one.busy_s, longest_s=3 * one.longest_s) for one in traffic)
    ring = reductions(hosts, [hosts], slow)
    messages = [own + others for own, others in zip(ring, exchange(hosts, between(5, 6)), strict=True)]
    for program, counted in ((ring, late), (ring, longer), (messages, traffic)):
        analysis, _ = analysed(program, hosts, counted)
        assert all(finding.kind != "slow-link" for finding in analysis.findings)
