"""What TRL's trainers do not time themselves: a step of training, and the trajectories of a rollout.

Read in TRL 1.16.0. A trainer that has no such methods (any more) becomes a note in the record.
"""

from __future__ import annotations

import itertools

from scalana.runtime import session
from scalana.runtime.patching import in_place_of
from scalana.runtime.rl.marks import trajectory
from scalana.runtime.rl.prompts import number_of_prompt
from scalana.runtime.rl.wrap import quietly
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable, Sequence

TRAINERS = ("GRPOTrainer", "RLOOTrainer")
STEP, ROLLOUT = "training_step", "_generate_single_turn"
"""Methods of all of them. The first begins with the rollout, whose phases are inside; the second takes the prompts, as
lists of tokens, and gives the answers, alone or as the first of several results."""

_batches = itertools.count()


def mark_trainers(module: Any) -> None:
    """Let the trainers of one of TRL's modules mark phases and trajectories."""
    for name in TRAINERS:
        kind = module.__dict__.get(name)
        if kind is None or kind.__module__ != module.__name__:
            continue
        for method, wrapped in ((STEP, _step), (ROLLOUT, _rollout)):
            function = kind.__dict__.get(method)
            if callable(function):
                setattr(kind, method, wrapped(function))
            else:
                session.note(f"TRL's {name} has no {method}: its work there is not recorded")


def _step(function: Callable[..., Any]) -> Callable[..., Any]:
    """A step of training as a phase: its backward pass, too, is training."""

    @in_place_of(function)
    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        with span("training_step", kind="phase", role="trainer", framework="trl"):
            return function(self, *arguments, **named)

    return wrapper


def _rollout(function: Callable[..., Any]) -> Callable[..., Any]:
    """Its answers as trajectories, with the tokens that the trainer itself counts."""

    @in_place_of(function)
    def wrapper(self: Any, prompts: Any, *arguments: Any, **named: Any) -> Any:
        begun = quietly(_begin, self, prompts)
        result = function(self, prompts, *arguments, **named)
        if begun:
            quietly(_end, begun, result)
        return result

    return wrapper


def _begin(trainer: Any, prompts: Sequence[Any]) -> list[trajectory]:
    """All trajectories of a batch begin."""
    step, process, batch = trainer.state.global_step, trainer.accelerator.process_index, next(_batches)
    begun = []
    for number, prompt in enumerate(prompts):
        group = number_of_prompt(list(prompt))
        name = f"{step}.{process}.{number}"
        mark = trajectory(name, group=group, prompt_tokens=len(prompt), lane=f"row {number}", batch=batch)
        begun.append(mark.begin())
    return begun


def _end(begun: list[trajectory], result: Any) -> None:
    """All of them end, as the batch does."""
    answers = result[0] if isinstance(result, tuple) else result
    for mark, tokens in zip(begun, answers, strict=False):
        mark.end(tokens=len(tokens))
