"""Phases of trainers without timers that could be wrapped: their methods, and functions that give a context manager.

Rows are those whose source was read in the release that is named; what is not there (any more) becomes a note.
"""

from __future__ import annotations

import contextlib
import inspect
import sys

from scalana.runtime.patching import in_place_of
from scalana.runtime.rl.wrap import absent, owner_of, quietly
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable

METHODS = (
    # OpenRLHF 0.11.2, which measures by time.time() around these
    ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer", "ppo_train", "openrlhf"),
    ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer", "broadcast_to_vllm", "openrlhf"),
    ("openrlhf.trainer.ppo_utils.experience_maker", "RemoteExperienceMaker", "make_experience_batch", "openrlhf"),
    (
        "openrlhf.trainer.ppo_utils.experience_maker",
        "RemoteExperienceMaker",
        "compute_advantages_and_returns",
        "openrlhf",
    ),
    ("openrlhf.trainer.ppo_utils.samples_generator", "SamplesGenerator", "generate_samples", "openrlhf"),
    # verl 0.9.1, whose timers are those of who waits for these: coroutines
    ("verl.experimental.reward_loop.reward_loop", "RewardLoopWorker", "compute_score", "verl"),
    ("verl.workers.engine_workers", "ActorRolloutRefWorker", "update_weights", "verl"),
    ("verl.workers.engine_workers", "ActorRolloutRefWorker", "compute_log_prob", "verl"),
    ("verl.workers.engine_workers", "ActorRolloutRefWorker", "compute_ref_log_prob", "verl"),
    ("verl.workers.engine_workers", "ActorRolloutRefWorker", "update_actor", "verl"),
    ("verl.trainer.ppo.v1.replay_buffer", "ReplayBuffer", "_wait_for_next_poll", "verl"),
    # RLlib of Ray 2.60.0: of its runners, aggregators, and of its algorithm
    ("ray.rllib.env.single_agent_env_runner", "SingleAgentEnvRunner", "set_state", "rllib"),
    ("ray.rllib.env.multi_agent_env_runner", "MultiAgentEnvRunner", "set_state", "rllib"),
    ("ray.rllib.algorithms.utils", "AggregatorActor", "get_batch", "rllib"),
    ("ray.rllib.env.env_runner_group", "EnvRunnerGroup", "sync_weights", "rllib"),
    ("ray.rllib.env.env_runner_group", "EnvRunnerGroup", "sync_env_runner_states", "rllib"),
    ("ray.rllib.algorithms.algorithm", "Algorithm", "evaluate", "rllib"),
)
"""Module; class; method, whose name the phase has; framework."""

_BATCH = "data"
"""Argument, the first, of :data:`WITH_TOKENS`: a batch of answers with their tokens as ``input_ids``, one after the
other; or what stands for it in verl's queue, with tags of all answers that tell their lengths."""
_TAGS, _LENGTH = ("tags", "custom_meta"), "seq_len"
"""Where a batch has the tags of its answers, by the type of it; the tag."""
WITH_TOKENS = ("compute_log_prob", "compute_ref_log_prob", "update_actor")
"""Methods of which it is told what they work on."""

MANAGERS = (
    # AReaL 1.0.4
    ("areal.utils.stats_tracker", "DistributedStatsTracker", "record_timing", "key", "areal"),
    # RLinf 0.3.0
    ("rlinf.scheduler.worker.worker", "Worker", "worker_timer", "tag", "rlinf"),
)
"""Module; class; method that gives a context manager made of a generator; its argument with the name of the phase, the
first: without one it is named for the function that asks for it; framework."""


def mark_methods(module: Any) -> None:
    """Let the methods of a module's classes mark phases."""
    for home, name, method, framework in METHODS:
        if home != module.__name__:
            continue
        kind = owner_of(module, name)
        function = getattr(kind, method, None)
        if callable(function):
            setattr(kind, method, _phase(function, framework))
        else:
            absent(home, name, method)


def _phase(function: Callable[..., Any], framework: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @in_place_of(function)
        async def awaited(*arguments: Any, **named: Any) -> Any:
            with span(function.__name__, kind="phase", framework=framework):
                return await function(*arguments, **named)

        return awaited

    counts = function.__name__ in WITH_TOKENS

    @in_place_of(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        tokens = quietly(_tokens_of, arguments, named) if counts else None
        with span(function.__name__, kind="phase", framework=framework, tokens=tokens):
            return function(*arguments, **named)

    return wrapper


def _tokens_of(arguments: tuple[Any, ...], named: dict[str, Any]) -> int:
    batch = named[_BATCH] if _BATCH in named else arguments[1]
    for name in _TAGS:  # of a batch that lies in a queue until it is worked on
        tags = getattr(batch, name, None)
        if tags is not None:
            return sum(int(tag[_LENGTH]) for tag in tags)
    ids = batch["input_ids"]
    return int((ids.values() if ids.is_nested else ids).numel())


def mark_managers(module: Any) -> None:
    """Let the context managers that a module gives mark phases."""
    for home, name, method, key, framework in MANAGERS:
        if home != module.__name__:
            continue
        kind = owner_of(module, name)
        function = getattr(kind, method, None)
        if not callable(function):
            absent(home, name, method)
            continue
        setattr(kind, method, _manager(function, key, framework))
        bound: Any = getattr(module, method, None)  # of the tracker that is everyone's
        if isinstance(getattr(bound, "__self__", None), kind):
            setattr(module, method, getattr(bound.__self__, method))


class _Marked(contextlib._GeneratorContextManager):  # type: ignore[type-arg]
    """A context manager of another, inside a phase. It adds no frame: its generator may look at who has entered it."""

    marks = ("", "")
    """Name of the phase, and framework."""

    def __enter__(self) -> Any:
        self.mark = quietly(_begin, self.marks)
        del self.args, self.kwds, self.func  # as the one it was: a generator is entered once
        try:
            return next(self.gen)
        except StopIteration:
            raise RuntimeError("generator didn't yield") from None
        except BaseException:
            self._ended()
            raise

    def __exit__(self, *raised: Any) -> Any:
        self._ended()
        return super().__exit__(*raised)

    def _ended(self) -> None:
        if self.mark is not None:
            quietly(self.mark.end)

    def _recreate_cm(self) -> Any:  # as a decorator, for every call anew
        made = super()._recreate_cm()  # type: ignore[misc]
        made.marks = self.marks
        return made


def _begin(marks: tuple[str, str]) -> Any:
    return span.begin(marks[0], "phase", framework=marks[1])


def _as_marked(manager: Any, marks: tuple[str, str]) -> None:
    kind: Any = type(manager)
    if kind is contextlib._GeneratorContextManager:
        manager.__class__ = _Marked
        manager.marks = marks


def _manager(function: Callable[..., Any], key: str, framework: str) -> Callable[..., Any]:
    @in_place_of(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        manager = function(*arguments, **named)
        name = arguments[1] if len(arguments) > 1 else named.get(key)
        name = str(name or sys._getframe(1).f_code.co_name)
        quietly(_as_marked, manager, (name, framework))
        return manager

    return wrapper
