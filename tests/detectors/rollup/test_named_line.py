"""The line that is named: the call of a small helper, or a line of the function that is the cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.contexts import same_work
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from tests.detectors.jobs import steps
from tests.detectors.simulator import simulate

FILE = "/job/solve.py"


@dataclass
class Program:
    """A program whose ``main`` meets the other ranks in each round of a loop; work is known by name."""

    psg: PSG = field(default_factory=PSG)
    names: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Vertex and line of all work."""

    def __post_init__(self) -> None:
        self.main = self.function("main", 100, 0)
        self.loop = self.add(VertexKind.LOOP, 101, self.main, last=199)
        self.comm = self.psg.add(VertexKind.COMM, Place(FILE, 199, 199, 8, "allreduce"), self.loop, 1)

    def add(self, kind: VertexKind, line: int, parent: int, last: int = 0, name: str = "") -> int:
        return self.psg.add(kind, Place(FILE, line, last or line, 0, name), parent)

    def function(self, name: str, line: int, parent: int, site: int = 0) -> int:
        """A function that is called at the line ``site``, below ``parent``."""
        called = Place(FILE, site, site, 4, name) if site else None
        return self.psg.add(VertexKind.FUNCTION, Place(FILE, line, line + 9, 0, name), parent, site=called)

    def work(self, name: str, parent: int, line: int, last: int = 0) -> None:
        """Some lines of a function's own code; the time is spent in the first."""
        self.names[name] = self.add(VertexKind.COMP, line, parent, last), line

    def in_loop(self, name: str, line: int, site: int, loop: int) -> int:
        """A function that ``main`` calls at a line, and the loop in it."""
        return self.add(VertexKind.LOOP, loop, self.function(name, line, self.loop, site), last=loop + 3)

    def found(self, cost: Callable[[int, int], dict[str, float]]) -> list[tuple[int, str, list[int], object]]:
        """Line, function, ranks and leaf of the findings where work costs so many ms by step and rank."""
        timeline, names = simulate(steps(4, 40, cost, noise=0.03))
        where = [self.names.get(name, (self.comm, 199)) for name in names]
        vertices, lines = (np.array(column) for column in zip(*where, strict=True))
        timeline.activities.vertex, timeline.activities.line = vertices, lines
        timeline.calls.vertex = vertices[timeline.calls.vertex]
        waits = find_waits(timeline)
        table = blame(timeline, waits, same_work(timeline, self.psg))
        found = detect(timeline, self.psg, Waiting(waits, table, prepare(timeline), find_task_farms(timeline)))
        return [(f.line, f.function, f.ranks, f.evidence.as_dict().get("leaf")) for f in found]


def leaf(function: str, line: int, calls: int) -> dict[str, object]:
    return {"file": FILE, "line": line, "function": function, "calls": calls}


def shared(lines: int = 1, *, loop: bool = False, repeated: bool = True) -> Program:
    """``drain`` and ``repair`` both call ``pause``, at lines 12 and 22; it has a loop of its own, or so many lines."""
    program = Program()
    for name, line, site in (("drain", 10, 110), ("repair", 20, 120)):
        function = program.function(name, line, program.loop, site)
        caller = program.add(VertexKind.LOOP, line + 1, function, last=line + 3) if repeated else function
        pause = program.function("pause", 30, caller, line + 2)
        inside = program.add(VertexKind.LOOP, 31, pause, last=32) if loop else pause
        program.work(name, inside, 32 if loop else 31, 0 if loop else 30 + lines)
        program.work(f"{name}, otherwise", program.add(VertexKind.BRANCH, 37, pause, last=38), 38)
    return program


def more_repairs(step: int, rank: int) -> dict[str, float]:
    return {"drain": 10.0, **({"repair": 40.0} if rank == 2 else {})}


def slower(step: int, rank: int) -> dict[str, float]:
    return {"drain": 40.0 if rank == 2 else 10.0, "repair": 20.0 if rank == 2 else 5.0}


@pytest.mark.parametrize("loop", [False, True], ids=["straight", "a loop"])
def test_a_helper_that_one_rank_calls_more_is_named_by_its_call(loop: bool) -> None:
    line = 32 if loop else 31
    assert shared(loop=loop).found(more_repairs) == [(22, "repair", [2], leaf("pause", line, 2))]


@pytest.mark.parametrize("loop", [False, True], ids=["straight", "a loop"])
def test_a_function_that_is_slower_wherever_it_is_called_is_the_cause_itself(loop: bool) -> None:
    ((line, function, ranks, shown),) = shared(loop=loop).found(slower)
    assert (line, function, ranks, shown) == (32 if loop else 31, "pause", [2], None)


