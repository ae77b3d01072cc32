"""What Ray's RLlib does: its environment runners as rollouts with what they sample, and its iterations as steps.

Read in Ray 2.60.0, its new API stack. What its algorithms do beside that are rows of :mod:`.methods`.
"""

from __future__ import annotations

import itertools

from scalana.runtime import session, steps
from scalana.runtime.patching import in_place_of
from scalana.runtime.rl.marks import trajectory
from scalana.runtime.rl.wrap import absent, around, quietly
from scalana.runtime.spans import span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RUNNERS = (
    ("ray.rllib.env.single_agent_env_runner", "SingleAgentEnvRunner", "sample"),
    ("ray.rllib.env.multi_agent_env_runner", "MultiAgentEnvRunner", "sample"),
)
"""Module; class; method that steps environments and returns episodes."""
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


def mark_runners(module: Any) -> None:
    """Let a module's environment runners mark what they sample."""
    for home, name, method in RUNNERS:
        if home == module.__name__:
            _replace(module, name, method, _sampling)


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
        trial = str(told.get("tune_trial_id") or "")
        session.become_member(name, int(index) - 1, trial, source="framework", first=1)

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


def _iteration(function: Callable[..., Any]) -> Callable[..., Any]:
    @in_place_of(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        if session.core is not None and session.core.current_step() < 1:
            quietly(steps.mark, steps.TRAINER)  # what was before is no iteration
        result = function(*arguments, **named)
        quietly(steps.mark, steps.TRAINER)
        return result

    return wrapper
