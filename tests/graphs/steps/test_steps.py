"""Which steps a run has: marked ones, and those that repeated communication shows."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.steps.find_steps import SOURCES, find_steps
from scalana.graphs.steps.marked import Marks
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps, with_warm_up
from scalana.graphs.steps.window import gap_edges, window
from scalana.graphs.structure.psg import PSG, Place, Vertex, VertexKind
from tests.detectors.jobs import structure
from tests.detectors.simulator import simulate

RANKS = 4
ALL = list(range(RANKS))


def recorded(marks):
    """Marks, given as (marker, number, rank, start_s, end_s)."""
    marker, *columns = zip(*marks, strict=True) if marks else [()] * 5
    number, rank, start, end = (np.array(column) for column in columns)
    return Marks(list(marker), number.astype(int), rank.astype(int), start.astype(float), end.astype(float))


def every(operation="allreduce"):
    return ("coll", operation, ALL, 0 if operation in ("broadcast", "reduce") else -1)


def work(ms, name="compute"):
    return ("work", name, ms)


def alike(actions):
    """The same program on every rank."""
    return [list(actions) for _ in range(RANKS)]


def looped(names, **loops):
    """A structure with one function, in which an operation lies in the loops named for it, the outermost first."""
    psg = PSG()
    psg.vertices.clear()
    count, chains = len(names), sorted({chain[:n] for chain in loops.values() for n in range(1, len(chain) + 1)})
    number = {chain: count + 1 + row for row, chain in enumerate(chains)}
    for index, name in enumerate(names):
        kind = VertexKind.COMM if name not in ("compute",) else VertexKind.COMP
        parent = number[loops[name]] if name in loops else count
        psg.vertices.append(Vertex(index, kind, Place("/job/a.py", index + 1, index + 1, 0, name), parent, index))
    psg.vertices.append(Vertex(count, VertexKind.FUNCTION, Place("/job/a.py", 1, 99, 0, "main"), -1, count))
    for chain, index in number.items():
        parent = number[chain[:-1]] if len(chain) > 1 else count
        psg.vertices.append(Vertex(index, VertexKind.LOOP, Place("/job/a.py", 1, 99, 0, chain[-1]), parent, index))
    return psg


def found(program, marks=(), **loops):
    timeline, names = simulate(program)
    return find_steps(timeline, looped(names, **loops) if loops else structure(names), recorded(marks))


def test_a_collective_again_and_again_shows_the_steps_from_its_first_turn_on():
    steps = found(alike([work(500), every("barrier"), *[work(10), every()] * 20, work(70)]))
    assert steps.source == "communication" and len(steps) == 20 and steps.warm_up == 0
    assert steps.length_s() == pytest.approx(np.full(20, 0.01))
    assert steps.start_s[0] == pytest.approx(0.5) and steps.end_s[-1] == pytest.approx(0.7)
    assert steps.steady_s() == pytest.approx(0.2)


@pytest.mark.parametrize("loops", [{}, {"allreduce": ("steps",), "broadcast": ("steps",), "reduce": ("steps",)}])
def test_rare_calls_are_part_of_steps(loops):
    actions = [every("barrier")]
    for step in range(100):
        actions += [work(10), every()]
        actions += [work(30, "save"), every("broadcast")] if step % 50 == 49 else []
        actions += [every("reduce")] if step % 10 == 9 else []
    steps = found(alike(actions), **loops)
    assert len(steps) == 100
    assert np.median(steps.length_s()) == pytest.approx(0.01)


def test_of_nested_loops_the_outermost_counts_whatever_its_inner_ones_do():
    """Halo exchange, and a solver that takes a different number of turns each time."""
    random, actions = np.random.default_rng(1), []
    for _ in range(30):
        actions += [work(5), every("barrier"), *[work(1), every()] * int(random.integers(3, 40))]
    loops = {"barrier": ("time",), "allreduce": ("time", "solver")}
    steps = found(alike(actions), **loops)
    assert len(steps) == 30


@pytest.mark.parametrize("counts", [[8] * 30, [3, 8, 5, 6, 4, 9] * 5], ids=["even", "uneven"])
def test_a_loop_whose_calls_all_stand_in_an_inner_loop_shows_its_turns_by_what_it_does_in_between(counts):
    actions = [every("barrier")]
    for count in counts:
        actions += [work(50), *[work(1, "fill"), every()] * count]
    steps = found(alike(actions), compute=("steps",), fill=("steps", "inner"), allreduce=("steps", "inner"))
    assert len(steps) == len(counts)
    assert steps.length_s()[1:-1] == pytest.approx([0.05 + 0.001 * count for count in counts[1:-1]])


def test_a_line_that_makes_two_calls_a_turn_makes_one_step_of_it():
    """As ``bcast`` of an object does: its size, and the object."""
    timeline, names = simulate(alike([work(10), every("broadcast"), every("broadcast"), every("barrier")] * 20))
    timeline.calls.nbytes[:] = np.tile([8, 4000, 0], len(timeline.calls) // 3)
    psg = looped(names, broadcast=("steps",), barrier=("steps",), compute=("steps",))
    assert len(find_steps(timeline, psg, recorded(()))) == 20


def test_a_phase_of_another_kind_lies_between_steps():
    train, evaluate = [work(10), every()] * 50, [work(2, "score"), every("reduce")] * 8
    loops = {"allreduce": ("train",), "reduce": ("evaluate",)}
    for told in (loops, {}):
        steps = found(alike([every("barrier"), *train, *evaluate, *train]), **told)
        assert len(steps) == 100, told
        assert steps.length_s() == pytest.approx(np.full(100, 0.01))
        assert steps.steady_s() == pytest.approx(1.0)
        assert steps.end_s[-1] - steps.start_s[0] == pytest.approx(1.016)


def test_calls_of_one_line_tell_the_steps_by_their_sizes():
    """``for p in parameters: all_reduce(p.grad)`` in a loop over steps: no call stands in that loop itself."""
    timeline, names = simulate(alike([work(8), *[every()] * 5] * 12))
    timeline.calls.nbytes[:] = np.tile([400, 40, 40, 900, 10], len(timeline.calls) // 5)
    steps = find_steps(timeline, looped(names, allreduce=("steps", "parameters")), recorded([]))
    assert len(steps) == 12 and steps.length_s()[1:] == pytest.approx(np.full(11, 0.008))


def ring(rank, count, ms):
    """Messages to the next rank and from the one before."""
    return [work(ms), ("send", (rank + 1) % RANKS), ("recv", (rank - 1) % RANKS)] * count


def test_messages_alone_show_steps_where_all_ranks_make_as_many():
    steps = found([ring(rank, 15, 10 + rank) for rank in ALL])
    assert len(steps) == 15 and not np.isnan(steps.end_s).any()
    assert np.isnan(steps.start_s[0]).all() and steps.warm_up == 1  # nobody knows where the first begins


def farm():
    """A manager that hands out tasks in turn, of which ranks get unequal numbers."""
    tasks = [1, 2, 3, 1, 1, 2, 1, 3, 1, 1, 2, 1]
    manager = [action for worker in tasks for action in (("recv", worker), ("send", worker))]
    workers = [[work(3), ("send", 0), ("recv", 0)] * tasks.count(rank) for rank in ALL[1:]]
    return [manager, *workers]


@pytest.mark.parametrize(
    "program",
    [
        alike([work(10)]),
        alike([work(10), every()]),
        alike([work(10), every(), work(300), every("broadcast"), work(20), every("barrier"), work(4), every("reduce")]),
        alike([work(5), *[every(), every("reduce")][:2], every("barrier"), every("broadcast"), every()]),
        farm(),
    ],
    ids=["no call", "one call", "nothing twice", "nothing three times", "task farm"],
)
def test_what_does_not_repeat_has_no_steps(program):
    assert found(program) is None


def test_calls_in_no_order_have_no_steps():
    random = np.random.default_rng(3)
    names = ["allreduce", "reduce", "broadcast", "barrier"]
    assert found(alike([every(names[n]) for n in random.integers(0, 4, 400)])) is None


def test_thinned_calls_show_no_steps():
    from scalana.graphs.timeline import Unwritten

    timeline, names = simulate(alike([work(10), every()] * 20))
    gaps = len(timeline.calls) + len(timeline.locations)
    timeline.unwritten = Unwritten(np.zeros(gaps), np.ones(len(timeline.calls)))
    assert find_steps(timeline, structure(names), recorded([])) is None


def marks(marker="user", count=10, first=1, ranks=ALL):
    return [(marker, first + n, rank, 1.0 + n, 2.0 + n) for rank in ranks for n in range(count)]


def test_sources_are_asked_in_order():
    program = alike([work(10), every()] * 20)
    told = [("schedule", 3), ("optimizer", 4), ("trainer", 5), ("user", 6)]
    known = []
    assert found(program).source == "communication"
    for marker, count in told:
        known = [*marks(marker, count), *known]
        steps = found(program, known)
        assert steps.source == ("scalana.step" if marker == "user" else marker) and len(steps) == count + 1
    assert [source.name for source in SOURCES] == ["scalana.step", *[m for m, _ in told[2::-1]], "communication"]


def test_the_first_mark_ends_a_step_whose_beginning_nobody_knows():
    steps = found(alike([work(10)]), marks())
    assert steps.number.tolist() == list(range(11)) and steps.warm_up == 1
    assert np.isnan(steps.start_s[0]).all() and steps.end_s[0] == pytest.approx(1.0)
    counted = found(alike([work(10)]), marks(first=0))
    assert counted.number.tolist() == list(range(10)) and counted.warm_up == 0


def test_marks_that_only_some_ranks_set_hold_for_all():
    steps = found(alike([work(10)]), marks(first=0, ranks=[0, 2]))
    start, end = steps.on_all_ranks()
    assert np.isnan(steps.start_s[:, [1, 3]]).all()
    assert start[3] == pytest.approx(4.0) and end[3] == pytest.approx(5.0)


def test_marks_that_count_anew_are_numbered_by_time():
    again = [("", n % 3, 0, float(n), n + 1.0) for n in range(6)]
    assert found(alike([work(10)]), again).number.tolist() == list(range(6))


def of_lengths(*lengths, ahead=False):
    ends = np.cumsum(lengths)[:, None] * np.ones(RANKS)
    return with_warm_up(Steps("test", np.arange(len(lengths)), ends - np.array(lengths)[:, None], ends, ahead=ahead))


def test_long_steps_at_the_beginning_are_start_up_and_later_ones_are_slow():
    steps = of_lengths(9.0, 2.0, *[1.0, 1.01, 0.99, 1.02] * 5, 3.0, 1.0, 4.0, 1.0)
    assert steps.warm_up == 2
    assert steps.slow().tolist() == [24, 22]
    assert of_lengths(1.0, 1.1, 0.9, 1.2).warm_up == 0
    assert of_lengths(5.0, 1.0).warm_up == 0  # of two nobody knows which is ordinary


LAUNCHED = [0.1] * 9
"""Steps that a host only launches; the one after them takes the device's time of all ten."""


