"""Record where ranks meet to make process groups, and learn this process' rank from it."""

from __future__ import annotations

import os
import zlib

from scalana.runtime import session
from scalana.runtime.operations import BY_NAME
from scalana.runtime.patching import in_place_of, surrounded
from scalana.runtime.typed import Any, Callable

_BLOCKING = 1
_LONGEST_NAME = 64
_WORLD_KEY = "scalana/world"
"""In the store of a process group."""


def patch(c10d: Any) -> None:
    """Wrap the functions of module ``c10d`` (``distributed_c10d``) that make process groups.

    All other recording of torch waits for the first of these calls: a program that imports torch but never
    communicates pays nothing for it.
    """
    _wrap(c10d, "init_process_group", _Init(c10d))
    # new_group, new_subgroups and device meshes all end here; split_group makes a group out of another one.
    _wrap(c10d, "_new_group_with_tag", _NewGroup(c10d))
    _wrap(c10d, "split_group", _Split(c10d))
    end = getattr(c10d, "destroy_process_group", None)
    if end is not None:
        c10d.destroy_process_group = surrounded(end, _before_the_end, lambda *_: None)
    announce = _Init(c10d).announce
    session.when_started(announce)
    announce()


def _wrap(c10d: Any, name: str, watcher: _Watcher) -> None:
    original = getattr(c10d, name, None)
    if original is not None:
        setattr(c10d, name, _watched(original, watcher))


def _before_the_end(_: tuple[Any, ...]) -> None:
    """The connections of a process group are about to be closed."""
    if session.core is not None:
        session.core.count_sockets()


def _watched(original: Callable[..., Any], watcher: _Watcher) -> Callable[..., Any]:
    @in_place_of(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        event = watcher.enter(args, kwargs)
        try:
            result = original(*args, **kwargs)
        finally:
            watcher.leave(event)
        watcher.made()
        return result

    return call


class _Watcher:
    """Records calls of one function as blocking collectives of a communicator made up for them.

    The group itself has no name before it exists, and a rank that is stuck in the call must still be seen."""

    operation = 0

    def __init__(self, c10d: Any) -> None:
        self.c10d = c10d
        self.recording: Any = None

    def prepare(self) -> None:
        """Have everything else of torch recorded from here on."""
        if self.recording is None:
            from scalana.runtime.torch import comm as torch_comm
            from scalana.runtime.torch import state as torch_state

            torch_comm.install(self.c10d)
            self.recording = torch_state.recording

    def members(self, args: Any, kwargs: Any) -> tuple[str, list[int], int] | None:
        """Name, world ranks and my place among them of who meets in this call; ``None`` if this rank does not."""
        raise NotImplementedError

    def enter(self, args: Any, kwargs: Any) -> int:
        try:
            if session.core is None:
                return 0
            self.prepare()
            self.recording.groups.forget_names()
            core = self.recording.core
            members = self.members(args, kwargs)
            if members is None:
                return 0
            name, ranks, place = members
            group = self.recording.groups.pseudo(name, ranks, place)
            event: int = core.begin(self.operation, group.id, group.collective_number(), -1, 0, 0, _BLOCKING)
            return event
        except Exception as failure:
            session.note(f"torch: the making of a group was not recorded: {failure!r}")
            return 0

    def leave(self, event: int) -> None:
        if event:
            self.recording.core.end(event)

    def made(self) -> None:
        """The call returned."""
        if self.recording is not None:
            self.recording.groups.forget_names()


class _Init(_Watcher):
    operation = BY_NAME["init_process_group"].code
    world = ""
    """Where the processes of the group meet, which tells it from others."""

    def members(self, args: Any, kwargs: Any) -> tuple[str, list[int], int] | None:
        self.world = _meeting_place(kwargs.get("init_method", args[1] if len(args) > 1 else None))
        world_size = kwargs.get("world_size", args[3] if len(args) > 3 else -1)
        rank = kwargs.get("rank", args[4] if len(args) > 4 else -1)
        if world_size is None or world_size < 0:
            world_size = int(os.environ.get("WORLD_SIZE", "-1"))
        if rank is None or rank < 0:
            rank = int(os.environ.get("RANK", "-1"))
        if rank < 0 or world_size < 1:
            return None
        return "init_process_group", list(range(world_size)), rank

    def meet(self) -> None:
        """Agree with the other ranks on an identity of this process group: that of the first that comes counts.

        Nobody waits for another one in this, and a rank that is not recorded is not needed.
        """
        store = getattr(self.c10d, "_get_default_store", lambda: None)()
        if store is not None:
            drawn = os.urandom(16).hex()
            try:
                agreed = store.compare_set(_WORLD_KEY, "", drawn)
            except (NotImplementedError, RuntimeError):  # a store that is none, as of simulated groups
                return
            session.belong_to(agreed.decode() if isinstance(agreed, bytes) else str(agreed), "world_id")

    def announce(self) -> None:
        """Recording begins in the midst of a program (or in a forked child): there may be a process group already."""
        if self.c10d.is_initialized():
            self.prepare()
            session.become_rank(self.c10d.get_rank(), self.c10d.get_world_size())

    def made(self) -> None:
        if self.recording is None:
            return
        try:
            self.recording.groups.new_world()
            session.become_rank(self.c10d.get_rank(), self.c10d.get_world_size(), self.world)
            self.meet()
        except Exception as failure:
            self.recording.failed("the rank of this process", failure)


def _meeting_place(init_method: Any) -> str:
    if init_method is not None and str(init_method) != "env://":
        return str(init_method)
    address = os.environ.get("MASTER_ADDR", "")
    return f"{address}:{os.environ.get('MASTER_PORT', '')}" if address else ""


class _NewGroup(_Watcher):
    operation = BY_NAME["new_group"].code

    def members(self, args: Any, kwargs: Any) -> tuple[str, list[int], int] | None:
        ranks = kwargs.get("ranks", args[0] if args else None)
        rank = self.c10d.get_rank()
        if ranks is None:
            ranks = range(self.c10d.get_world_size())
        return _meeting("new_group", sorted(ranks), rank)


class _Split(_Watcher):
    operation = BY_NAME["new_group"].code

    def members(self, args: Any, kwargs: Any) -> tuple[str, list[int], int] | None:
        parent = kwargs.get("parent_pg", args[0] if args else None) or self.c10d._get_default_group()
        ranks = sorted(self.c10d.get_process_group_ranks(parent))
        return _meeting("split_group", ranks, self.c10d.get_rank())


def _meeting(name: str, ranks: list[int], rank: int) -> tuple[str, list[int], int] | None:
    if rank not in ranks:
        return None
    text = ",".join(map(str, ranks))
    if len(text) > _LONGEST_NAME:
        text = f"{len(ranks)} ranks {zlib.crc32(text.encode()):08x}"
    return f"{name} {text}", ranks, ranks.index(rank)
