"""The inter-procedural step, once for all languages: call sites become the functions that they call.

A function that is called from two places is inlined twice, so that each vertex has one calling context. What keeps
that finite: a call that leads back to a function above it is recursion, and becomes a call vertex with a back edge;
beyond :attr:`Linker.depth` functions inside each other, and beyond :attr:`Linker.budget` vertices, calls stay call
vertices, which samples fill in. Functions are expanded breadth first, so that what the budget cuts off is the deepest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Protocol

from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.structure.source_tree import (
    UNKNOWN,
    Body,
    Decision,
    FunctionStructure,
    Node,
    Target,
    instantiate,
    settle,
)

UNROLLED = 3
"""A function that is entered in a new context each time (a closure, a nest of objects) may be inside itself this
often before that counts as recursion."""


_TOO_LARGE = "the program's structure is too large to list; its deepest calls come from samples"


class Names(Protocol):
    """What knows where call sites lead to; one for each language."""

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision | None:
        """What a call site of a function is, in a context; None if the function is of another language."""


class Linker:
    """Adds functions, with all that they call, to a graph.

    Args:
        names: resolve the names at call sites, each those of its language.
        budget: vertices beyond which calls are not expanded any more.
        depth: functions inside each other beyond which they are not.
    """

    def __init__(self, psg: PSG, names: Sequence[Names], *, budget: int = 200_000, depth: int = 40) -> None:
        self.psg = psg
        self.names = names
        self.budget = budget
        self.depth = depth
        self.called: set[FunctionStructure] = set()
        """Functions that something calls."""
        self._bodies: dict[Target, Body] = {}
        self._limit = budget
        self._queue: deque[tuple[int, Target]] = deque()
        self._functions: dict[int, tuple[Target, int]] = {}  # function vertex -> what it is, and how deep

    def add(self, target: Target, parent: int = 0, share: int | None = None) -> int:
        """Add a function that nothing calls (a module, an entry point) and all it leads to; returns its vertex.

        ``share`` is how many vertices it may add, where that is less than what is left of the budget.
        """
        self._limit = self.budget if share is None else min(self.budget, len(self.psg) + share)
        index = self._open(target, parent, None, 0)
        while self._queue:
            function, inlined = self._queue.popleft()
            vertex = self.psg[function]
            if len(self.psg) >= self._limit and vertex.site is not None:
                vertex.kind, vertex.place, vertex.site = VertexKind.CALL, vertex.site, None
                self._cut(_TOO_LARGE)
            else:
                instantiate(self.psg, function, self.body(inlined), self._enter)
        return index

    def body(self, target: Target) -> Body:
        """The body of a function with its calls resolved."""
        body = self._bodies.get(target)
        if body is None:
            function, context = target.function, target.context
            body = settle(function.nodes, lambda node: self._decide(function, context, node))
            self._bodies[target] = body
        return body

    def _decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision:
        for names in self.names:
            decision = names.decide(function, context, node)
            if decision is not None:
                return decision
        return UNKNOWN

    def _open(self, target: Target, parent: int, site: Place | None, depth: int) -> int:
        index = self.psg.add(VertexKind.FUNCTION, target.function.place, parent, site=site)
        self._functions[index] = target, depth
        self._queue.append((index, target))
        return index

    def _enter(self, psg: PSG, node: Node, target: Target, parent: int) -> int:
        self.called.add(target.function)
        caller = psg.enclosing(parent, VertexKind.FUNCTION)
        depth = self._functions[caller][1] + 1
        back = self._recursion(caller, target)
        if back >= 0:
            return psg.add(VertexKind.CALL, node.place, parent, recursion=back)
        if depth > self.depth:
            self._cut(f"calls are followed {self.depth} functions deep; deeper ones come from samples")
        elif len(psg) >= self._limit:
            self._cut(_TOO_LARGE)
        else:
            return self._open(target, parent, node.place, depth)
        return psg.add(VertexKind.CALL, node.place, parent)

    def _recursion(self, caller: int, target: Target) -> int:
        """The function vertex above that a call goes back to, -1 if there is none."""
        times = 0
        back = -1
        while caller >= 0:
            above = self._functions[caller][0]
            if above.function is target.function:
                times += 1
                back = back if back >= 0 else caller
                if above.context is target.context or times >= UNROLLED:
                    return caller if above.context is target.context else back
            caller = self.psg.enclosing(self.psg[caller].parent, VertexKind.FUNCTION)
        return -1

    def _cut(self, warning: str) -> None:
        if warning not in self.psg.warnings:
            self.psg.warnings.append(warning)
