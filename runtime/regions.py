"""Marks that a program sets in its own record: the recording itself, and training steps.

They are public as ``scalana.profile`` and ``scalana.step``; spans and regions are in :mod:`.spans`.
"""

from __future__ import annotations

from scalana.runtime import recorder
from scalana.runtime.record import layout
from scalana.runtime.spans import region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

USER, OPTIMIZER, SCHEDULE, TRAINER = 1, 2, 3, 4
"""What marks steps, the most telling first: once the program itself has, marks of all others are ignored, and so on."""


class profile:
    """Record this process into ``run_folder`` while the context is active.

    Where ``scalana run`` records the process already, the context is a region of that recording. Raises ``OSError``
    if the run folder cannot be made; any other failure is told in the run folder, and the program goes on.

    :param run_folder: folder of the run, the same for all ranks; made if it is missing.
    :param rate_hz: samples per second and thread.
    :param budget_bytes: largest size of this process' record.
    """

    def __init__(
        self,
        run_folder: Any,
        *,
        rate_hz: float = layout.DEFAULT_RATE_HZ,
        budget_bytes: int = layout.DEFAULT_BUDGET_BYTES,
    ) -> None:
        import os

        self.run_folder = os.path.abspath(os.fspath(run_folder))
        self.rate_hz = rate_hz
        self.budget_bytes = budget_bytes
        self._own = False
        self._region = region("profile")

    def __enter__(self) -> profile:

        if not recorder.active():
            layout.make_records(self.run_folder)
            self._own = recorder.start(self.run_folder, self.rate_hz, self.budget_bytes)
        if recorder.core is not None:
            recorder.core.begin_steps()
        self._region.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._region.__exit__(kind, value, traceback)
        if self._own:
            self._own = False
            recorder.stop(0 if kind is None else 1)


def step() -> None:
    """Mark the end of a training step.

    Steps are numbered from 0 by these marks, so that one number is one step on all ranks that mark each of theirs: the
    first mark ends step 0, which is recorded where it is known when it began (in :class:`profile`). Once a program
    calls this, its optimizers no longer mark steps.
    """
    core = recorder.core
    if core is not None:
        core.mark_step(USER)


def mark_optimizer_steps(module: Any) -> None:
    """Let the first optimizer that makes a step mark the steps of training; ``module`` is torch's optimizer module."""
    first = 0

    def optimizer_stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        nonlocal first
        core = recorder.core
        if core is None or module.torch.compiler.is_compiling():
            return
        first = first or id(optimizer)
        if first == id(optimizer):
            core.mark_step(OPTIMIZER)

    module.register_optimizer_step_post_hook(optimizer_stepped)
