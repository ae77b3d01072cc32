"""When the backward of a module's call begins and ends, from the graph of autograd around it.

It begins when the node that made an output runs, and ends when the node that made the newest input does: the engine
runs what is newer first, so that nothing of the module is left by then. Hooks on nodes change no graph and no tensor,
as hooks around the backward of modules would. It ends as well when another module begins that is neither inside of it
nor around it (which may have made that input, or stand in another branch), and with the whole backward.
"""

from __future__ import annotations

import time
from _thread import get_ident

from scalana.runtime.typed import Any, Callable, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.torch.module_tree import Known

MOST_OUTPUTS = 4
"""Outputs of a module whose gradients are waited for."""


class Pass:
    """One call of a module, as its backward sees it."""

    __slots__ = ("began", "cpu_began", "elements", "known", "mark", "thread", "watch")

    def __init__(self, watch: Backward, known: Known, elements: int) -> None:
        self.watch, self.known, self.elements = watch, known, elements
        self.began = 0
        """ns; 0 while it has not begun, or is over."""
        self.cpu_began = -1
        """By the CPU clock of its thread, where operators are counted, and it ends in that thread."""
        self.thread = 0
        self.mark = -1
        """On the device, when it began."""

    def begins(self, _: Any) -> None:
        """The gradient of an output is there."""
        self.watch.begin(self)

    def ends(self, _: Any) -> None:
        """The gradients of the inputs are there."""
        self.watch.end(self)


class Backward:
    """The backward passes that are under way.

    Args:
        torch: the module ``torch``.
        now: the clock, ns.
        write: told of a pass that is over, and when it ended.
        failed: told of anything that went wrong.
    """

    def __init__(
        self,
        torch: Any,
        now: Callable[[], int],
        write: Callable[[Pass, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.now, self._write, self._failed = now, write, failed
        self._queue = torch.autograd.Variable._execution_engine.queue_callback
        self._task = torch._C._current_graph_task_id
        self._open: dict[tuple[int, int], list[Pass]] = {}
        """By the number of the backward, and by thread: each device has one."""
        self.pool: Any = None
        """Marks on the device, where there is one."""
        self.operators: Any = None
        """Counts the operators of modules, :class:`.operators.Operators`."""
        self._made: set[int] = set()
        """Numbers of the nodes that made outputs of modules."""

    def forget(self) -> None:
        """Nothing is under way."""
        self._open.clear()
        self._made.clear()

    def follow(self, known: Known, node: Any, elements: int, made: Iterable[Any]) -> None:
        """Watch the backward of a call that has just returned.

        Args:
            known: the module.
            node: what made its newest input, None for none.
            elements: of its first argument.
            made: the nodes that made its outputs.
        """
        followed: Pass | None = None
        for number, output in enumerate(made):
            if output is node or number >= MOST_OUTPUTS:
                continue  # it hands on what it was given
            followed = followed or Pass(self, known, elements)
            self._made.add(output._sequence_nr())
            output.register_prehook(followed.begins)
        if followed is not None and node is not None and node._sequence_nr() not in self._made:
            node.register_prehook(followed.ends)

    def begin(self, one: Pass) -> None:
        """The backward of a call begins, and ends those of modules beside it."""
        try:
            if one.began:
                return
            now = self.now()
            task = self._task(), get_ident()
            there = self._open.get(task)
            if there is None:
                there = self._open[task] = []
                self._queue(lambda: self._over(task))
            known = one.known
            beside = [other for other in there if not (other.known.holds(known) or known.holds(other.known))]
            for other in beside:
                there.remove(other)
                self._done(other, now)
            one.began = now
            one.mark = self.pool.mark() if self.pool is not None else -1
            there.append(one)
            if self.operators is not None and self.operators.is_on:
                self.operators.enter(one, one.known, "backward")
            one.cpu_began, one.thread = time.thread_time_ns(), task[1]
        except Exception as failure:
            self._failed(failure)

    def end(self, one: Pass) -> None:
        """The backward of a call is over."""
        try:
            if not one.began:
                return
            now = self.now()
            for there in self._open.values():
                if one in there:
                    there.remove(one)
            self._done(one, now)
        except Exception as failure:
            self._failed(failure)

    def _over(self, task: tuple[int, int]) -> None:
        """A whole backward is over."""
        try:
            now = self.now()
            for one in self._open.pop(task, ()):
                self._done(one, now)
        except Exception as failure:
            self._failed(failure)

    def _done(self, one: Pass, now: int) -> None:
        if self.operators is not None and self.operators.is_on:
            self.operators.leave(one)
        if one.thread != get_ident():
            one.cpu_began = -1
        self._write(one, now)
        one.began = 0


def nodes_of(values: Any, tensor: type[Any], depth: int = 2) -> Iterable[Any]:
    """The nodes that made the tensors in a value, in tuples, lists and dictionaries of them, each once and in order."""
    if isinstance(values, tensor):
        node = values.grad_fn
        return () if node is None else (node,)
    if not depth or not isinstance(values, (tuple, list, dict)):
        return ()
    found: dict[Any, None] = {}
    for value in values.values() if isinstance(values, dict) else values:
        if value is not None:
            found.update(dict.fromkeys(nodes_of(value, tensor, depth - 1)))
    return found


def newest(values: Any, tensor: type[Any]) -> Any:
    """The node of these that was made last; None where nothing has a gradient."""
    best, latest = None, -1
    for node in nodes_of(values, tensor):
        number = node._sequence_nr()
        if number > latest:
            best, latest = node, number
    return best