@pytest.mark.parametrize(
    ("lengths", "slow"),
    [
        ([*LAUNCHED, 9.1] * 4, []),
        ([1.0] * 10 + [*LAUNCHED, 9.1] * 3, []),  # a host that waits in every step at first
        ([*LAUNCHED, 9.1] * 2 + [*LAUNCHED, 19.1] + [*LAUNCHED, 9.1], [29]),
        ([*LAUNCHED, 9.1, *LAUNCHED], []),  # once: nobody knows what is ordinary
    ],
)
def test_where_hosts_launch_ahead_a_step_is_as_long_as_on_average_with_those_before_it(lengths, slow):
    steps = of_lengths(30.0, *lengths, ahead=True)
    assert steps.warm_up == 1 and (steps.slow() - 1).tolist() == slow
    assert len(of_lengths(*[0.1] * 20, *lengths).slow()) > len(slow)  # each by itself


def test_steps_that_vary_by_themselves_are_not_slow():
    random = np.random.default_rng(5)
    steps = of_lengths(*random.normal(1.0, 0.15, 400))
    assert len(steps.slow()) <= 1


def test_periods():
    periods = Periods.joined(np.array([1, 0, 0, 0]), np.array([5.0, 2, 1, 6]), np.array([6.0, 4, 3, 7]), 3)
    assert periods.rank_s().tolist() == [4.0, 1.0, 0.0]
    rank, since, until = np.array([0, 0, 1, 2]), np.array([0.0, 3.5, 5.5, 0]), np.array([10.0, 6.5, 5.75, 9])
    assert periods.inside_s(rank, since, until).tolist() == [4.0, 1.0, 0.25, 0.0]
    assert periods.row_at(np.array([0, 0, 0, 1]), np.array([1.0, 4.0, 6.5, 5.5])).tolist() == [-1, 0, 1, 0]


