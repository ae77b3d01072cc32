"""Marks on the device around the layers of stages: in the steps in which actions have some, and no more than is cheap.

A mark takes the host some microseconds, and there are four for a layer and microbatch. So no step has more than a part
of the marks that one may have at all: where that is too few for all layers, they are marked in every second
microbatch, every third, and so on, evenly, so that each of these has all of them. A process that finds even that too
dear marks layers in fewer steps than actions: see :mod:`scalana.runtime.chosen_steps`.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.chosen_steps import Chosen, is_chosen
from scalana.runtime.device import marks
from scalana.runtime.device.pool import MOST_MARKS
from scalana.runtime.typed import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.pipeline.runs import Run

MOST = MOST_MARKS // 2
"""Marks of layers in one step, at most."""
OF_LAYER = 5
"""Marks of a layer in one microbatch, at most: around its forward and its backward, and after its part W."""
_OF_ACTIONS = 6
"""Marks of the actions of a stage in one microbatch, at most: around F, I and W."""


class LayerMarks:
    """The marks around the layers of this process."""

    def __init__(self) -> None:
        self.chosen = Chosen()
        self._pool: Any = None
        self._step = -1
        self._began = self._spent_ns = self._left = 0
        self._every, self._first = 1, 0

    def new_record(self) -> None:
        """Another recording began, maybe in a forked process."""
        self._pool, self._step = None, -1

    def wants(self, run: Run) -> bool:
        """Whether the layers of a run are timed: on devices in steps in which actions are marked, else in some runs."""
        pool, core = marks.pool(), session.core
        step = core.current_step()
        if self._pool is not None and step != self._step:
            self.chosen.cost(self._spent_ns, core.now() - self._began)
            self._pool = None
        if pool is None:
            return is_chosen(run.number)
        if not run.trains or step not in self.chosen:
            return False
        if step != self._step:  # and not a later run in it
            self._step, self._left = step, MOST
            self._began, self._spent_ns = core.now(), 0
        self._pool = pool
        return True

    def share(self, run: Run, layers: int) -> None:
        """Choose the microbatches of a run whose layers are marked; the rank has so many layers."""
        told = run.plan.attributes.get("microbatches")
        microbatches = told if isinstance(told, int) else 1
        room = min(self._left, MOST_MARKS - _OF_ACTIONS * microbatches * max(len(run.marks.chunk), 1))
        most = max(room, 0) // (OF_LAYER * layers + 2)
        self._every = -(-microbatches // most) if most else 0
        self._first = run.number % self._every if self._every else 0

    def of(self, microbatch: int) -> bool:
        """Whether the layers of a microbatch are marked."""
        return self._pool is not None and self._every > 0 and microbatch % self._every == self._first

    def mark(self) -> int:
        """A mark on the current stream; -1 if there may be no more in this step."""
        if self._pool is None or self._left <= 0:
            return -1
        self._left -= 1
        now = self._pool.core.now
        since = now()
        number: int = self._pool.mark()
        self._spent_ns += now() - since
        return number

    def span(self, begin: int, end: int, name: str, kind: str, stage: int, microbatch: int) -> None:
        """What a layer did between two marks, in an action of a kind."""
        if begin >= 0 and end >= 0 and self._pool is not None:
            told = ("stage", stage, "microbatch", microbatch, "action", kind)
            now = self._pool.core.now
            since = now()
            self._pool.span(begin, end, "module", name, told)
            self._spent_ns += now() - since


layer_marks = LayerMarks()
session.when_started(layer_marks.new_record)