def test_a_helper_that_does_more_in_one_call_is_named_by_that_call() -> None:
    # What calls nothing but the helper is a wrapper.
    assert shared(loop=True, repeated=False).found(more_repairs) == [(120, "main", [2], leaf("pause", 32, 2))]
    assert shared(repeated=False).found(more_repairs) == [(120, "main", [2], leaf("pause", 31, 2))]


def test_a_helper_that_others_call_elsewhere_is_named_by_the_call_that_takes_longer() -> None:
    """Rank 2 runs ``repair`` where the others run ``drain``."""

    def instead(step: int, rank: int) -> dict[str, float]:
        return {"repair": 40.0} if rank == 2 else {"drain": 10.0}

    assert shared(loop=True).found(instead) == [(22, "repair", [2], leaf("pause", 32, 2))]


def test_a_line_that_is_reached_from_many_places_is_one_cause() -> None:
    """Five layers, all called at line 110, call ``check``, which does more on rank 2."""
    program = Program()
    for number in range(5):
        layer = program.function(f"layer{number}", 10 * number + 10, program.loop, 110)
        check = program.function("check", 70, layer, 10 * number + 12)
        program.work(f"layer {number}", layer, 10 * number + 11)
        program.work(f"check {number}", program.add(VertexKind.BRANCH, 71, check, last=72), 72)

    def cost(step: int, rank: int) -> dict[str, float]:
        more = {f"check {number}": 8.0 for number in range(5)} if rank == 2 else {}
        return {**{f"layer {number}": 5.0 for number in range(5)}, **more}

    ((line, function, ranks, _),) = program.found(cost)
    assert (line, function, ranks) == (72, "check", [2])


def test_a_little_more_on_other_ranks_does_not_make_a_helper_slow_everywhere() -> None:
    """Ranks that share cores are late now and then in whatever they compute: rank 1 in what rank 2 does as usual."""

    def also_late(step: int, rank: int) -> dict[str, float]:
        return {**more_repairs(step, rank), "drain": 80.0 if rank == 1 and step % 3 == 0 else 10.0}

    (first, *_) = shared(loop=True).found(also_late)
    assert first == (22, "repair", [2], leaf("pause", 32, 2))


def test_a_helper_that_all_run_is_named_by_its_call_though_all_are_late_now_and_then() -> None:
    def in_turn(step: int, rank: int) -> dict[str, float]:
        odd, other = step % 2, step // 2 % 4
        more = 60.0 if rank == 2 and not odd else 8.0 if odd and other == rank else 0.0
        return {"drain": 10.0, "repair": 10.0 + more}

    assert shared(loop=True, repeated=False).found(in_turn)[0] == (120, "main", [2], leaf("pause", 32, 2))


def behind(more: str = "") -> Program:
    """``main`` calls ``common`` at lines 110 and 120; that calls ``inner``, at one line, which has a loop; and, in one
    of the two, also a branch."""
    program = Program()
    for name, site in (("usual", 110), ("repair", 120)):
        common = program.function("common", 10, program.loop, site)
        inner = program.function("inner", 30, common, 12)
        program.work(name, program.add(VertexKind.LOOP, 31, inner, last=32), 32)
        if more and name == "repair":
            program.work(more, program.add(VertexKind.BRANCH, 35, inner, last=36), 36)
    return program


def test_more_behind_one_call_of_a_shared_function_is_named_by_that_call() -> None:
    def cost(step: int, rank: int) -> dict[str, float]:
        return {"usual": 10.0, "repair": 40.0 if rank == 2 else 5.0}

    assert behind().found(cost) == [(120, "main", [2], leaf("inner", 32, 1))]


def test_what_is_done_behind_one_call_alone_says_more_than_that_call() -> None:
    def cost(step: int, rank: int) -> dict[str, float]:
        return {"usual": 10.0, "repair": 5.0, **({"otherwise": 40.0} if rank == 2 else {})}

    ((line, function, ranks, _),) = behind("otherwise").found(cost)
    assert (line, function, ranks) == (36, "inner", [2])


def test_a_function_with_a_loop_that_nobody_else_runs_is_the_cause_itself() -> None:
    def alone(step: int, rank: int) -> dict[str, float]:
        return {"repair": 40.0} if rank == 2 else {}

    assert shared(loop=True).found(alone) == [(32, "pause", [2], None)]


def test_another_part_of_the_function_than_elsewhere_tells_more_than_its_call() -> None:
    def another(step: int, rank: int) -> dict[str, float]:
        return {"drain": 10.0, **({"repair, otherwise": 40.0} if rank == 2 else {})}

    assert shared(loop=True).found(another)[0][:3] == (22, "repair", [2])  # small, and straight but for its branch
    large = shared(lines=20)
    assert large.found(another) == [(38, "pause", [2], None)]
    assert large.found(more_repairs) == [(22, "repair", [2], leaf("pause", 31, 2))]  # as it is elsewhere


