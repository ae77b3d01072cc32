"""Collectives of torch on an emulated device, as NCCL has them: gloo moves the data, the device takes the time.

The host launches a collective and does not wait for it. It runs on a stream of its own once the stream that launched it
has come to it, ends when those of all members do, and holds up the stream that waits for its work. A flight recorder
like torch's tells how long it took, some time after its end, when a thread would have looked at it.
"""

from __future__ import annotations

import collections
import json
import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from scalana.runtime.torch.state import recording
from tests.tools.emulated_device import MS, Device

BINDINGS = torch._C._distributed_c10d
WATCHDOG_NS = 100 * MS
"""How often torch's thread looks at what is done (``kWatchdogThreadSleepMillis``)."""
KEPT = 2000
"""Operations that its flight recorder keeps, by default."""


class EmulatedWork(dist._Work):
    """What a collective gives back. It is defined before a device is found, as torch's own are."""

    def __init__(self, device: Device, moment: Any, work: Any) -> None:
        super().__init__()
        self.device, self.moment, self.work = device, moment, work

    def wait(self, timeout: Any = None) -> bool:
        """Have the current stream wait, not the host."""
        self.device.current_stream().wait_for(self.moment)
        return True


class EmulatedNCCL:
    """All groups of a process on its device.

    Args:
        device: whose time collectives take.
        length_ns: what they take from when all members are there.
    """

    def __init__(self, device: Device, length_ns: int) -> None:
        self.device, self.length_ns = device, length_ns
        self.launched: list[tuple[str, int, Any]] = []
        self._works: list[EmulatedWork] = []
        self._recorder: collections.deque[tuple[str, int, Any]] = collections.deque(maxlen=KEPT)
        EmulatedWork.wait = recording.core.torch_recorded_wait(EmulatedWork.wait, "EmulatedWork", "wait")
        self._library = torch.library.Library("c10d", "IMPL")
        with warnings.catch_warnings():  # of what is in its place
            warnings.simplefilter("ignore")
            self._library.impl("allreduce_", self._allreduce, "CPU", allow_override=True)

    def _allreduce(
        self, tensors: Any, boxed: Any, operation: Any, sparse: Any = None, async_op: bool = True, timeout: int = -1
    ) -> Any:
        group = BINDINGS.ProcessGroup.unbox(boxed)
        backend = group._get_backend(torch.device("cpu"))
        work = backend.allreduce(list(tensors), BINDINGS.AllreduceOptions())
        moment = self.device.communicate.all_reduce(self.device.current_stream(), self.length_ns)
        entry = group.group_name, backend._get_sequence_number_for_group(), moment
        self.launched.append(entry)
        self._recorder.append(entry)
        self._works.append(EmulatedWork(self.device, moment, work))
        return tensors, self._works[-1].boxed()

    def synchronize(self) -> None:
        """Have the host wait for the device, and for the data."""
        self.device.current_stream().synchronize()
        for work in self._works:
            work.work.wait()
        self._works.clear()

    def dump(self) -> bytes:
        """What ``_dump_nccl_trace`` gives."""
        entries = []
        for name, number, moment in self._recorder:
            entry = {"process_group": (name, "default_pg"), "collective_seq_id": number, "is_p2p": False}
            when = moment.when()
            if when is not None and when + WATCHDOG_NS <= time.monotonic_ns():
                entry["duration_ms"] = (when - moment.begun_ns) / MS
            entries.append(entry)
        return pickle.dumps({"version": "2.10", "entries": entries}, protocol=2)

    def tell_truth(self, path: Path) -> None:
        """Write when the kernels of this rank began and ended, in ns."""
        path.write_text(json.dumps([(moment.begun_ns, moment.when()) for _, _, moment in self.launched]))
