"""Single kernels, on few steps: what torch's profiler sees of the device in them, put into the record.

Only where it is asked for (``SCALANA_KERNELS``): the profiler slows the steps down in which it runs. Nobody waits for
the device: a step is looked at until the next one has been launched as well, and what had not run by then is missing.
"""

from __future__ import annotations

import os
import sys
import time

from scalana.runtime import chosen_steps, session, steps
from scalana.runtime.device import marks
from scalana.runtime.record.format import LANE_STREAM, SPAN_TYPE
from scalana.runtime.typed import Any, Callable, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from scalana.runtime.device.pool import Pool

    class Profiler(Protocol):
        """What sees kernels."""

        def start(self) -> bool:
            """Begin to look; whether it does."""

        def stop(self) -> Iterable[Kernel]:
            """All that ran since it began."""


VARIABLE = "SCALANA_KERNELS"
"""Variable that says of how many of the chosen steps one has its kernels recorded."""
_COPIES = ("Memcpy", "Memset")
_COMMUNICATION = ("nccl", "rccl")


class Kernel:
    """One kernel or copy; times in ns on the host's axis."""

    __slots__ = ("end_ns", "launched_ns", "name", "start_ns", "stream")

    def __init__(self, name: str, stream: str, start_ns: int, end_ns: int, launched_ns: int) -> None:
        self.name, self.stream = name, stream
        self.start_ns, self.end_ns, self.launched_ns = start_ns, end_ns, launched_ns


class Windows:
    """The steps of this process that have their kernels recorded."""

    def __init__(self, profiler: Callable[[], Profiler | None], one_of: int) -> None:
        self._make, self._one_of = profiler, max(one_of, 1)
        self._profiler: Profiler | None = None
        self._step = -1
        self._chosen = 0
        self._sites: list[tuple[int, int, int]] = []
        self._broken = False

    def marked(self, number: int) -> None:
        """A step begins."""
        if self._broken:
            return
        try:
            self._marked(number)
        except Exception as failure:
            self._broken = True
            session.note(f"device: kernels are no longer recorded: {type(failure).__name__}: {failure}")

    def _marked(self, number: int) -> None:
        pool = marks.pool()
        if pool is None:
            return
        if self._profiler is not None:
            if number == self._step + 1:  # its kernels still run
                self._sites = pool.sites(self._step)
                return
            profiler, self._profiler = self._profiler, None
            self._write(pool, profiler.stop())
        if chosen_steps.is_chosen(number):
            self._chosen += 1
            if self._chosen % self._one_of == 0:
                profiler_now = self._make()
                if profiler_now is not None and profiler_now.start():
                    self._profiler, self._step, self._sites = profiler_now, number, []

    def _write(self, pool: Pool, kernels: Iterable[Kernel]) -> None:
        core = pool.core
        queued, collective = core.intern("queued_ns"), core.intern("collective")
        first = min((begin for begin, _, _ in self._sites), default=0)
        last = max((end for _, end, _ in self._sites), default=0)
        for kernel in kernels:
            if not first <= kernel.launched_ns <= last:
                continue
            told: list[object] = [queued, max(kernel.start_ns - kernel.launched_ns, 0)]
            if any(word in kernel.name.lower() for word in _COMMUNICATION):
                told += [collective, kernel.name]
            kind = SPAN_TYPE["copy" if kernel.name.startswith(_COPIES) else "kernel"]
            core.span_at(
                kind,
                core.lane(LANE_STREAM, kernel.stream),
                core.intern(kernel.name),
                max(kernel.start_ns, 0),
                max(kernel.end_ns, kernel.start_ns, 0),
                self._path(kernel.launched_ns),
                self._step,
                0,
                tuple(told),
            )

    def _path(self, launched_ns: int) -> int:
        """The call path of the innermost module that launched something at a moment."""
        inside = [(end - begin, path) for begin, end, path in self._sites if begin <= launched_ns <= end]
        return min(inside)[1] if inside else 0


class TorchProfiler:
    """Torch's own, without the wait for the device at its end."""

    def __init__(self, torch: Any, device: str) -> None:
        self._device = device
        self._profiler_module = sys.modules["torch.autograd.profiler"]
        self._host = torch.autograd.DeviceType.CPU
        self._profile: Any = None

    def start(self) -> bool:
        """Begin to look, unless the program does so itself."""
        module = self._profiler_module
        if module._is_profiler_enabled:
            return False
        self._profile = module.profile(use_device=self._device, use_kineto=True)
        self._profile.__enter__()
        return True

    def stop(self) -> list[Kernel]:
        """All kernels and copies since then."""
        self._profile.use_device = None  # or it would wait for the device
        self._profile.__exit__(None, None, None)
        events = self._profile.kineto_results.events()
        return kernels_of(events, self._host, self._device, time.time_ns() - time.monotonic_ns())


def kernels_of(events: Iterable[Any], host: Any, device: str, since_1970_ns: int) -> list[Kernel]:
    """The kernels among the events of torch's profiler, with when each was launched.

    Args:
        events: those of the host and those of devices.
        host: the type of device that the host's have.
        device: what the device is called.
        since_1970_ns: what the clock of the events is ahead of that of the record.
    """
    launched: dict[int, int] = {}
    found = []
    for event in events:
        if event.device_type() == host:
            launched.setdefault(event.correlation_id(), event.start_ns())
        elif not event.is_user_annotation():
            found.append(event)
    kernels = []
    for event in found:
        start = event.start_ns() - since_1970_ns
        begun = launched.get(event.correlation_id(), launched.get(event.linked_correlation_id()))
        stream = f"{device}:{event.device_index()} kernels of stream {event.device_resource_id()}"
        kernels.append(
            Kernel(
                event.name(),
                stream,
                start,
                start + event.duration_ns(),
                start if begun is None else begun - since_1970_ns,
            )
        )
    return kernels


def _of_torch() -> Profiler | None:
    torch, pool = sys.modules.get("torch"), marks.pool()
    if torch is None or pool is None or "torch.autograd.profiler" not in sys.modules:
        return None
    return TorchProfiler(torch, pool.backend.name)


def watch_steps(module: Any) -> None:
    """Record kernels where that is asked for; ``module`` is torch's profiler."""
    asked = os.environ.get(VARIABLE, "")
    if asked.isdigit() and int(asked):
        steps.when_marked(Windows(_of_torch, int(asked)).marked)
