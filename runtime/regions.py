"""Marks that a program sets in its own record: the recording itself, regions and training steps.

They are public as ``scalana.profile``, ``scalana.region`` and ``scalana.step``.
"""

from __future__ import annotations

from scalana.runtime import recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

REGION, STEP = 1, 2
"""Types of an interval in the record."""


class region:
    """Name a stretch of the program: ``with region("augment"): ...`` or ``@region("augment")``.

    The stretch is recorded with its wall and CPU time where the process is recorded, and costs next to nothing where
    it is not. Regions nest, and one object may be entered again inside itself. A generator that is decorated is
    marked while it is made, not while it runs.
    """

    __slots__ = ("_entered", "name")

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self._entered: list[tuple[int, int]] = []

    def __enter__(self) -> region:
        core = recorder.core
        self._entered.append((core.now(), core.thread_cpu()) if core is not None else (0, 0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        start, cpu = self._entered.pop()
        core = recorder.core
        if core is not None and start:
            core.interval(REGION, self.name, start, core.now(), max(core.thread_cpu() - cpu, 0))

    def __call__(self, function: F) -> F:
        import functools
        import inspect

        name = self.name
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with region(name):
                    return await function(*args, **kwargs)

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with region(name):
                    return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


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
        rate_hz: float = recorder.DEFAULT_RATE_HZ,
        budget_bytes: int = recorder.DEFAULT_BUDGET_BYTES,
    ) -> None:
        import os

        self.run_folder = os.path.abspath(os.fspath(run_folder))
        self.rate_hz = rate_hz
        self.budget_bytes = budget_bytes
        self._own = False
        self._region = region("profile")

    def __enter__(self) -> profile:
        import os

        if not recorder.active():
            os.makedirs(os.path.join(self.run_folder, "records"), exist_ok=True)
            self._own = recorder.start(self.run_folder, self.rate_hz, self.budget_bytes)
        _steps.restart()
        self._region.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._region.__exit__(kind, value, traceback)
        if self._own:
            self._own = False
            recorder.stop(0 if kind is None else 1)


class _Steps:
    """Steps of training, each an interval from the end of the one before."""

    def __init__(self) -> None:
        self.count = 0
        self.start = 0
        self.cpu = 0
        self.by_user = False
        self.optimizer = 0
        """Identity of the optimizer whose steps count, 0 before the first."""

    def restart(self) -> None:
        """A recording begins here: so does its first step."""
        core = recorder.core
        self.__init__()  # type: ignore[misc]
        if core is not None:
            self.start, self.cpu = core.now(), core.thread_cpu()

    def mark(self, core: Any) -> None:
        """A step ends here. The first mark of all only begins the next one, unless it is known where it began."""
        now, cpu = core.now(), core.thread_cpu()
        if self.start:
            core.interval(STEP, str(self.count), self.start, now, max(cpu - self.cpu, 0))
            self.count += 1
        self.start, self.cpu = now, cpu


_steps = _Steps()


def step() -> None:
    """Mark the end of a training step. Once a program calls this, its optimizers no longer mark steps."""
    core = recorder.core
    if core is not None:
        if not _steps.by_user and _steps.optimizer:
            _steps.count = 0
        _steps.by_user = True
        _steps.mark(core)


def mark_optimizer_steps(module: Any) -> None:
    """Let the first optimizer that makes a step mark the steps of training; ``module`` is torch's optimizer module."""

    def optimizer_stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        core = recorder.core
        if core is None or _steps.by_user or module.torch.compiler.is_compiling():
            return
        if not _steps.optimizer:
            _steps.optimizer = id(optimizer)
        if _steps.optimizer == id(optimizer):
            _steps.mark(core)

    module.register_optimizer_step_post_hook(optimizer_stepped)
