"""Remote calls that were under way in the end: who has to give what others still wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.detectors import analyze
from scalana.detectors.analysis import Analysis
from scalana.graphs.ppg import PPG
from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import EVENT_POST
from tests.graphs.runs import LINES, MS, Rank, build

WAITED_MS = 3000.0
CALL, OTHER, DONE = 11, 12, 13


class Process(Rank):
    """A driver or an actor."""

    def submits(self, call: int, to: int = 0) -> None:
        self.call("submit", self.now, "send", group=0, seq=call, tag=to, flags=EVENT_POST)

    def takes(self, call: int) -> None:
        self.call("take", self.now + 1, "recv", group=0, seq=call)

    def replies(self, call: int) -> None:
        self.call("reply", self.now, "send", group=0, seq=call, flags=EVENT_POST)

    def waits(self, for_call: int = 0, where: str = "wait") -> None:
        """For a result that never comes."""
        path, begin, event = self.path(where), round(self.now * MS), next(self.ids)
        self.ticks(self.now + WAITED_MS, path, 0.0, 2)
        self.writer.open(event, BY_NAME["result"].code, begin, round(self.now * MS), seq=for_call, path=path)


def processes(folder: Path) -> tuple[Process, Process, Process]:
    """A driver and two actors, which all know."""
    known = {"callee 1": "71", "callee 2": "72", "world_size": None}
    driver = Process(folder, 0, 1, role="member", meta={**known, "part": "driver"})
    first, second = (
        Process(folder, 1 + n, 1, role="member", meta={**known, "part": "actor", "made_as": f"7{1 + n}"})
        for n in range(2)
    )
    return driver, first, second


def ended(*some: Process) -> PPG:
    last = max(one.now for one in some)
    for one in some:
        one.work("step", last - one.now)
        one.end()
    return build(some[0].folder)


def awaited(ppg: PPG) -> dict[str, tuple[list[str], bool]]:
    """Who waits, for which processes, and whether nobody has begun with it."""
    one = ppg.run.names.one
    return {
        one(call.rank): (sorted(map(one, call.awaited.ranks)), call.awaited.is_untaken) for call in ppg.run.open_calls
    }


def named(analysis: Analysis) -> list[tuple[str, int]]:
    """The process and the line of each finding."""
    names = analysis.ppg.run.names
    return [(names.many(one.ranks, analysis.ppg.run.ranks), one.line) for one in analysis.findings]


@pytest.mark.parametrize("for_call", [CALL, 0])
def test_who_took_a_call_has_to_return_it(tmp_path: Path, for_call: int) -> None:
    """Also where it is not known which of several results somebody waits for."""
    driver, first, second = processes(tmp_path)
    for call, actor in ((DONE, first), (CALL, second)):
        driver.submits(call)
        actor.takes(call)
    first.replies(DONE)
    driver.waits(for_call)
    second.work("load", WAITED_MS)
    ppg = ended(driver, first, second)
    assert awaited(ppg) == {"the driver": (["actor 1"], False)}
    analysis = analyze(ppg)
    assert named(analysis) == [("actor 1", LINES["load"])]
    assert analysis.findings[0].evidence.as_dict()["unreturned"]


def test_a_process_that_has_done_its_work_and_does_not_end_is_named(tmp_path: Path) -> None:
    """As one does whose queue nobody empties: it has said that it is done, and who joins it waits for more."""
    driver, first, second = processes(tmp_path)
    first.work("load", 20.0)
    first.replies(DONE)
    driver.waits(DONE)
    first.sleep("mask", WAITED_MS)
    ppg = ended(driver, first, second)
    assert awaited(ppg) == {"the driver": (["actor 0"], False)}
    finding = next(one for one in analyze(ppg).findings if one.kind == "hang")
    assert finding.evidence.as_dict()["unended"] and finding.line == LINES["mask"]


def test_actors_that_wait_for_each_other_are_a_cycle(tmp_path: Path) -> None:
    """Neither can take the call of the other one: it is known whose it would be."""
    driver, first, second = processes(tmp_path)
    for number, actor in enumerate((first, second)):
        driver.submits(CALL + number)
        actor.takes(CALL + number)
        actor.submits(31 + number, to=2 - number)
        actor.waits(31 + number)
    driver.waits()
    ppg = ended(driver, first, second)
    both = {"actor 0": (["actor 1"], False), "actor 1": (["actor 0"], False)}
    assert awaited(ppg) == {"the driver": (["actor 0", "actor 1"], False), **both}
    analysis = analyze(ppg)
    (finding,) = [one for one in analysis.findings if one.kind == "hang"]
    assert finding.line == LINES["wait"] and len(finding.evidence.as_dict()["circle"]) == 2


def test_a_call_that_nobody_begins_is_named_where_it_is_waited_for(tmp_path: Path) -> None:
    driver, first, second = processes(tmp_path)
    driver.submits(CALL)
    second.takes(CALL)
    second.submits(OTHER)
    driver.waits(CALL)
    second.waits(OTHER, "gather")
    ppg = ended(driver, first, second)
    assert awaited(ppg) == {"the driver": (["actor 1"], False), "actor 1": ([], True)}
    analysis = analyze(ppg)
    assert named(analysis) == [("actor 1", LINES["gather"])]
    assert "no process has begun" in analysis.findings[0].advice