@pytest.fixture
def uneven():
    random = np.random.default_rng(2)
    program = [[] for _ in ALL]
    for _ in range(25):
        for rank in ALL:
            program[rank] += [work(float(random.uniform(1, 9)), "compute"), every()]
            program[rank] += [work(2.0, "send"), ("send", (rank + 1) % RANKS), ("recv", (rank - 1) % RANKS)]
    return simulate(program)[0]


@pytest.mark.parametrize("seen", [False, True])
def test_windows_cut_everything_and_lose_nothing(uneven, seen):
    from scalana.detectors.delays.wait_states import find_waits

    if seen:  # of every other row when it was seen: in the first half of its gap
        begin, end = gap_edges(uneven)
        uneven.own.seen_row = np.arange(0, len(uneven.own), 2)
        gap = uneven.own.burst[uneven.own.seen_row]
        uneven.own.seen_s = np.stack((begin[gap], (begin[gap] + end[gap]) / 2), axis=1)
    edges = np.linspace(0.0, uneven.locations.end_s.max(), 14)
    sums = np.zeros(3)
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        part = window(uneven, np.full(RANKS, start), np.full(RANKS, end))
        begin, stop = gap_edges(part)
        held = np.bincount(part.own.burst, part.own.seconds, len(begin))
        assert held == pytest.approx(stop - begin, abs=1e-9)
        assert (np.diff(part.own.burst) >= 0).all()
        sums += part.own.seconds.sum(), part.call_s().sum(), find_waits(part).total_s
    assert sums == pytest.approx([uneven.own.seconds.sum(), uneven.call_s().sum(), find_waits(uneven).total_s])


