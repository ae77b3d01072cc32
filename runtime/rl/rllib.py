"""What Ray's RLlib does: its environment runners as rollouts with what they sample, its learners with what they train
on, and its iterations as steps.

Read in Ray 2.60.0, its new API stack. What its algorithms do beside that are rows of :mod:`.methods`.
"""

from __future__ import annotations

import itertools
from _thread import _local

from scalana.runtime import session, steps
from scalana.runtime.patching import in_place_of
from scalana.runtime.rl.marks import trajectory
from scalana.runtime.rl.wrap import absent, around, quietly
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable

RUNNERS = (
    ("ray.rllib.env.single_agent_env_runner", "SingleAgentEnvRunner", "sample"),
    ("ray.rllib.env.multi_agent_env_runner", "MultiAgentEnvRunner", "sample"),
)
"""Module; class; method that steps environments and returns episodes."""
LEARNER = ("ray.rllib.core.learner.learner", "Learner", "update", "_make_batch_if_necessary")
"""Module; class; method that trains; method by which it gets what it trains on, as one batch."""
NAMED = (
    ("ray.rllib.env.env_runner", "EnvRunner", "__init__"),
    ("ray.rllib.core.learner.learner", "Learner", "__init__"),
)
"""Module; class; method by which it is known that a process is an actor of that class, or of one made of it."""
ITERATES = ("ray.rllib.algorithms.algorithm", "Algorithm", "step")
"""Module; class; method that is an iteration of training."""
EVALUATES = "EvalEnvRunner"
"""What runners are called that evaluate."""

_samples = itertools.count()
_trains = _local()
"""``on``: how many rows this thread trains on in the update that is under way, if it has a batch already."""


def mark_runners(module: Any) -> None:
    """Let a module's environment runners mark what they sample."""
    for home, name, method in RUNNERS:
        if home == module.__name__:
            _replace(module, name, method, _sampling)


def mark_learners(module: Any) -> None:
    """Let learners mark their updates, and what they make batches of."""
    _, name, update, batch = LEARNER
    _replace(module, name, update, _updating)
    _replace(module, name, batch, _batching)


def name_actors(module: Any) -> None:
    """Let actors of a module's classes go by what they are to RLlib."""
    for home, name, method in NAMED:
        if home == module.__name__:
            _replace(module, name, method, lambda function, role=name: around(function, after=_naming(role)))


def mark_iterations(module: Any) -> None:
    """Let algorithms mark their iterations as steps."""
    _, name, method = ITERATES
    _replace(module, name, method, _iteration)


def _replace(module: Any, name: str, method: str, make: Callable[..., Any]) -> None:
    kind = getattr(module, name, None)
    function = getattr(kind, method, None)
    if kind is not None and callable(function):
        setattr(kind, method, make(function))
    else:
        absent(module.__name__, name, method)


def _naming(role: str) -> Callable[..., None]:
    def named(arguments: tuple[Any, ...], told: dict[str, Any]) -> None:
        actor = arguments[0]
        if session.part != type(actor).__name__:
            return  # no actor of its own: the driver's
        index = getattr(actor, "worker_index", None)
        if index is None:
            session.become_member(role, source="framework")
            return
        name = EVALUATES if _evaluates(actor) else role
        session.become_member(name, int(index) - 1, source="framework", first=1)

    return named


def _evaluates(runner: Any) -> bool:
    return bool(getattr(runner.config, "in_evaluation", False))


def _sampling(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_place_of(function)
    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        begun = quietly(_begin, self)
        try:
            episodes = function(self, *arguments, **named)
        except BaseException:
            if begun is not None:
                quietly(_end, *begun, None)
            raise
        if begun is not None:
            quietly(_end, *begun, episodes)
        return episodes

    return wrapper


def _begin(runner: Any) -> tuple[Any, trajectory | None]:
    """A call that samples begins: of one that trains on it, it is a trajectory, of so many steps of environments."""
    if _evaluates(runner):
        return span.begin("evaluate", "phase", role="evaluation", framework="rllib"), None
    phase = span.begin("sample", "phase", role="rollout", framework="rllib")
    name = f"{runner.worker_index}.{next(_samples)}"
    return phase, trajectory(name, lane="sample", unit="env step").begin()


def _end(phase: Any, sample: trajectory | None, episodes: Any) -> None:
    if sample is not None:
        sample.end(tokens=None if episodes is None else sum(episode.env_steps() for episode in episodes))
    phase.end()


def _updating(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_place_of(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        _trains.on = None
        phase = quietly(_begin_phase, "update")
        try:
            return function(*arguments, **named)
        finally:
            if phase is not None:
                quietly(_end_phase, phase)

    return wrapper


def _begin_phase(name: str) -> Any:
    return span.begin(name, "phase", role="trainer", framework="rllib")


def _end_phase(phase: Any) -> None:
    phase.end(tokens=_trains.on)


def _batching(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_place_of(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        with span(function.__name__, kind="phase", framework="rllib"):
            batch = function(*arguments, **named)
        quietly(_know_rows, batch)
        return batch

    return wrapper


def _know_rows(batch: Any) -> None:
    _trains.on = None if batch is None else int(batch.env_steps())


def _iteration(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_place_of(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        if session.core is not None and session.core.current_step() < 1:
            quietly(steps.mark, steps.TRAINER)  # what was before is no iteration
        result = function(*arguments, **named)
        quietly(steps.mark, steps.TRAINER)
        return result

    return wrapper
