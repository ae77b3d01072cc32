"""A device that is none: streams and events that go on while the host does, with the interface of ``torch.cuda``.

What is put on a stream takes its time after what lies before it on the stream, however late the host looks. When it is
done is worked out rather than waited for, so that kernels take exactly as long as they are to. Collectives of several
processes end together: a thread of each tells the others, through a file, when its stream came to one.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from pathlib import Path

from scalana.runtime.device.windows import Kernel

US, MS = 1_000, 1_000_000
LATENCY_NS = 5 * US
"""From a launch to the begin of the kernel, at the earliest."""
_MOST = 4096
"""Collectives of a job."""


class Moment:
    """When something on a stream is done."""

    def __init__(self, launched_ns: int, after: list[Moment], length_ns: int) -> None:
        self.launched_ns, self.after, self.length_ns = launched_ns, after, length_ns
        self._when: int | None = None

    def ready(self) -> int | None:
        """When it can begin; None while that is not known."""
        before = [moment.when() for moment in self.after]
        return None if None in before else max([self.launched_ns, *before])  # type: ignore[list-item]

    def when(self) -> int | None:
        """When it is done; None while that is not known."""
        if self._when is None:
            ready = self.ready()
            self._when = None if ready is None else self.done(ready)
            if self._when is not None:
                self.after = []
        return self._when

    def done(self, ready_ns: int) -> int | None:
        """When it is done, if it can begin at a moment."""
        return ready_ns + self.length_ns


class _Collective(Moment):
    """A kernel that ends when all ranks have come to it."""

    def __init__(self, device: Device, number: int, launched_ns: int, after: list[Moment], length_ns: int) -> None:
        super().__init__(launched_ns, after, length_ns)
        self.device, self.number = device, number
        self.begun_ns = 0

    def done(self, ready_ns: int) -> int | None:
        self.begun_ns = ready_ns
        ready = self.device.tell(self.number, ready_ns)
        return max(ready) + self.length_ns if all(ready) else None


class Stream:
    """Where kernels follow each other."""

    device_index = 0

    def __init__(self, device: Device, number: int) -> None:
        self.device, self.cuda_stream = device, number
        self.tail = Moment(0, [], 0)

    def put(self, length_ns: int, name: str = "kernel") -> None:
        """Launch a kernel that takes so long."""
        now = time.monotonic_ns()
        self.tail = Moment(now + LATENCY_NS, [self.tail], length_ns)
        if self.device.launched is not None:
            self.device.launched.append((name, self.cuda_stream, self.tail, now))

    def all_reduce(self, after: Stream, length_ns: int) -> Moment:
        """Launch a collective that needs what another stream does."""
        now = time.monotonic_ns() + LATENCY_NS
        self.tail = _Collective(self.device, self.device.number(), now, [self.tail, after.tail], length_ns)
        self.device.pending.append(self.tail)
        return self.tail

    def wait_for(self, moment: Moment) -> None:
        """Let nothing that is launched from here on begin before something on another stream is done."""
        self.tail = Moment(0, [self.tail, moment], 0)

    def synchronize(self) -> None:
        """Wait on the host until all is done."""
        while (when := self.tail.when()) is None or when > time.monotonic_ns():
            time.sleep(0.0002 if when is None else max((when - time.monotonic_ns()) / 1e9, 0.0))


class Profiler:
    """Sees the kernels of a device, as torch's profiler does."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def start(self) -> bool:
        """Begin to look."""
        self.device.launched = []
        return True

    def stop(self) -> list[Kernel]:
        """All that ran since then."""
        launched, self.device.launched = self.device.launched or [], None
        ended = [(name, stream, moment, moment.when(), begun) for name, stream, moment, begun in launched]
        return [
            Kernel(name, f"emulated:0 kernels of stream {stream}", when - moment.length_ns, when, begun)
            for name, stream, moment, when, begun in ended
            if when is not None
        ]


class Event:
    """A moment on a stream."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.moment: Moment | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Put it onto a stream."""
        stream = stream or self.device.current_stream()
        self.moment = stream.tail = Moment(time.monotonic_ns() + LATENCY_NS, [stream.tail], 0)

    def query(self) -> bool:
        """Whether it has come."""
        when = self.moment.when() if self.moment else None
        return when is not None and when <= time.monotonic_ns()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds up to another, in single precision as of CUDA."""
        assert self.moment and end_event.moment, "an event was not recorded"
        first, last = self.moment.when(), end_event.moment.when()
        assert first is not None and last is not None and self.query() and end_event.query(), "an event has not come"
        return struct.unpack("f", struct.pack("f", (last - first) / MS))[0]


class Device:
    """What of ``torch.cuda`` there is.

    Args:
        board: a file that all ranks share, for when they come to collectives.
    """

    def __init__(self, board: Path, rank: int, ranks: int) -> None:
        self.rank, self.ranks = rank, ranks
        self.compute, self.communicate = Stream(self, 7), Stream(self, 20)
        self.pending: list[Moment] = []
        self.launched: list[tuple[str, int, Moment, int]] | None = None
        self._posted = 0
        self.capturing = False
        with board.open("r+b") as file:
            self._board = mmap.mmap(file.fileno(), 8 * _MOST * ranks)
        self._row = struct.Struct(f"{ranks}q")
        threading.Thread(target=self._carry_on, daemon=True).start()

    def meet(self) -> None:
        """Wait until all ranks are here."""
        while not all(self.tell(_MOST - 1, 1)):
            time.sleep(0.001)

    @staticmethod
    def make_board(path: Path, ranks: int) -> Path:
        """The file that they share."""
        path.write_bytes(bytes(8 * _MOST * ranks))
        return path

    def Event(self, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def Stream(self) -> Stream:
        return Stream(self, 99)

    def current_stream(self) -> Stream:
        return self.compute

    def current_device(self) -> int:
        return 0

    def holds(self, tensor: object) -> bool:
        """All tensors of the program, which lie on the host, are taken for its own."""
        return True

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def number(self) -> int:
        """Of the next collective."""
        self._posted += 1
        return self._posted - 1

    def tell(self, number: int, ready_ns: int) -> tuple[int, ...]:
        """Say when this rank comes to a collective; when all do, 0 for those that have not said so yet."""
        struct.pack_into("q", self._board, 8 * (number * self.ranks + self.rank), ready_ns)
        return self._row.unpack_from(self._board, 8 * number * self.ranks)

    def _carry_on(self) -> None:
        while True:
            self.pending = [moment for moment in self.pending if moment.when() is None]
            time.sleep(0.0005)