def test_work_is_divided_by_when_it_was_seen():
    """One rank without calls: it starts for 8 s, and computes for 2 s."""
    timeline, names = simulate([[work(8000, "start"), work(2000)]])
    timeline.own.seen_row, timeline.own.seen_s = np.arange(2), np.array([[0.0, 8.0], [8.0, 10.0]])
    part = window(timeline, np.array([7.5]), np.array([9.5]))
    seconds = dict(zip([names[row] for row in part.own.activity], part.own.seconds, strict=True))
    assert seconds == {"start": pytest.approx(0.5), "compute": pytest.approx(1.5)}
    timeline.own.seen_s[1] = [9.0, 10.0]  # where that does not fill the window, more of what lies there is taken
    assert window(timeline, np.array([7.0]), np.array([9.0])).own.seconds.sum() == pytest.approx(2.0)


def test_marked_steps_of_a_window_are_those_that_lie_in_it(uneven):
    uneven.steps = np.array([[rank, n / 10, (n + 1) / 10] for rank in ALL for n in range(3)])
    uneven.step_number = np.tile(np.arange(3), RANKS)
    part = window(uneven, np.full(RANKS, 0.1), np.full(RANKS, 0.15))
    assert part.step_number.tolist() == [1] * RANKS and part.steps[:, 0].tolist() == ALL


def test_what_is_waited_for_is_in_the_window_even_if_no_call_there_posts_to_it(uneven):
    """Signals are given by calls that post to something else."""
    calls = uneven.calls
    waited = np.flatnonzero(calls.waits == calls.posts[0])
    calls.posts[calls.posts == calls.posts[0]] = -1
    part = window(uneven, np.full(RANKS, -1.0), np.full(RANKS, 1e9))
    assert (part.calls.waits >= 0).all() and len(part.calls.waits) == len(calls.waits) and len(waited)


def test_a_window_of_everything_changes_nothing(uneven):
    part = window(uneven, np.full(RANKS, -1.0), np.full(RANKS, 1e9))
    for table in ("calls", "instances", "own", "locations"):
        for name in type(getattr(uneven, table)).__slots__:
            assert np.array_equal(getattr(getattr(part, table), name), getattr(getattr(uneven, table), name)), name
