"""What the recorder knows of each process group of torch: its communicator in the record, ranks and counters."""

from __future__ import annotations

from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Group:
    """A communicator of this process' record, with the counters that number its operations.

    All members number the operations alike, since they must call collectives in the same order, and the messages of
    a (source, destination, tag) channel in the same order: the number is the key by which calls find their partners.
    """

    __slots__ = ("channels", "collectives", "generation", "id", "name", "ranks")

    def __init__(self, name: str, ranks: list[int]) -> None:
        self.name = name
        self.ranks = ranks
        """World rank of each group rank; empty where it is not known."""
        self.collectives = count()
        self.channels: dict[tuple[int, int, int], Any] = {}
        self.id = 0
        """Communicator id in the current record."""
        self.generation = -1
        """Record to which :attr:`id` belongs."""

    def world_rank(self, group_rank: int) -> int:
        """World rank of member ``group_rank``, -1 where unknown."""
        return self.ranks[group_rank] if 0 <= group_rank < len(self.ranks) else -1

    def message_number(self, operation: int, peer: int, tag: int) -> int:
        """Number of this message in its channel, on this side."""
        key = (operation, peer, tag)
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels.setdefault(key, count())
        return next(channel)


class Groups:
    """The groups of one process, by the name that torch gives them."""

    def __init__(self) -> None:
        self.c10d: Any = None
        self.core: Any = None
        self.by_name: dict[str, Group] = {}
        self._kept: dict[tuple[str, tuple[int, ...]], Group] = {}
        self._worlds = 0
        self._record = 0

    def new_record(self, core: Any) -> None:
        """A new record began: communicators must be defined in it before they are used."""
        self.core = core
        self._record += 1
        self.by_name = {}

    def new_world(self) -> None:
        """A default process group was made: torch may use names of destroyed groups for other ranks from now on."""
        self._worlds += 1
        self.by_name = {}

    def forget_names(self) -> None:
        """A group was made: look names up afresh."""
        self.by_name = {}

    def lookup(self, process_group: Any, torch_name: str) -> Group:
        """The communicator of ``process_group``, named ``torch_name`` by torch, defined in the record."""
        ranks = self._world_ranks(process_group)
        name = torch_name if self._worlds <= 1 else f"{torch_name}#{self._worlds}"
        key = (name, tuple(ranks))
        group = self._kept.get(key)
        if group is None:
            group = self._kept[key] = Group(name, ranks)
        self._define(group, process_group.rank())
        if ranks:
            self.by_name[torch_name] = group
        return group

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
