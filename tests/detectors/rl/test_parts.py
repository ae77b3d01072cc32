"""Names, the model of generation, assignments, charges and the picture, each by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest

from scalana.detectors.rl import findings
from scalana.detectors.rl.account import Bar, Prediction, RLAccount, StepPicture, TrajectoryBar
from scalana.detectors.rl.charges import charge
from scalana.detectors.rl.decode import Decoding, dealt, fit_decoding, fit_speeds, longest_first
from scalana.detectors.rl.loop import COLUMNS, IN_WAIT, Loop, Process, Trajectories
from scalana.detectors.rl.phases import TABLE, Doing, doing_of
from scalana.detectors.rl.recorded.pieces import _made_of_training
from scalana.detectors.rl.remedies import expected
from scalana.detectors.rl.requests import made_by, serving, that_serve
from scalana.detectors.rl.steps_in_part import part_of_loop
from scalana.report.pictures.rl_svg import svg
from scalana.report.text.paint import Paint
from scalana.report.text.sections import part_lines
from scalana.report.topics import rl

from ...tools.rl_job import Plan


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("GRPOTrainer._prepare_inputs", Doing.DATA),
        ("GRPOTrainer.transformers.generate", Doing.GENERATION),
        ("old_log_prob", Doing.LOG_PROB),
        ("Actor-Update", Doing.TRAINING),
        ("update_weights", Doing.WEIGHT_SYNC),
        ("idle/buffer_starvation", Doing.STARVATION),
        ("my own", Doing.OTHER),
        ("", Doing.OTHER),
    ],
)
def test_phases_are_known_by_name(name: str, doing: Doing) -> None:
    assert doing_of(name) == doing


def test_parts_of_training_are_themselves() -> None:
    """A trainer whose ``train`` has passes of log-probabilities beside that which trains, and one whose training makes
    a forward pass."""
    starts, ends = np.array([0.0, 1.0, 4.0, 4.5, 9.0]), np.array([8.0, 3.0, 7.0, 5.0, 10.0])
    training = np.array([True, False, True, False, True])
    assert _made_of_training(starts, ends, training).tolist() == [True, False, False, False, False]


def test_steps_of_a_loop_in_a_part_of_a_run() -> None:
    bounds = np.array([[1.0, 3.0, 5.0, 7.0], [1.1, 3.1, 5.1, 7.0]])

    def kept(begin: float, end: float) -> tuple[int, list[list[float]]]:
        part = part_of_loop(bounds, np.full(2, begin), np.full(2, end))
        return part.first, part.bounds_s.tolist()

    assert kept(0.0, 8.0) == (0, bounds.tolist())  # all of it, with what is around it
    assert kept(2.8, 6.8) == (1, [[2.8, 5.0, 6.8], [2.8, 5.1, 6.8]])
    assert kept(0.0, 3.2) == (0, [[1.0, 3.2], [1.1, 3.2]])
    # A part of a single step, as where an optimizer makes several in one of the loop.
    assert kept(5.5, 6.0) == (2, [[5.5, 6.0]] * 2)


def test_a_name_means_one_thing() -> None:
    names = [name for row in TABLE for name in row.names]
    assert len(names) == len(set(names))
    assert {row.doing for row in TABLE} == set(Doing) - {Doing.OTHER}


def trajectories(plan: Plan, steps: int) -> Trajectories:
    """As they would be recorded."""
    rows = [
        (rank, step, 100.0 * step, 100.0 * step + end, tokens)
        for rank in range(plan.ranks)
        for step in range(steps)
        for tokens, end in zip(plan.lengths[step][rank], plan.finish_s(step, rank), strict=True)
    ]
    rank, step, start, end, tokens = (np.array(column) for column in zip(*rows, strict=True))
    none = np.zeros(len(rows))
    return Trajectories(
        np.arange(len(rows)), rank, step, start, end, tokens.astype(float), none, none - 1, (none - 1).astype(int)
    )


def test_the_model_and_a_slow_process_are_told_apart() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(20, 400, (3, 4, 6)).tolist()
    plan = Plan(lengths, floor_s=0.01, sequence_s=0.002, slow=[1.0, 1.0, 1.4, 1.0])
    fitted = fit_decoding(trajectories(plan, 3), 4)
    assert fitted is not None
    assert fitted.floor_s == pytest.approx(0.01, rel=0.01) and fitted.sequence_s == pytest.approx(0.002, rel=0.01)
    assert fitted.factor == pytest.approx([1.0, 1.0, 1.4, 1.0], rel=0.01)
    assert fitted.slots == 6 and fitted.knee == 3.0
    # The emulator has its own way to the same ends.
    assert fitted.ends_s(lengths[0][0]) == pytest.approx(plan.finish_s(0, 0), rel=0.02)


def test_answers_start_as_places_become_free() -> None:
    model = Decoding(1.0, 0.0, 0.5, np.ones(1), slots=2, whole_batches=False)
    assert model.ends_s([2, 4, 3]) == [2.5, 4.5, 5.5]
    assert Decoding(1.0, 0.0, 0.5, np.ones(1), slots=2, whole_batches=True).seconds([2, 4, 3]) == 4.5 + 3.5
    assert model.seconds([]) == 0.0


def test_costs_that_cannot_be_told_apart_are_not_guessed() -> None:
    work = np.array([[1.0, 10.0]] * 6)
    costs, factor = fit_speeds(work, np.array([1.0, 1.0, 1.0, 1.0, 2.0, 2.0]), np.array([0, 0, 1, 1, 2, 2]), 3)
    assert costs[1] == 0.0 and factor == pytest.approx([1.0, 1.0, 2.0])
    # Negative costs are none: seconds that fall with the work say nothing of it.
    costs, _ = fit_speeds(np.array([[1.0, 1.0], [1.0, 2.0]]), np.array([2.0, 1.0]), np.array([0, 0]), 1)
    assert (costs >= 0.0).all()


def test_who_has_always_more_to_do_is_not_called_slow() -> None:
    """What long work takes and how fast a process is cannot be told apart where nobody else has work as long."""
    work = np.array([[12.0, 1.0], [11.0, 1.0], [12.0, 1.0], [95.0, 1.0], [96.0, 1.0], [96.0, 1.0]])
    rank = np.array([0, 0, 0, 1, 1, 1])
    seconds = work @ [0.01, 0.0] * np.where(rank == 1, 1.3, 1.0)
    assert fit_speeds(work, seconds, rank, 2)[1] == pytest.approx([1.0, 1.0])
    # With work in common it is: what a process takes longer for is its speed then.
    common = np.concatenate((work, [[95.0, 1.0]] * 2))
    _, factor = fit_speeds(common, np.append(seconds, [0.95] * 2), np.append(rank, [0, 0]), 2)
    assert factor[1] / factor[0] == pytest.approx(1.3, rel=0.02)


def test_lengths_are_expected_by_other_answers_to_the_prompt() -> None:
    tokens, group = np.array([10.0, 20.0, 30.0, 5.0, 7.0]), np.array([1, 1, 2, -1, -1])
    assert expected(tokens, group).tolist() == [20.0, 10.0, 14.4, 14.4, 14.4]
    assert expected(np.zeros(0), np.zeros(0, np.int64)).tolist() == []


def test_assignments() -> None:
    tokens = np.array([5.0, 9.0, 1.0, 4.0])
    given = longest_first(tokens, 2)
    assert sorted(sum(given, [])) == [0, 1, 2, 3] and {tokens[part].sum() for part in given} == {9.0, 10.0}
    group = np.array([7, 7, 7, 3, 3, 3])
    assert [sorted(group[part].tolist()) for part in dealt(group, 3)] == [[3, 7]] * 3


def process(location: int, *stretches: tuple[float, int]) -> Process:
    """A process that does something until a time, then something else, from 0 on."""
    time, spent = [0.0], [np.zeros(COLUMNS)]
    for until, column in stretches:
        row = np.zeros(COLUMNS)
        row[column] = until - time[-1]
        time.append(until)
        spent.append(row)
    return Process(location, np.array([0.0, time[-1]]), np.array(time), np.cumsum(spent, axis=0))


def test_a_wait_is_charged_through_the_one_that_waits() -> None:
    """Rank 2 generates until 9, rank 1 waits for it, trains for 1 s, and rank 0 waits for rank 1."""
    calls = SimpleNamespace(
        location=np.array([0, 1, 1, 2]),
        enter_s=np.array([3.0, 2.0, 10.0, 9.0]),
        exit_s=np.array([10.0, 9.0, 10.0, 9.0]),
        operation=np.zeros(4, np.int64),
    )
    locations = SimpleNamespace(rank=np.arange(3), is_main=np.ones(3, bool), start_s=np.zeros(3))
    stretches = SimpleNamespace(
        culprit=np.array([3, 2]),
        since_culprit=np.array([-1, -1]),
        first=np.array([0, 1, 2]),
        call=np.array([1, 0]),
        wait_s=np.array([7.0, 7.0]),
        since_call=np.array([-1, -1]),
        met_s=np.full(2, np.inf),
    )
    generation, training = int(Doing.GENERATION), int(Doing.TRAINING)
    loop = SimpleNamespace(
        steps=1,
        timed=False,
        that_do=lambda doing: np.arange(3),
        processes=[
            process(0, (2.0, generation), (3.0, training), (10.0, IN_WAIT)),
            process(1, (2.0, generation), (9.0, IN_WAIT), (10.0, training)),
            process(2, (9.0, generation), (10.0, training)),
        ],
    )
    timeline = SimpleNamespace(calls=calls, locations=locations)
    made = charge(cast(Any, timeline), cast(Any, stretches), cast(Loop, loop))
    told = {
        (waiter, culprit, doing): seconds
        for waiter, culprit, doing, seconds in zip(
            made.waiter.tolist(), made.culprit.tolist(), made.doing.tolist(), made.seconds.tolist(), strict=True
        )
    }
    # All 14 s are rank 2's generation: rank 1 only waited more than rank 0, and both trained for as long.
    assert told == {(1, 2, generation): pytest.approx(14.0)}


def test_the_picture_is_a_function_of_its_data() -> None:
    picture = StepPicture(
        3,
        2.0,
        [
            Bar(0, 0.0, 2.0, "generation", False),
            Bar(1, 0.0, 0.5, "generation", False),
            Bar(1, 0.5, 2.0, "long-tail", True),
        ],
        [TrajectoryBar(0, "a <b>", 0.0, 2.0, 812.0), TrajectoryBar(1, "c", 0.0, 0.5, float("nan"))],
    )
    drawn = svg(picture)
    assert drawn == svg(picture)
    root = ElementTree.fromstring(drawn)
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "trajectory a <b>: 2.00 s, 812 tokens" in titles and "waits 1.50 s: long-tail" in titles
    assert svg(StepPicture(0, 0.0)).startswith("<svg")
    # Of many processes some are drawn: among them the one that nobody waits less than.
    many = [Bar(rank, 0.0, 1.0, "long-tail", rank != 777) for rank in range(1000)]
    drawn = svg(StepPicture(0, 1.0, many))
    assert "48 of 1000 processes" in drawn and ">rank 777<" in drawn and drawn.count(">rank ") == 48


class _Spans:
    """Spans of some kinds, as far as they are asked for."""

    def __init__(self, table: list[tuple[str, int, float, float, float]]) -> None:
        self.kinds = [row[0] for row in table]
        self.rank = np.array([row[1] for row in table])
        self._start, self._end, self._tokens = (np.array([row[at] for row in table]) for at in (2, 3, 4))

    def rows(self, kind: str) -> Any:
        return np.flatnonzero(np.array(self.kinds) == kind)

    def start_s(self, rows: Any) -> Any:
        return self._start[rows]

    def end_s(self, rows: Any) -> Any:
        return self._end[rows]

    def numbers(self, key: str) -> Any:
        assert key == "tokens"
        return self._tokens


def test_trajectories_are_those_of_who_served_them() -> None:
    spans = cast(
        Any,
        _Spans(
            [
                ("trajectory", 0, 1.0, 5.0, 40.0),  # an agent's: served by 2
                ("trajectory", 0, 1.0, 3.0, 20.0),  # served by 1, with as many tokens as another one of it later
                ("trajectory", 0, 6.0, 8.0, 20.0),
                ("trajectory", 0, 1.0, 4.0, 33.0),  # in several turns
                ("request", 1, 1.2, 2.8, 20.0),
                ("request", 2, 1.1, 4.9, 40.0),
                ("request", 1, 6.1, 7.9, 20.0),
                ("request", 2, 1.0, 2.0, 13.0),
                ("request", 2, 2.5, 3.9, 20.0),
                ("request", 1, 6.0, 9.0, np.nan),  # of another engine: no answer with tokens
            ]
        ),
    )
    rank, start, end = made_by(spans, spans.rows("trajectory"))
    assert rank.tolist() == [2, 1, 1, 0]
    assert start.tolist() == [1.1, 1.2, 6.1, 1.0] and end.tolist() == [4.9, 2.8, 7.9, 4.0]
    served = that_serve(spans)
    of_rank = [serving(spans, served[spans.rank[served] == rank]).tolist() for rank in range(3)]
    assert of_rank == [[], [[1.2, 2.8], [6.1, 7.9]], [[1.0, 4.9]]]


def test_all_that_make_as_much_are_named() -> None:
    assert findings.culprits(np.full(8, 0.4)) == list(range(8))
    assert findings.culprits(np.array([0.0, 3.0, 0.1, 0.0])) == [1]
    assert findings.culprits(np.array([2.0, 0.0, 2.1, 0.1])) == [0, 2]


def test_changes_that_would_bring_nothing_are_told_together() -> None:
    nothing = np.zeros(0)
    account = RLAccount(
        "", {}, np.array([2.0, 2.0]), (), (), np.zeros((0, 2)), 4.0, nothing.astype(int), np.nan, np.nan, np.nan
    )
    account.what_if = [
        Prediction("cap", "answers are cut", 1.6, 0.01),
        Prediction("balance", "longest first", 2.0, 0.01),
        Prediction("faster-verifier", "a faster verifier", 1.998, 0.0),
        Prediction("partial", "partial rollout", 2.0, 0.5),
    ]
    told = [line for part in rl.changes(account) for line in part_lines(part, 80, Paint(False))]
    assert told[-3] == "  No step would be faster with: longest first; a faster verifier."
    assert " ".join(told[-2:]).split()[-2:] == ["partial", "rollout."] and "by 50 % or more" in told[-2]
    assert told[-5].endswith("what if (the recorded steps, replayed)")
    assert told[-4].split()[-4:] == ["%", "answers", "are", "cut"] and "1.25x" in told[-4]
    account.what_if = account.what_if[1:3]
    assert [line for part in rl.changes(account) for line in part_lines(part, 80, Paint(False))] == [told[-3]]
