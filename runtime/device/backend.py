"""The devices of a process, behind one interface: what :class:`~scalana.runtime.device.pool.Pool` needs of them.

``torch.cuda`` (also of ROCm) and ``torch.xpu`` have it; so has the emulated device of the tests.
"""

from __future__ import annotations

import sys

from scalana.runtime.typed import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Event(Protocol):
        """A moment on a stream, which comes when all that was put on the stream before is done."""

        def record(self, stream: Any = None) -> None:
            """Put it onto a stream."""

        def query(self) -> bool:
            """Whether it has come."""

        def elapsed_time(self, end_event: Any) -> float:
            """Milliseconds from this one to another, both of which have come."""

    class DeviceModule(Protocol):
        """What of ``torch.cuda`` is used."""

        def Event(self, enable_timing: bool) -> Event:
            """A new event."""

        def Stream(self) -> Any:
            """A stream of its own, on the current device."""

        def current_stream(self) -> Any:
            """The stream that the calling thread launches onto."""

        def current_device(self) -> int:
            """The number of the device that the calling thread launches onto."""

        def is_initialized(self) -> bool:
            """Whether the program uses a device."""


class Backend:
    """The devices of one kind."""

    def __init__(self, name: str, module: DeviceModule) -> None:
        self.name, self.module = name, module
        self._captures = getattr(module, "is_current_stream_capturing", None)
        self._streams: dict[tuple[int, int], str] = {}
        self._private: dict[int, Any] = {}
        self._current = _current_stream(name)
        self._seen: dict[tuple[int, ...], tuple[Any, tuple[int, int]]] = {}
        """Streams by what torch says of them, as it would make an object of one each time."""

    def event(self) -> Event:
        """A new event that can be timed."""
        return self.module.Event(enable_timing=True)

    def stream(self) -> tuple[Any, tuple[int, int]]:
        """The current stream, and what tells it from others: the number of its device, and its own."""
        if self._current is None:
            stream = self.module.current_stream()
            return stream, (int(stream.device_index), int(_handle(stream)))
        told = self._current()
        seen = self._seen.get(told)
        if seen is None:
            stream = self.module.current_stream()
            seen = self._seen[told] = stream, (int(stream.device_index), int(_handle(stream)))
        return seen

    def stream_name(self, key: tuple[int, int]) -> str:
        """What a stream is called: streams are numbered in the order in which they are first seen."""
        name = self._streams.get(key)
        if name is None:
            name = self._streams[key] = f"{self.name}:{key[0]} stream {len(self._streams)}"
        return name

    def private_stream(self) -> Any:
        """A stream of ours on the current device, on which nothing runs."""
        device = int(self.module.current_device())
        if device not in self._private:
            self._private[device] = self.module.Stream()
        return self._private[device]

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies on one of these devices."""
        own = getattr(self.module, "holds", None)  # the emulated device has tensors of the host
        return bool(own(tensor)) if own is not None else not tensor.is_cpu

    def is_capturing(self) -> bool:
        """Whether what is launched now is kept for later, as in a CUDA graph: events mean nothing there, and looking
        at one would end the capture."""
        return bool(self._captures()) if self._captures is not None else False


def _current_stream(name: str) -> Callable[[], tuple[int, ...]] | None:
    """What tells the numbers of the current stream of a kind of device; None where torch has no such thing."""
    inside = getattr(sys.modules.get("torch"), "_C", None)
    device, stream = (getattr(inside, f"_{name}_get{what}", None) for what in ("Device", "CurrentStream"))
    if device is None or stream is None:
        return None
    return lambda: stream(device())


def _handle(stream: Any) -> int:
    for name in ("cuda_stream", "sycl_queue", "stream_id"):
        value = getattr(stream, name, None)
        if isinstance(value, int):
            return value
    return 0