def called_once(lines: int, *, repeated: bool = True, name: str = "pause", added: bool = False) -> Program:
    """Only ``wait`` calls ``pause``, at line 12; or a call that the source does not show leads there."""
    program = Program()
    function = program.function("wait", 10, program.loop, 110)
    parent = program.add(VertexKind.LOOP, 11, function, last=13) if repeated else function
    program.work("test", parent, 12)
    if added:
        parent = program.add(VertexKind.CALL, 12, parent, name=name)
    program.work("pause", program.function(name, 30, parent, 0 if added else 12), 31, 30 + lines)
    return program


def waits_longer(step: int, rank: int) -> dict[str, float]:
    return {"test": 2.0, "pause": 40.0} if rank == 2 else {"test": 2.0, "pause": 1.0}


def test_a_wrapper_in_a_loop_is_named_by_its_call() -> None:
    assert called_once(2).found(waits_longer) == [(12, "wait", [2], leaf("pause", 31, 1))]
    assert called_once(2, added=True).found(waits_longer) == [(12, "wait", [2], leaf("pause", 31, 1))]


def test_a_wrapper_that_nobody_else_runs_is_the_cause_itself() -> None:
    def alone(step: int, rank: int) -> dict[str, float]:
        return {"test": 2.0, **({"pause": 40.0} if rank == 2 else {})}

    assert called_once(2).found(alone) == [(12, "wait", [2], leaf("pause", 31, 1))]  # a loop that waits
    program = called_once(2)
    caller = program.function("rest", 40, program.loop, 140)
    program.work("again", program.function("pause", 30, caller, 42), 31, 32)

    def at_two_lines(step: int, rank: int) -> dict[str, float]:
        return {"test": 2.0, **({"pause": 30.0, "again": 10.0} if rank == 2 else {})}

    assert program.found(at_two_lines) == [(31, "pause", [2], None)]


def test_a_function_that_a_name_may_stand_for_and_that_never_ran_is_no_choice() -> None:
    """``helper(...)`` in two functions, where the source has two functions that it may be."""
    program = shared()
    for site in (12, 22):
        caller = next(v.parent for v in program.psg.vertices if v.site is not None and v.site.line == site)
        program.function("spin", 50, caller, site)
        sites = [v for v in program.psg.vertices if v.parent == caller and v.site is not None]
        program.psg.vertices[sites[1].index] = replace(sites[1], site=sites[0].site)
    assert program.found(more_repairs) == [(22, "repair", [2], leaf("pause", 31, 2))]


def test_no_wrapper_is_what_is_long_or_run_once_or_one_of_many_methods() -> None:
    assert called_once(8).found(waits_longer) == [(31, "pause", [2], None)]
    assert called_once(2, repeated=False).found(waits_longer) == [(31, "pause", [2], None)]
    method = called_once(2, name="Log.on_batch", added=True)
    assert method.found(waits_longer) == [(31, "Log.on_batch", [2], None)]


@pytest.mark.parametrize(
    ("head", "text", "expected"),
    [
        ("while clock.now() < until", "clock.tick()", (12, "wait")),
        ("for cell in range(cells)", "self.clock.tick()", (12, "wait")),
        ("for clock in clocks", "clock.tick()", (31, "Clock.tick")),
        ("for number in range(clocks)", "clocks[number].tick()", (31, "Clock.tick")),
        ("while waits", "getattr(clock, name)()", (31, "Clock.tick")),
    ],
)
def test_a_method_is_known_where_the_loop_does_not_choose_its_object(
    head: str, text: str, expected: tuple[int, str]
) -> None:
    program = called_once(2, name="Clock.tick", added=True)
    line = program.psg[program.names["test"][0]]
    line.place = replace(line.place, name=text)
    loop = program.psg[line.parent]
    loop.place = replace(loop.place, name=head)
    program.psg[program.psg.enclosing(program.names["pause"][0], VertexKind.CALL)].parent = line.index
    ((number, function, _, _),) = program.found(waits_longer)
    assert (number, function) == expected


def test_a_line_that_calls_now_this_and_now_that_function_does_not_tell_which() -> None:
    program = called_once(2, added=True)
    call = program.psg[program.names["pause"][0]].parent
    program.function("other", 50, program.psg[call].parent)
    assert program.found(waits_longer) == [(31, "pause", [2], None)]


def test_what_only_forwards_is_passed_on_the_way_out() -> None:
    program = Program()
    program.work("drain", program.function("pause", 30, program.loop, 110), 31)
    parent = program.in_loop("repair", 20, 120, 21)
    for name, line, site in (("again", 40, 22), ("<lambda>", 50, 41), ("pause", 30, 51)):
        parent = program.function(name, line, parent, site)
    program.work("repair", parent, 31)
    assert program.found(more_repairs) == [(22, "repair", [2], leaf("pause", 31, 2))]


