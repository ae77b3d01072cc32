"""Messages between two stages of ``torch.distributed.pipelining`` on emulated devices: gloo moves what the hosts send,
the devices take the time."""

from __future__ import annotations

import time
from typing import Any

import torch.distributed as dist
from torch.distributed.pipelining import schedules

from tests.tools.emulated_device import MS, Device, Moment, Stream, _Collective

MESSAGE_NS = MS // 10
"""What a message takes from when both ranks have come to it."""


class Messages:
    """Those of one of two ranks; made once, for all schedules that run later."""

    def __init__(self, device: Device, rank: int) -> None:
        self.device, self.rank = device, rank
        self.ways = [Stream(device, 20), Stream(device, 21)]
        """Messages to the next rank, and back."""
        self.sent = [0, 0]
        self._moments: dict[int, tuple[Any, list[Moment]]] = {}
        self._batch, self._wait = schedules._batch_p2p, schedules._wait_batch_p2p
        schedules._batch_p2p, schedules._wait_batch_p2p = self.batched, self.waited

    def message(self, operation: Any) -> Moment:
        """Launch one end of a message: it goes once both ranks have come to it."""
        way = int((self.rank == 0) != (operation.op is dist.isend))
        number = 2 * self.sent[way] + way
        self.sent[way] += 1
        stream = self.ways[way]
        after = [stream.tail, self.device.compute.tail]
        stream.tail = _Collective(self.device, number, time.monotonic_ns(), after, MESSAGE_NS)
        self.device.pending.append(stream.tail)
        return stream.tail

    def batched(self, operations: Any, *args: Any, **named: Any) -> Any:
        """In place of torch's: launch them on the device, too."""
        on_device = [self.message(operation) for operation in operations]
        works = self._batch(operations, *args, **named)
        self._moments[id(works)] = works, on_device
        return works

    def waited(self, works: Any, *args: Any, **named: Any) -> None:
        """In place of torch's: have the device wait, too."""
        self._wait(works, *args, **named)
        for moment in self._moments.pop(id(works), (works, []))[1]:
            self.device.compute.wait_for(moment)
