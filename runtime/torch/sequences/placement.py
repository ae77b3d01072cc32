"""On which NUMA nodes the threads of this process run, and where the weights of a model lie.

Where a machine has one node, that is known from two files, and nothing else is done.
"""

from __future__ import annotations

import os
import weakref

from scalana.runtime import session
from scalana.runtime.typed import Any, Sequence

NODES = "/sys/devices/system/node"
_PAGES = 256
"""Of a model's weights that the kernel is asked for."""
_LEAST_APART = 4096


class Placement:
    """Where the loops of this process that generate have run, and their weights."""

    def __init__(self) -> None:
        self.node_of = _nodes_of_cores()
        """By core; empty where all are of one node."""
        self._weights: tuple[Any, list[int]] = (None, [])
        """A weak reference to the model looked at last, and addresses of its weights."""
        self._failed = False

    def cpu_ns(self) -> tuple[int, ...]:
        """CPU time of the process so far by core; nothing on a machine with one node."""
        return session.core.core_times() if self.node_of else ()

    def of_phases(self, times: Sequence[tuple[int, ...]], model: Any) -> list[tuple[Any, ...]]:
        """Keys and values of each phase, which lies between two times. A phase that is too short to be seen has run
        where the whole request did."""
        phases = list(zip(times, times[1:], strict=False))
        if not self.node_of or model is None:
            return [() for _ in phases]
        pages = self._pages_by_node(model)
        whole = self._used_by_core(times[0], times[-1])
        return [self._as_attributes(self._used_by_core(*phase) or whole, pages) for phase in phases]

    @staticmethod
    def _used_by_core(before: tuple[int, ...], after: tuple[int, ...]) -> dict[int, int]:
        earlier = (*before, *(0 for _ in after[len(before) :]))
        used = {core: one - other for core, (one, other) in enumerate(zip(after, earlier, strict=False))}
        return {core: spent for core, spent in used.items() if spent > 0}

    def _as_attributes(self, used: dict[int, int], pages: dict[int, int]) -> tuple[Any, ...]:
        """``far_permille`` is the part of the weights that lie on another node than a thread, by its CPU time."""
        by_node: dict[int, int] = {}
        for core, spent in used.items():
            node = self.node_of.get(core, -1)
            by_node[node] = by_node.get(node, 0) + spent
        if not by_node:
            return ()
        here = ("node", max(by_node, key=by_node.__getitem__), "cores", len(used))
        if not pages:
            return here
        whole = sum(pages.values()) * sum(by_node.values())
        near = sum(spent * pages.get(node, 0) for node, spent in by_node.items())
        return (
            *here,
            "memory_node",
            max(pages, key=pages.__getitem__),
            "far_permille",
            round(1000 - 1000 * near / whole),
        )

    def _pages_by_node(self, model: Any) -> dict[int, int]:
        """How many of some pages of its weights lie on each node; none where the kernel does not say."""
        found: dict[int, int] = {}
        try:
            known, addresses = self._weights
            if known is None or known() is not model:
                addresses = _some_addresses(model)
                self._weights = weakref.ref(model), addresses
            for node in session.core.page_nodes(addresses):
                if node >= 0:
                    found[node] = found.get(node, 0) + 1
        except Exception as failure:  # a container may forbid the question
            if not self._failed:
                session.note(f"torch: on which NUMA node weights lie is not recorded: {failure!r}")
            self._failed = True
        return found


def _some_addresses(model: Any) -> list[int]:
    """Addresses in the weights of a model, each as many bytes after the last."""
    parts = [(one.data_ptr(), one.nbytes) for one in model.parameters() if one.device.type == "cpu"]
    apart = max(sum(size for _, size in parts) // _PAGES, _LEAST_APART)
    found: list[int] = []
    before = 0
    for begin, size in parts:
        found += range(begin + -before % apart, begin + size, apart)
        before += size
    return found


def _nodes_of_cores() -> dict[int, int]:
    """The node of each core, where there are several."""
    found: dict[int, int] = {}
    try:
        for name in os.listdir(NODES):
            if name.startswith("node") and name[4:].isdigit():
                with open(f"{NODES}/{name}/cpulist", encoding="ascii") as file:
                    found.update(dict.fromkeys(_numbers(file.read().strip()), int(name[4:])))
    except (OSError, ValueError):
        return {}
    return found if len(set(found.values())) > 1 else {}


def _numbers(listed: str) -> list[int]:
    """The numbers in a list as the kernel writes it: "0-3,8"."""
    pairs = [part.partition("-") for part in listed.split(",") if part]
    return [number for first, _, last in pairs for number in range(int(first), int(last or first) + 1)]
