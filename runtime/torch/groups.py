"""What the recorder knows of each process group of torch: its communicator in the record, ranks and counters."""

from __future__ import annotations

import ctypes
import weakref
from itertools import count

from scalana.runtime import _core
from scalana.runtime.typed import Any


class Group:
    """A communicator of this process' record, with the counters that number its operations.

    All members number the operations alike, since they must call collectives in the same order, and the messages of
    a (source, destination, tag) channel in the same order: the number is the key by which calls find their partners.
    """

    __slots__ = ("generation", "id", "key", "name", "ranks")

    _keys = count(1)

    def __init__(self, name: str, ranks: list[int]) -> None:
        self.name = name
        self.ranks = ranks
        """World rank of each group rank; empty where it is not known."""
        self.key = next(Group._keys)
        """By which its counters are known."""
        self.id = 0
        """Communicator id in the current record."""
        self.generation = -1
        """Record to which :attr:`id` belongs."""

    def collective_number(self) -> int:
        """Number of this collective in the group."""
        return _core.number(self.key, 0, -1, 0)


def address(wrapped: Any) -> int:
    """Address of the C++ object behind a pybind11 object, which is the first word after the Python header."""
    return ctypes.c_void_p.from_address(id(wrapped) + object.__basicsize__).value or 0


class Groups:
    """The groups of one process, by the name that torch gives them."""

    def __init__(self) -> None:
        self.c10d: Any = None
        self.core: Any = None
        self._watched: dict[int, Any] = {}
        self._kept: dict[tuple[str, tuple[int, ...]], Group] = {}
        self._worlds = 0
        self._record = 0

    def new_record(self, core: Any) -> None:
        """A new record began: communicators must be defined in it before they are used."""
        self.core = core
        self._record += 1
        self.forget_names()

    def new_world(self) -> None:
        """A default process group was made: torch may use names of destroyed groups for other ranks from now on."""
        self._worlds += 1
        self.forget_names()

    def forget_names(self) -> None:
        """A group is being made: look names up afresh."""
        self._watched.clear()
        _core.forget_group(0)

    def learn(self, process_group: Any) -> bool:
        """Have the kernels know ``process_group`` by its address, for as long as no other can take it."""
        place = address(process_group)
        if not place:
            return False
        torch_name = process_group.group_name
        ranks = self._world_ranks(process_group)
        name = torch_name if self._worlds <= 1 else f"{torch_name}#{self._worlds}"
        key = (name, tuple(ranks))
        group = self._kept.get(key)
        if group is None:
            group = self._kept[key] = Group(name, ranks)
        self._define(group, process_group.rank())

        forget = _core.forget_group  # the module's names are gone before the last groups

        def gone(_: Any) -> None:
            forget(place)

        self._watched[place] = weakref.ref(process_group, gone)
        _core.know_group(place, group.key, group.id, group.ranks)
        return True

    def pseudo(self, name: str, ranks: list[int], my_rank: int) -> Group:
        """A communicator for what torch does not do on a group: making groups."""
        key = (name, tuple(ranks))
        group = self._kept.get(key)
        if group is None:
            group = self._kept[key] = Group(name, ranks)
        self._define(group, my_rank)
        return group

    def _define(self, group: Group, my_rank: int) -> None:
        if group.generation != self._record:
            group.id = self.core.group(group.name, my_rank, group.ranks)
            group.generation = self._record

    def _world_ranks(self, process_group: Any) -> list[int]:
        world = self.c10d._world
        members = world.pg_group_ranks.get(process_group)
        if members:
            return [rank for rank, _ in sorted(members.items(), key=_second)]
        default = world.default_pg
        size = process_group.size()
        if default is None or process_group is default or default.size() == size:
            return list(range(size))
        return []


def _second(pair: tuple[int, int]) -> int:
    return pair[1]
