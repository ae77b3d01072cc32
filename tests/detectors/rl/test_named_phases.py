"""What is made of phases that are known by names, each part by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from scalana.detectors.rl.cause_table import CAUSES
from scalana.detectors.rl.causes import NUMBER, always_longer
from scalana.detectors.rl.detector import _explained
from scalana.detectors.rl.phases import Doing, doing_of_function
from scalana.detectors.rl.recorded.named_phases import Answers, NamedPhases, _steps_end, _training_joined
from scalana.detectors.rl.recorded.pieces import Pieces


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("RolloutWorker.generate", Doing.GENERATION),
        ("play_episode", Doing.GENERATION),
        ("RolloutWorker.step", Doing.GENERATION),
        ("RolloutWorker.load_weights", Doing.WEIGHT_SYNC),
        ("update_params", Doing.WEIGHT_SYNC),
        ("Judge.__call__", Doing.OTHER),
        ("computeRewards", Doing.VERIFIER),
        ("train_on_rollouts", Doing.TRAINING),
        ("Trainer.fit.<locals>.helper", Doing.OTHER),
        ("collect_statistics", Doing.OTHER),
        ("main", Doing.OTHER),
    ],
)
def test_names_of_functions_say_what_they_do(name: str, doing: Doing) -> None:
    assert doing_of_function(name) is doing


def answers(*rows: tuple[int, float, float]) -> Answers:
    rank, start_s, end_s = zip(*rows, strict=True)
    return Answers(np.array(rank), np.array(start_s), np.array(end_s))


def named(made: Answers, *ends_s: float) -> NamedPhases:
    none = np.zeros(0, np.int64)
    return NamedPhases({}, none, none, ends_s, 0.0, made)


def test_a_call_about_several_things_is_as_many_answers() -> None:
    """Marks of others that are under way meanwhile, and of what is about one thing, do not count."""
    spans = SimpleNamespace(
        rank=np.array([1, 2, 1]),
        integers=lambda key, missing: np.array([4, 3, 0]),
        start_s=lambda rows: np.array([0.1, 0.1, 2.0])[rows],
        end_s=lambda rows: np.array([0.9, 0.9, 2.5])[rows],
    )
    made = answers((1, 0.0, 1.0), (1, 2.0, 3.0)).divided(cast(Any, spans))
    assert made.start_s == pytest.approx([0.0, 0.25, 0.5, 0.75, 2.0])
    assert made.end_s == pytest.approx([0.25, 0.5, 0.75, 1.0, 3.0])


def test_lengths_are_times_unless_one_process_always_takes_longer() -> None:
    in_turns = answers((0, 0.0, 0.5), (1, 0.0, 1.0), (2, 0.0, 0.5), (0, 2.0, 3.0), (1, 2.0, 2.5), (2, 2.0, 2.5))
    assert named(in_turns, 1.5, 3.5).lengths() == pytest.approx([500, 1000, 500, 1000, 500, 500])
    always = answers((0, 0.0, 0.5), (1, 0.0, 1.0), (2, 0.0, 0.5), (0, 2.0, 2.5), (1, 2.0, 3.0), (2, 2.0, 2.5))
    assert np.isnan(named(always, 1.5, 3.5).lengths()).all()
    more = answers((0, 0.0, 0.5), (1, 0.0, 0.5), (1, 0.5, 1.0), (0, 2.0, 2.5), (1, 2.0, 2.5), (1, 2.5, 3.0))
    assert not np.isnan(named(more, 1.5, 3.5).lengths()).any()


def test_training_is_one_piece_until_something_was_generated() -> None:
    train, sync = Doing.TRAINING, Doing.WEIGHT_SYNC
    pieces = Pieces([0.0, 1.0, 3.0, 4.0], [0.5, 1.5, 3.5, 4.5], [train, train, train, sync])
    joined = _training_joined(pieces, np.array([2.0]))
    assert (joined.start_s, joined.end_s) == ([0.0, 3.0, 4.0], [1.5, 3.5, 4.5])
    assert _steps_end(joined) == [1.5, 4.5]


def test_time_of_who_always_generates_longer_is_left_to_other_detectors() -> None:
    """Process 2 takes three times as long as process 1 in each step; 3 does once, and 0 generates nothing."""
    steps = 9
    own_s = np.zeros((4, steps, len(Doing)))
    own_s[1:, :, Doing.GENERATION] = np.array([1.0, 3.0, 1.0])[:, None]
    own_s[3, 4, Doing.GENERATION] = 6.0
    loop = SimpleNamespace(own_s=own_s, that_generate=lambda: np.array([1, 2, 3]), processes=range(4))
    assert always_longer(cast(Any, loop)).tolist() == [2]
    starvation = np.zeros((2, len(CAUSES)))
    starvation[:, NUMBER["starvation"]] = 1.0
    charges = SimpleNamespace(
        culprit=np.array([2, 1]),
        begin_s=np.array([0.0, 10.0]),
        end_s=np.array([3.0, 11.0]),
        seconds=np.array([3.0, 1.0]),
        doing=np.array([Doing.GENERATION, Doing.GENERATION]),
    )
    charges = type("Rows", (SimpleNamespace,), {"__len__": lambda _: 2})(**vars(charges))
    both = [[0.0, 3.0], [10.0, 11.0]]
    for rows, timed, expected in (([], True, both[1:]), ([0], True, both), ([], False, both)):
        loop.index, loop.timed = SimpleNamespace(row=np.array(rows)), timed
        (extent,) = _explained(cast(Any, loop), cast(Any, charges), cast(Any, SimpleNamespace(part=starvation)))
        assert extent.windows_s is not None and extent.windows_s.tolist() == expected
