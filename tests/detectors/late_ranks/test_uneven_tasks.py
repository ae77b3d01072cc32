"""Among ranks that hand work on, a different one may take longer in each step; that they wait in turn does not tell."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.detectors.delays.blame import blame
from scalana.detectors.delays.wait_states import find_waits
from scalana.detectors.late_ranks.late_ranks import Waiting, detect
from scalana.detectors.noise.task_farms import find_task_farms
from scalana.detectors.whatif.replay import prepare
from scalana.graphs.structure.psg import VertexKind
from tests.detectors.jobs import analyse, structure
from tests.detectors.simulator import simulate

SWEEPS, BLOCKS = 40, 6


def wavefront(cost, *, across, down=1, noise=0.03):
    """Sweeps over a grid of ranks, from each corner in turn; ``cost(sweep, block, rank, random)`` is ``{activity: ms}``
    of every block, which comes from the ranks before and goes to those behind."""
    random = np.random.default_rng(1)
    everyone = ("coll", "barrier", list(range(across * down)), -1)
    program = [[everyone] for _ in range(across * down)]
    for sweep in range(SWEEPS):
        right, up = (-1 if sweep % 2 else 1), (-1 if sweep % 4 > 1 else 1)
        for rank, actions in enumerate(program):
            column, row = rank % across, rank // across
            before = [column - right + row * across] * (0 <= column - right < across)
            before += [column + (row - up) * across] * (0 <= row - up < down)
            behind = [column + right + row * across] * (0 <= column + right < across)
            behind += [column + (row + up) * across] * (0 <= row + up < down)
            for block in range(BLOCKS):
                actions += [("recv", other) for other in before]
                for name, ms in cost(sweep, block, rank, random).items():
                    actions.append(("work", name, ms * float(np.exp(random.normal(0.0, noise)))))
                actions += [("send", other) for other in behind]
    for actions in program:
        actions.append(everyone)
    return program


def in_turn(ranks, times=3.0):
    """Block after block, another rank takes longer."""
    return lambda sweep, block, rank, random: {
        "relax": 5.0 * (times if (sweep * BLOCKS + block) % ranks == rank else 1)
    }


def end_s(program):
    return float(simulate(program)[0].locations.end_s.max())


GRIDS = [(4, 1), (2, 2), (8, 1), (4, 2)]


@pytest.mark.parametrize(("across", "down"), GRIDS)
@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_another_rank_takes_longer_for_each_block(across, down, period_s):
    ranks = across * down
    ((name, finding),) = analyse(wavefront(in_turn(ranks), across=across, down=down), period_s=period_s)[0]
    assert (name, finding.ranks) == ("relax", list(range(ranks)))
    slow, quick = (end_s(wavefront(in_turn(ranks, times), across=across, down=down)) for times in (3.0, 1.0))
    # A rank that ends one sweep begins the next: these two blocks are one piece, which one of them does not make large.
    assert finding.saving_s == pytest.approx(slow - quick, rel=0.2)
    # What all wait less: the time that the run takes less, but for what they then compute less.
    excess_s = 0.010 * SWEEPS * BLOCKS
    assert finding.evidence.as_dict()["large_tasks_over_s"] == pytest.approx(excess_s, rel=0.1)
    assert finding.evidence.as_dict()["large_tasks"] == pytest.approx(SWEEPS * BLOCKS, rel=0.1)
    assert finding.lost_s == pytest.approx(finding.saving_s * ranks - excess_s, rel=0.2)


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_blocks_that_take_longer_at_random(period_s):
    def cost(sweep, block, rank, random):
        return {"relax": 15.0 if random.random() < 0.2 else 5.0}

    ((name, finding),) = analyse(wavefront(cost, across=4), period_s=period_s)[0]
    assert (name, finding.ranks) == ("relax", [0, 1, 2, 3])


@pytest.mark.parametrize(("across", "down"), GRIDS)
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.2, 0.35])
def test_blocks_that_vary_are_ordinary(across, down, spread):
    def cost(sweep, block, rank, random):
        return {"relax": 5.0 * (1.0 + spread * random.uniform(-1.0, 1.0))}

    assert analyse(wavefront(cost, across=across, down=down), period_s=0.005)[0] == []


@pytest.mark.parametrize(("across", "down"), [(4, 1), (2, 2), (8, 1)])
def test_blocks_that_are_larger_on_all_ranks_are_ordinary(across, down):
    def cost(sweep, block, rank, random):
        return {"relax": 15.0 if block % 4 == 1 else 5.0}

    assert analyse(wavefront(cost, across=across, down=down))[0] == []


def test_sizes_of_all_kinds_are_ordinary():
    def cost(sweep, block, rank, random):
        return {"relax": 5.0 * float(np.exp(random.normal(0.0, 0.4)))}

    assert analyse(wavefront(cost, across=4))[0] == []


def test_what_the_same_ranks_do_in_all_pieces_alike_is_not_the_cause():
    def cost(sweep, block, rank, random):
        slow = (sweep * BLOCKS + block) % 4 == rank
        return {"relax": 4.0 * (3 if slow else 1), "solve": 3.0 * (3 if slow else 1), "check": 3.0}

    assert [name for name, _ in analyse(wavefront(cost, across=4))[0]] == ["relax", "solve"]


@pytest.mark.parametrize(("solve_ms", "place"), [(2.0, "relax"), (4.0, "block")])
def test_what_takes_longer_in_one_stretch_of_code_is_one_cause(solve_ms, place):
    def cost(sweep, block, rank, random):
        times = 3.0 if (sweep * BLOCKS + block) % 4 == rank else 1.0
        return {"relax": 4.0 * times, "solve": solve_ms * times, "check": 1.0 * times}

    timeline, names = simulate(wavefront(cost, across=4))
    names.append("block")
    psg = structure(names)  # with relax, solve and check in one function
    root = len(names)
    for index in (names.index(name) for name in ("relax", "solve", "check")):
        psg[index].parent = names.index("block")
        psg[root].children.remove(index)
    psg[names.index("block")].kind = VertexKind.FUNCTION
    waits, replay = find_waits(timeline), prepare(timeline)
    table = blame(timeline, waits)
    found = detect(timeline, psg, Waiting(waits, table, replay, find_task_farms(timeline)))
    ((name, finding),) = [(names[f.line - 1], f) for f in found]
    assert (name, finding.ranks) == (place, [0, 1, 2, 3])
