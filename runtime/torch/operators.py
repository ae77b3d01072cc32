"""The operators that modules run on few steps, counted by kind: how many, on which shapes and types, for how long.

``_core/torch/operators.cpp`` counts them, where it has been compiled for the torch at hand (:mod:`.native`); here it
learns which module is under way. What is counted is written beside the record when the last of the first counted steps
is over, and when the record ends::

    {"machine": {"cpu": model, "cores": that this process may use, "threads": of torch, "torch": its version,
                 "device": its name, "" for none},
     "modules": [[class of the model, qualified name, class, direction]],
     "kinds": [[operator, "inputs>outputs"]],
     "steps": [number of the step],
     "rows": [[row of steps, of modules, of kinds, calls, ns, of these on a CPU]]}

A tensor is its type and its sizes, ``Float[8,4,];``, then ``~`` if it is not contiguous, ``@`` if it lies on a device.
Of a list the first eight are told, and ``+92:4096;`` how many more there are and their bytes together.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _thread import allocate_lock, get_ident

from scalana.runtime import chosen_steps, session
from scalana.runtime.record import layout
from scalana.runtime.torch import native
from scalana.runtime.typed import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.torch.module_tree import Known

FIRST = chosen_steps.FIRST[1:]
"""Of the steps that have their modules timed those whose operators are counted; what is made once is made before."""
FIRST_BESIDE_DEVICE = FIRST[:1]
"""The same where a device is marked in the others: counting slows the host down, which may be what a device waits for.
"""
ONE_OF = 16 * chosen_steps.ONE_OF
"""Of later steps one of so many: if counting took as long as all that is counted, it would take 0.4 % of the time."""
MOST_STEPS = 16
"""Of a record."""
SWITCH = "SCALANA_OPERATORS"
"""Variable that forbids it with ``0``."""


class Operators:
    """What is counted in this process."""

    def __init__(self) -> None:
        self._library: Any = None
        self._tried = os.environ.get(SWITCH) == "0"
        self._pid = os.getpid()
        self._lock = allocate_lock()
        """Of the numbers of modules."""
        self._numbers: dict[tuple[str, str, str, str], int] = {}
        self._kinds: dict[tuple[str, str], int] = {}
        self._steps: list[int] = []
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._inside: dict[int, list[tuple[Any, int, Known, bool]]] = {}
        """Of every thread the calls of modules that are under way, with their numbers and whether they are backward
        passes, from the outermost."""
        self._attached: set[int] = set()
        """The threads in which torch calls what counts."""
        self.is_on = False
        self._unwritten = False

    def new_record(self) -> None:
        """Another recording began, perhaps in a forked child."""
        if self._pid != os.getpid():
            self._pid, self._lock = os.getpid(), allocate_lock()
            if self._library is not None:
                self._library.scalana_operators_forked()
        self.stop()
        self._numbers.clear()
        self._kinds.clear()
        self._steps.clear()
        self._rows.clear()
        self._unwritten = False

    # ---- steps ----

    def wants(self, step: int, one_of: int, has_device: bool = False) -> bool:
        """Whether the operators of a step are counted, of those one of ``one_of`` of which have their modules timed."""
        if len(self._steps) >= MOST_STEPS:
            return False
        return step in (FIRST_BESIDE_DEVICE if has_device else FIRST) or (
            step > FIRST[-1] and chosen_steps.is_chosen(step, max(one_of, ONE_OF))
        )

    def start(self) -> None:
        """Count from here on, in this thread and in the backward passes that it begins.

        Not where one is under way, as in an optimizer that a hook calls: what is attached there is gone after it.
        """
        library = self._found()
        self._unwritten = self._unwritten or not self._steps  # what machine it is, at least
        if library is not None and not _is_backward() and library.scalana_operators_start() == 0:
            self._inside.clear()
            self._attached.add(get_ident())
            self.is_on = True

    def stop(self, step: int = -1) -> None:
        """Count nothing more, and keep what was counted as of a step, if one is named."""
        if not self.is_on:
            return
        self.switch_off()
        self.detach()
        counted = self._take()
        if step < 0 or session.core is None:
            return
        here, self._unwritten = len(self._steps), True
        self._steps.append(step)
        for line in counted.splitlines():
            context, name, tensors, number, ns, cpu_ns = line.split("|")
            kind = self._kinds.setdefault((name, tensors), len(self._kinds))
            self._rows.append((here, int(context) - 1, kind, int(number), int(ns), int(cpu_ns)))
        if step == FIRST[-1]:
            self.write()

    def switch_off(self) -> None:
        """Count nothing more, in any thread, but stay attached; what was counted since the last step is not told."""
        if self.is_on:
            self.is_on = False
            self._library.scalana_operators_stop()

    def detach(self) -> None:
        """Have torch call nothing of ours any more in this thread, once nothing is counted.

        Later, if a backward is under way: what is detached there is back when it is over.
        """
        if not self.is_on and get_ident() in self._attached and not _is_backward():
            self._library.scalana_operators_detach()
            self._attached.discard(get_ident())

    def end(self) -> None:
        """The record ends, perhaps by the word of another thread than the one that counts."""
        try:
            self.write()
        finally:
            self.stop()
            self.detach()

    def write(self) -> None:
        """Write all that was counted, if there is anything new."""
        if session.core is None or not self._unwritten:
            return
        import json

        self._unwritten = False

        content = {
            "machine": machine(sys.modules["torch"]),
            "modules": list(self._numbers),
            "kinds": list(self._kinds),
            "steps": self._steps,
            "rows": self._rows,
        }
        try:
            layout.write_text(layout.operators_file(session.record_path), json.dumps(content, separators=(",", ":")))
        except OSError as failure:
            session.note(f"torch: the operators of modules are not recorded: {failure}")

    # ---- modules ----

    def enter(self, call: Any, known: Known, direction: str) -> None:
        """A call of a module is under way in this thread, or its backward."""
        key = (known.root, known.name, known.kind, direction)
        number = self._numbers.get(key)
        if number is None:
            with self._lock:
                number = self._numbers.setdefault(key, len(self._numbers))
        there = self._inside.setdefault(get_ident(), [])
        place, is_backward = len(there), direction == "backward"
        # Where an inner module returns what the outer one does, its backward begins first.
        while is_backward and place and _holds(known, there[place - 1][2]):
            place -= 1
        there.insert(place, (call, number + 1, known, is_backward))
        self._library.scalana_operators_context(there[-1][1])

    def leave(self, call: Any) -> None:
        """It is over; so is what a forward called and what has not returned, as it raised."""
        there = self._inside.get(get_ident(), [])
        for place in range(len(there) - 1, -1, -1):
            if there[place][0] is call:
                del there[place : place + 1 if there[place][3] else None]
                self._library.scalana_operators_context(there[-1][1] if there else 0)
                break

    # ---- what counts ----

    def _found(self) -> Any:
        if not self._tried:
            self._tried = True
            self._library = native.operators_library(sys.modules["torch"])
        return self._library

    def _take(self) -> str:
        address = self._library.scalana_operators_take()
        if not address:
            return ""
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            self._library.scalana_operators_free(address)


def _is_backward() -> bool:
    """Whether this thread is in a backward."""
    under_way: bool = sys.modules["torch"]._C._current_graph_task_id() >= 0
    return under_way


def _holds(known: Known, other: Known) -> bool:
    """Whether a module is around another one; what wraps a model has its name."""
    return known.holds(other) and (known.name != other.name or known.kind != known.root)


def machine(torch: Any) -> dict[str, Any]:
    """What tells this machine, as this process may use it, from others that compute faster or slower."""
    device = ""
    try:
        if torch.cuda.is_initialized():
            device = torch.cuda.get_device_name()
    except Exception:
        pass
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "device": device,
    }


def cpu_model() -> str:
    """The model of the CPU as the system calls it; "" where it does not say."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "cpu model", "Processor"):
                    return value.strip()
    except OSError:
        pass
    return ""
