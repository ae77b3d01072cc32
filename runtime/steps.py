"""Marks of training steps: the program's own (``scalana.step``), and those that optimizers make.

The extension numbers them, for the whole process.
"""

from __future__ import annotations

import weakref

from scalana.runtime import session
from scalana.runtime.typed import Any, Callable

USER, TRAINER, OPTIMIZER, SCHEDULE = 1, 2, 3, 4
"""What marks steps, the most telling first: once the program itself has, marks of all others are ignored, and so on."""

_listeners: list[Callable[[int], None]] = []


def mark(source: int) -> None:
    """A step ends here, by the word of ``source``; tell those that look at some steps more closely."""
    core = session.core
    if core is None:
        return
    core.mark_step(source)
    for listener in _listeners:
        listener(core.current_step())


def when_marked(function: Callable[[int], None]) -> None:
    """Call ``function`` with the number of the step that is under way, at each mark; it must raise nothing."""
    _listeners.append(function)


def step() -> None:
    """Mark the end of a training step.

    Steps are numbered from 0 by these marks, so that one number is one step on all ranks that mark each of theirs: the
    first mark ends step 0, which is recorded where it is known when it began (in :class:`profile`). Once a program
    calls this, its optimizers no longer mark steps.
    """
    mark(USER)


def mark_optimizer_steps(module: Any) -> None:
    """Let the first optimizer that makes a step mark the steps of training, and when it is gone the next one that does;
    ``module`` is torch's optimizer module."""
    first: weakref.ref[Any] | None = None

    def optimizer_stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal first
        core = session.core
        if core is None or module.torch.compiler.is_compiling():
            return
        marker = first() if first is not None else None
        if marker is None or core.current_step() < 1:  # none has ended in this recording
            marker, first = optimizer, weakref.ref(optimizer)
        if marker is optimizer:
            mark(OPTIMIZER)

    module.register_optimizer_step_post_hook(optimizer_stepped)
