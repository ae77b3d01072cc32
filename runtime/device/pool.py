"""Events of the device around what the program launches, taken from a pool, and read when they have come.

Nothing here waits for the device: an event is looked at (``query``) when another one is recorded, and its time is read
once it has come. What had not come when the record ends is left out, and counted.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from scalana.runtime.device.clock import ClockBounds
from scalana.runtime.record.format import LANE_STREAM, SPAN_TYPE
from scalana.runtime.typed import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.device.backend import Backend, Event
    from scalana.runtime.device.durations import Durations, Key

MOST_MARKS = 1 << 12
"""Of one step. Later ones are not taken."""
_MOST_WAITING = 4
"""Steps whose events have not come yet; the oldest is given up for another."""
_LOOK_NS = 100_000
"""From one look at whether the last marks have come to the next, at least: it takes as long as a mark itself."""
_LOOKS = 8
"""Times that the event on a stream of our own is looked at, for the clocks."""


class Origin(NamedTuple):
    """Where a span of the device comes from."""

    event: int = 0
    """The communication call of the host whose side on the device it is."""
    lane: str = ""
    """Its name, where that is not the stream of the mark."""
    where: tuple[int, int] | None = None
    """Call path and step, where these are not those of the caller."""


CALLER = Origin()


class _Span(NamedTuple):
    """What was between two marks, until their times are known."""

    begin: int
    end: int
    kind: int
    name: str
    attributes: tuple[object, ...]
    event: int
    lane: str
    path: int
    step: int


class Epoch:
    """The marks of one training step."""

    def __init__(self, number: int, step: int) -> None:
        self.number, self.step = number, step
        self.events: list[Event] = []
        self.host_ns: list[int] = []
        self.stream: list[tuple[int, int]] = []
        self.last: dict[tuple[int, int], int] = {}
        """The last mark on each stream."""
        self.seen_ns: dict[int, int] = {}
        """When marks were first seen to have come."""
        self.spans: list[_Span] = []
        self.keys: dict[Key, int] = {}
        """Events of collectives of which it is not known yet how long they took. Of several that torch launches as
        one, and gives one number, only the last."""
        self.took_ns: dict[int, int] = {}
        """How long collectives took, by their events."""


class Pool:
    """The marks of one process on the devices of one kind.

    Args:
        backend: the devices.
        core: what records.
        note: takes what a reader of the record is to know.
        durations: how long collectives took, where that is measured.
    """

    def __init__(
        self, backend: Backend, core: Any, note: Callable[[str], None], durations: Durations | None = None
    ) -> None:
        self.backend, self.core, self._note, self.durations = backend, core, note, durations
        self._lock = threading.Lock()
        self._free: list[Event] = []
        self._epochs = 0
        self.before_next: list[Callable[[], None]] = []
        """Called when a step is over that had marks: what is still to be said of it. The next mark may write it."""
        self._left_out = -1
        self._looked_ns = 0
        self._now: Epoch | None = None
        self._waiting: list[Epoch] = []
        self._clocks: dict[int, tuple[Event, ClockBounds]] = {}
        """Of each device, the first event of the last step that was written, and its bounds from there on."""
        self._lanes: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._told: set[str] = set()

    # ---- while the program runs ----

    def leave_out(self, step: int) -> None:
        """Mark nothing in a step that has begun, as something else is looked at in it that slows its host down."""
        self._left_out = step

    def mark(self) -> int:
        """Record an event on the current stream; its number, -1 if none could be."""
        try:
            if self.backend.is_capturing():
                return -1
            step = self.core.current_step()
            if step == self._left_out:
                return -1
            stream, key = self.backend.stream()
            if self._now is not None and self._now.step != step:
                for tell in self.before_next:
                    tell()
            with self._lock:
                epoch = self._epoch(step)
                if len(epoch.events) >= MOST_MARKS:
                    self._tell(f"more than {MOST_MARKS} marks on a device in one step: the rest is dropped")
                    return -1
                return epoch.number * MOST_MARKS + self._put(epoch, stream, key)
        except Exception as failure:
            self._tell(f"marks on the device end: {type(failure).__name__}: {failure}")
            return -1

    def span(
        self,
        begin: int,
        end: int,
        kind: str,
        name: str,
        attributes: tuple[object, ...] = (),
        origin: Origin = CALLER,
    ) -> None:
        """What lies between two marks is a span of the device, as if the caller had begun it.

        Args:
            begin: a mark.
            end: a later one, or the same, or one of another step: then it is not known when it ended.
            kind: ``kernel`` for communication; else what the host's span is (``module``, ``action``), which is told
                beside the type ``device``.
            name: what it is called.
            attributes: texts and values in turns.
            origin: where it comes from, if not from the caller.
        """
        if begin < 0 or end < 0:
            return
        try:
            path, step = origin.where or self.core.here()
            number, first = divmod(begin, MOST_MARKS)
            other, last = divmod(end, MOST_MARKS)
            if kind != "kernel":
                kind, attributes = "device", ("kind", kind, *attributes)
            with self._lock:
                for epoch in (self._now, *self._waiting):
                    if epoch is not None and epoch.number == number:
                        last = last if other == number else first
                        shown = (SPAN_TYPE[kind], name, attributes, origin.event, origin.lane)
                        epoch.spans.append(_Span(first, last, *shown, path, step))
        except Exception as failure:
            self._tell(f"a span of the device is lost: {type(failure).__name__}: {failure}")

    def timed(self, begin: int, event: int, key: Key) -> None:
        """How long the collective took that began at a mark will be known by its group and number in it."""
        if begin < 0:
            return
        with self._lock:
            for epoch in (self._now, *self._waiting):
                if epoch is not None and epoch.number == begin // MOST_MARKS:
                    epoch.keys[key] = event

    def untimed(self, failure: Exception) -> None:
        """How long collectives took cannot be read."""
        self.durations = None
        self._tell(f"durations of collectives are not recorded: {type(failure).__name__}: {failure}")

    def sites(self, step: int) -> list[tuple[int, int, int]]:
        """When the host was in what a step has marked so far: begin and end, and the call path of each."""
        with self._lock:
            epoch = self._now
            if epoch is None or epoch.step != step:
                return []
            host = epoch.host_ns
            return [(host[span.begin], host[span.end], span.path) for span in epoch.spans if span.end != span.begin]

    def finish(self) -> None:
        """The record ends: write what has come, and count the rest."""
        try:
            if self.backend.is_capturing():
                return
            for tell in self.before_next:
                tell()
            with self._lock:
                if self._now is not None:
                    self._waiting.append(self._now)
                    self._now = None
                self._look(last=True)
                left = sum(len(epoch.spans) for epoch in self._waiting)
                self._waiting.clear()
            if left:
                self._tell(f"{left} spans of the device are dropped: it did not reach their ends")
        except Exception as failure:
            self._tell(f"marks on the device cannot be read: {type(failure).__name__}: {failure}")

    # ---- under the lock ----

    def _epoch(self, step: int) -> Epoch:
        if self._now is not None and self._now.step == step:
            if self.core.now() - self._looked_ns > _LOOK_NS:
                self._look_at_last(self._now)
            return self._now
        if self._now is not None:
            self._waiting.append(self._now)
        self._look()
        while len(self._waiting) > _MOST_WAITING:
            self._tell("the device is far behind: marks of some steps are dropped")
            del self._waiting[0]  # its events may still be under way, and are not used again
        self._epochs += 1
        self._now = epoch = Epoch(self._epochs, step)
        self._set_clock(epoch)
        return epoch

    def _put(self, epoch: Epoch, stream: Any, key: tuple[int, int]) -> int:
        event = self._free.pop() if self._free else self.backend.event()
        number = len(epoch.events)
        epoch.host_ns.append(self.core.now())
        event.record(stream)
        epoch.events.append(event)
        epoch.stream.append(key)
        epoch.last[key] = number
        return number

    def _set_clock(self, epoch: Epoch) -> None:
        """Bound the clocks by an event on a stream where it comes at once; it is the first of the step."""
        stream = self.backend.private_stream()
        number = self._put(epoch, stream, (int(stream.device_index), -1))
        for _ in range(_LOOKS):
            if epoch.events[number].query():
                epoch.seen_ns[number] = self.core.now()
                break

    def _look_at_last(self, epoch: Epoch) -> None:
        """See whether the last marks of a step have come: it says until when at most they took."""
        self._looked_ns = self.core.now()
        for number in epoch.last.values():
            if number not in epoch.seen_ns and epoch.events[number].query():
                epoch.seen_ns[number] = self.core.now()

    def _look(self, last: bool = False) -> None:
        """Write the steps that the device is done with; ``last`` if there is no other time to do so."""
        while self._waiting:
            epoch = self._waiting[0]
            self._look_at_last(epoch)
            if not all(number in epoch.seen_ns for number in epoch.last.values()):
                return
            self._read_durations(epoch, last)
            # torch learns a little later than we how long the last collectives took.
            if epoch.keys and self.durations is not None and not last and len(self._waiting) < _MOST_WAITING:
                return
            del self._waiting[0]
            self._write(epoch)
            kept = {id(event) for event, _ in self._clocks.values()}
            self._free += [event for event in epoch.events if id(event) not in kept]

    def _read_durations(self, epoch: Epoch, last: bool) -> None:
        if self.durations is None or not epoch.keys:
            return
        try:
            for key, took_ns in self.durations.read(epoch.keys, last).items():
                epoch.took_ns[epoch.keys.pop(key)] = took_ns
        except Exception as failure:
            epoch.keys.clear()
            self.untimed(failure)

    def _write(self, epoch: Epoch) -> None:
        """All events of a step have come: read their times, and write its spans."""
        base: dict[int, Event] = {}
        bounds: dict[int, ClockBounds] = {}
        device_ns = []
        for number, event in enumerate(epoch.events):
            device = epoch.stream[number][0]
            first = base.setdefault(device, event)
            time_ns = 0 if first is event else round(first.elapsed_time(event) * 1e6)
            device_ns.append(time_ns)
            clock = bounds.setdefault(device, ClockBounds())
            clock.recorded(epoch.host_ns[number], time_ns)
            if number in epoch.seen_ns:
                clock.seen(epoch.seen_ns[number], time_ns)
        for device, first in base.items():
            bounds[device] = self._keep_clock(device, first, bounds[device])
        for span in epoch.spans:
            key = epoch.stream[span.begin]
            offset = bounds[key[0]].offset_ns
            begin, end = device_ns[span.begin] + offset, device_ns[span.end] + offset
            told: list[object] = [self._name("queued_ns"), max(begin - epoch.host_ns[span.begin], 0)]
            if span.end != span.begin:
                told += [self._name("behind_ns"), max(end - epoch.host_ns[span.end], 0)]
            if span.lane and epoch.stream[span.end] == key:
                told += [self._name("stream"), self.backend.stream_name(key)]
            if span.event in epoch.took_ns:
                told += [self._name("kernel_ns"), epoch.took_ns[span.event]]
            for place in range(0, len(span.attributes) - 1, 2):
                told += [self._name(str(span.attributes[place])), span.attributes[place + 1]]
            self.core.span_at(
                span.kind,
                self._lane(span.lane or self.backend.stream_name(key)),
                self._name(span.name),
                max(begin, 0),
                max(end, begin, 0),
                span.path,
                span.step,
                span.event,
                tuple(told),
            )

    def _keep_clock(self, device: int, first: Event, bounds: ClockBounds) -> ClockBounds:
        """Bounds from the first event of a step on, by those of the step before too."""
        before = self._clocks.get(device)
        if before is not None:
            event, earlier = before
            bounds = bounds.since(earlier, round(event.elapsed_time(first) * 1e6))
            self._free.append(event)
        self._clocks[device] = (first, bounds)
        return bounds

    def _lane(self, name: str) -> int:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = self.core.lane(LANE_STREAM, name)
        return lane

    def _name(self, text: str) -> int:
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = self.core.intern(text)
        return number

    def _tell(self, text: str) -> None:
        """Note something once."""
        if text not in self._told and len(self._told) < 8:
            self._told.add(text)
            self._note(f"device: {text}")