def test_a_method_that_only_forwards_tells_which_object_it_is_of() -> None:
    program = Program()
    program.work("drain", program.function("pause", 30, program.loop, 110), 31)
    parent = program.in_loop("repair", 20, 120, 21)
    method = program.function("Slow.run", 40, program.add(VertexKind.CALL, 22, parent, name="Slow.run"))
    program.work("repair", program.function("pause", 30, method, 41), 31)
    assert program.found(more_repairs) == [(41, "Slow.run", [2], leaf("pause", 31, 2))]


def test_a_clock_that_two_ranks_read_more_in_loops_of_their_own_is_not_slower() -> None:
    program = Program()
    for name, line, site in (("first", 10, 110), ("second", 20, 120), ("both", 40, 140)):
        function = program.in_loop(name, line, site, line + 1)
        program.work(name, program.function("now", 30, function, line + 2), 31)

    def turns(step: int, rank: int) -> dict[str, float]:
        return {"both": 10.0, **({"first": 40.0} if rank == 1 else {"second": 35.0} if rank == 2 else {})}

    found = program.found(turns)
    assert found[0] == (12, "first", [1], leaf("now", 31, 3))
    assert all(function != "now" for _, function, _, _ in found)


def test_what_stays_below_a_helper_keeps_the_rest_there() -> None:
    program = Program()
    for name, line, site in (("drain", 10, 110), ("repair", 20, 120)):
        step = program.function("step", 40, program.in_loop(name, line, site, line + 1), line + 2)
        program.work(name, step, 41)
        kernel = program.function(f"kernel of {name}", 60, step, 42)
        program.work(f"{name}, kernel", program.add(VertexKind.LOOP, 61, kernel, last=62), 62)

    def more(step: int, rank: int) -> dict[str, float]:
        return {"drain": 10.0, **({"repair": 5.0, "repair, kernel": 40.0} if rank == 2 else {})}

    assert program.found(more)[0][:3] == (62, "kernel of repair", [2])


def test_calls_of_a_helper_that_another_line_makes_up_for_are_no_cause() -> None:
    program = Program()
    solve = program.function("solve", 10, program.loop, 110)
    for name, line in (("before", 12), ("after", 14)):
        program.work(name, program.function("pause", 30, solve, line), 31)
    program.work("norm", solve, 16)

    def otherwise(step: int, rank: int) -> dict[str, float]:
        early = rank == 3
        return {"before": 30.0 if early else 10.0, "after": 10.0 if early else 30.0, "norm": 8.0 if early else 0.0}

    def more(step: int, rank: int) -> dict[str, float]:
        return {"before": 40.0 if rank == 3 else 10.0, "after": 10.0, "norm": 8.0}

    assert [found[:3] for found in program.found(otherwise)] == [(16, "solve", [3])]
    assert program.found(more) == [(12, "solve", [3], leaf("pause", 31, 2))]


def test_a_wrapper_of_a_wrapper_is_one_helper() -> None:
    program = Program()
    for name, line, site in (("drain", 10, 110), ("repair", 20, 120)):
        function = program.function(name, line, program.loop, site)
        program.work(f"{name}, otherwise", function, line + 8)
        pause = program.function("pause", 30, function, line + 2)
        program.work(name, program.function("sleep", 60, pause, 31), 61)
    assert program.found(more_repairs) == [(22, "repair", [2], leaf("sleep", 61, 1))]


def test_procedures_of_fortran_are_one_stretch_each_and_are_known_where_they_were_seen() -> None:
    program = Program()

    def procedure(name: str, line: int, last: int, parent: int, site: int) -> int:
        call = program.add(VertexKind.CALL, site, parent, name=name)
        function = program.psg.add(VertexKind.FUNCTION, Place(FILE, line, last, 0, name), call)
        return program.add(VertexKind.COMP, line, function, last)

    for name, line, site in (("drain", 10, 110), ("repair", 20, 120)):
        caller = procedure(f"cells::{name}", line, line + 8, program.loop, site)
        wrapper = procedure("cells::pause", 40, 43, caller, line + 3)
        program.names[name] = procedure("rest", 50, 50, wrapper, 41), 50
    assert program.found(more_repairs) == [(23, "cells::repair", [2], leaf("rest", 50, 1))]


def test_a_wrapper_of_a_wrapper_that_is_called_once_is_not() -> None:
    alone = called_once(2, repeated=False)
    alone.work("pause", alone.function("sleep", 60, alone.psg[alone.names["pause"][0]].parent, 31), 61)
    assert alone.found(waits_longer) == [(61, "sleep", [2], None)]
