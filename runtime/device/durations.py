"""How long collectives themselves took on a device, where torch measures it: what its flight recorder says.

NCCL runs on a stream of its own, onto which nobody else can put an event. With ``TORCH_NCCL_ENABLE_TIMING=1`` torch
puts one before and one after each collective; a thread of torch's own reads the time between them once it is done, up
to a tenth of a second later, and keeps it with the last operations. Nothing has to be kept alive for it, and no hook
that the program may want itself is taken. Reading copies all that torch keeps, and so is done as often as is cheap.
"""

from __future__ import annotations

import os
import pickle
import sys
import time

from scalana.runtime.chosen_steps import COST
from scalana.runtime.typed import Any, Callable, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Key = tuple[str, int]
    """Name of a group, and number of a collective in it."""

VARIABLES = ("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING")
"""Those by which a program has torch measure collectives; the first that is set counts."""
_YES = ("y", "yes", "1", "t", "true")
"""What torch takes for that, in any case of letters."""


class Durations:
    """Those of this process.

    Args:
        dump: gives torch's flight recorder as a pickle.
        clock: nanoseconds.
    """

    def __init__(self, dump: Callable[[], bytes], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._dump, self._clock = dump, clock
        self._not_before_ns = 0

    def read(self, wanted: Iterable[Key], at_any_price: bool = False) -> dict[Key, int]:
        """Nanoseconds of those of some collectives that are done, as far as that is known.

        Args:
            wanted: which ones.
            at_any_price: read also if the last time was so dear that it is too early for another.
        """
        begun = self._clock()
        if begun < self._not_before_ns and not at_any_price:
            return {}
        keys = set(wanted)
        found: dict[Key, int] = {}
        for entry in pickle.loads(self._dump()).get("entries", ()):  # noqa: S301 -- torch made it, just now
            took_ms = entry.get("duration_ms")
            key = entry["process_group"][0], entry["collective_seq_id"]
            if took_ms is not None and not entry.get("is_p2p") and key in keys:
                found[key] = max(round(took_ms * 1e6), found.get(key, 0))
        ended = self._clock()
        self._not_before_ns = ended + round((ended - begun) / COST)
        return found


def of_torch(device: str) -> Durations | None:
    """Where torch says how long collectives of a kind of device took; ``None`` where it does not."""
    asked = next((os.environ[name] for name in VARIABLES if name in os.environ), "")
    if device != "cuda" or asked.lower() not in _YES:
        return None
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_nccl_trace", None)
    return None if dump is None else Durations(lambda: dump(includeStackTraces=False))


def key_of(process_group: Any, tensor: Any) -> Key:
    """What tells the collective that was launched last in a group from others."""
    backend = process_group._get_backend(tensor.device)
    return process_group.group_name, backend._get_sequence_number_for_group()
