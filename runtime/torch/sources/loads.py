"""What each source of a mixture costs to load, batch by batch, in the process that loads: a worker of a loader, or the
rank itself.

Methods of the classes of a mixture's members are surrounded, once a loader for that mixture exists. For other objects
of these classes, and outside of a batch, that is a look into a dictionary. Nothing is drawn, changed or kept.
"""

from __future__ import annotations

import collections
import sys
import weakref
from threading import get_ident
from time import thread_time_ns

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.record.span_kinds import SOURCE
from scalana.runtime.torch.sources.members import members_of
from scalana.runtime.typed import Any

_HELD_BY = "_scalana_sources"
MOST_CALLS = 100_000
"""Of members in one batch, from which they are no sources but something that is looked up in."""
_LOOP = "_worker_loop"


class Mixture:
    """The sources of one loader in this process, and what they cost in the batch that is made."""

    __slots__ = (
        *("ahead", "batches", "began", "began_cpu", "calls", "copies", "ends", "inside", "items"),
        *("names", "number", "spent", "thread", "worker", "workers"),
    )

    def __init__(self, names: list[str], worker: int, workers: int) -> None:
        self.names = names
        self.worker, self.workers = worker, workers
        self.batches = self.calls = self.number = 0
        self.items = [0] * len(names)
        self.spent = [0] * len(names)
        """Nanoseconds."""
        self.inside = self.ends = False
        """Whether a member is at work, which may call others; whether no more is to be noted."""
        self.thread = self.began = self.began_cpu = 0
        self.copies: list[Any] = []
        """Of the members, which are read from in their stead."""
        self.ahead: collections.deque[tuple[int, int]] = collections.deque()
        """Items that threads have read: of which source, and the nanoseconds that it took."""

    def begin(self, number: int) -> None:
        """A batch is made from here on."""
        self.number = number if number >= 0 else self.batches * max(self.workers, 1) + max(self.worker, 0)
        self.batches += 1
        self.items = [0] * len(self.names)
        self.spent = [0] * len(self.names)
        self.calls, self.inside, self.thread = 0, False, get_ident()
        self.began_cpu, self.began = thread_time_ns(), session.core.now()

    def take_ahead(self) -> None:
        """Count what was read since this was last called: with the batch that is made."""
        for _ in range(len(self.ahead)):
            source, spent = self.ahead.popleft()
            self.items[source] += 1
            self.spent[source] += spent
            self.calls += 1


class Loads:
    """Notes what sources cost in this process."""

    def __init__(self) -> None:
        self.mixture: Mixture | None = None
        """Of the batch that is made now."""
        self._source_of: dict[int, tuple[Mixture, int]] = {}
        """By the identity of a member, which its fetcher keeps."""
        self._surrounded: set[tuple[type, str]] = set()
        self._patches = Patches("torch.utils.data")
        self._keys: tuple[int, ...] = ()

    def new_record(self) -> None:
        """Another recording began, perhaps in a forked child."""
        self._keys, self.mixture = (), None

    # ---- which ----

    def watch(self, fetcher: Any, data_set: Any) -> None:
        """A loader gets its batches from a data set from now on: see whether that is a mixture."""
        kind = sys.modules["torch.utils.data.dataset"].Dataset
        members = members_of(data_set, lambda one: isinstance(one, kind))
        if len(members) < 2:
            return
        info = sys.modules["torch.utils.data._utils.worker"]._worker_info
        mixture = Mixture([name for name, _ in members], *((info.id, info.num_workers) if info else (-1, 0)))
        for place, (_, member) in enumerate(members):
            self._source_of[id(member)] = mixture, place
            self._surround(type(member))
        held = [member for _, member in members]
        setattr(fetcher, _HELD_BY, (mixture, held))
        weakref.finalize(fetcher, self._forget, [id(member) for member in held], mixture).atexit = False

    def read_ahead(self, copies: list[Any]) -> None:
        """Members of the mixture of which a batch is made now are read from in threads, perhaps as copies of them."""
        mixture = self.mixture
        if mixture is None or mixture.copies or len(copies) != len(mixture.names) or mixture.thread != get_ident():
            return
        mixture.copies = list(copies)
        for place, copy in enumerate(copies):
            self._source_of[id(copy)] = mixture, place
            for name in ("__iter__", "_iter_arrow"):
                self._surround_one(type(copy), name)

    def _forget(self, members: list[int], mixture: Mixture) -> None:
        for member in (*members, *map(id, mixture.copies)):
            if self._source_of.get(member, (None,))[0] is mixture:
                del self._source_of[member]

    def _surround(self, kind: type) -> None:
        """Put what is to be measured around the methods by which objects of a class hand out items."""
        for name in ("__getitem__", "__getitems__", "__next__", "__iter__"):
            self._surround_one(kind, name)

    def _surround_one(self, kind: type, name: str) -> None:
        owner = next((one for one in kind.__mro__ if name in one.__dict__), None)
        if owner is None or (owner, name) in self._surrounded or owner.__module__ in _BARE:
            return
        self._surrounded.add((owner, name))
        if name in ("__iter__", "_iter_arrow"):
            self._patches.wrap(owner, name, self._iterating, "costs of sources")
        else:
            self._patches.surround(owner, name, self.enter, self.leave, "costs of sources")

    def _iterating(self, inner: Any) -> Any:
        def __iter__(member: Any) -> Any:
            items = inner(member)
            found = self._source_of.get(id(member))
            if found is None or items is member:
                return items
            return ItemsAhead(items, *found) if found[0].copies else Items(items, member, self)

        return __iter__

    # ---- items ----

    def enter(self, arguments: tuple[Any, ...]) -> tuple[int, int] | None:
        """A member is asked for an item, or for several."""
        mixture = self.mixture
        if mixture is None or mixture.inside:
            return None
        found = self._source_of.get(id(arguments[0]))
        if found is None or found[0] is not mixture or mixture.thread != get_ident():
            return None
        mixture.inside = True
        return found[1], session.core.now()

    def leave(self, state: tuple[int, int] | None, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
        """It has given it."""
        mixture = self.mixture
        if state is None or mixture is None:
            return
        source, began = state
        mixture.inside = False
        mixture.spent[source] += session.core.now() - began
        mixture.calls += 1
        if failure is None:
            mixture.items[source] += len(result) if len(arguments) > 1 and isinstance(arguments[1], list) else 1

    # ---- batches ----

    def enter_batch(self, arguments: tuple[Any, ...]) -> Mixture | None:
        """A fetcher makes a batch."""
        held = arguments[0].__dict__.get(_HELD_BY)
        if held is None or session.core is None or self.mixture is not None or held[0].ends:
            return None
        mixture: Mixture = held[0]
        caller = sys._getframe(1)
        number = caller.f_locals.get("idx", -1) if caller.f_code.co_name == _LOOP else -1
        mixture.begin(number)
        self.mixture = mixture
        return mixture

    def leave_batch(self, mixture: Mixture | None, arguments: tuple[Any, ...], result: Any, failure: Any) -> None:
        """It is made."""
        if mixture is None:
            return
        self.mixture = None
        mixture.take_ahead()
        mixture.ends = mixture.calls > MOST_CALLS
        core = session.core
        if core is None or failure is not None or mixture.ends:
            return
        end, cpu = core.now(), thread_time_ns() - mixture.began_cpu
        if not self._keys:
            words = ("kind", SOURCE, "items", "load_ns", "batch", "worker", "workers")
            self._keys = (core.span_types.index("other"), core.intern("source"), *map(core.intern, words))
        other, name, kind, source, items, load, batch, worker, workers = self._keys
        whole = max(sum(mixture.spent), 1)
        for place, spent in enumerate(mixture.spent):
            if mixture.items[place]:
                attributes = (
                    kind, SOURCE, source, mixture.names[place], items, mixture.items[place], load, spent,
                    batch, mixture.number, worker, mixture.worker, workers, mixture.workers,
                )  # fmt: skip
                core.span(other, 0, name, mixture.began, end, cpu * spent // whole, 0, attributes)


_BARE = frozenset(("builtins", "typing", "object"))
"""Modules whose methods are no class's of a program."""


class Items:
    """The items of a member in turn, each measured."""

    def __init__(self, items: Any, member: Any, loads: Loads) -> None:
        self._items, self._of, self._loads = items, (member,), loads

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> Any:
        state = self._loads.enter(self._of)
        if state is None:
            return next(self._items)
        failure: Any = StopIteration
        try:
            item = next(self._items)
            failure = None
            return item
        finally:
            self._loads.leave(state, self._of, None, failure)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


class ItemsAhead:
    """The items of a member that a thread reads before they are asked for."""

    def __init__(self, items: Any, mixture: Mixture, source: int) -> None:
        self._items, self._mixture, self._source = items, mixture, source

    def __iter__(self) -> ItemsAhead:
        return self

    def __next__(self) -> Any:
        core = session.core
        if core is None or self._mixture.ends:
            return next(self._items)
        began = core.now()
        item = next(self._items)
        self._mixture.ahead.append((self._source, core.now() - began))
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


LOADS = Loads()


def record_sources(module: Any) -> None:
    """Note costs of sources; ``module`` is torch's ``utils.data._utils.fetch``."""
    patches = Patches("torch.utils.data")
    session.when_started(LOADS.new_record)

    def enter(arguments: tuple[Any, ...]) -> None:
        if session.core is not None:
            patches.tried("sources of a mixture are not recorded", lambda: LOADS.watch(arguments[0], arguments[1]))

    base = getattr(module, "_BaseDatasetFetcher", None)
    patches.surround(base, "__init__", enter, lambda *_: None, "sources of data")
    for kind in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        patches.surround(getattr(module, kind, None), "fetch", LOADS.enter_batch, LOADS.leave_batch, "sources of data")


def record_interleaved(module: Any) -> None:
    """Note costs of sources that threads read ahead, each from a copy; ``module`` is ``datasets.iterable_dataset``."""
    patches = Patches("datasets")

    def enter(arguments: tuple[Any, ...]) -> None:
        if LOADS.mixture is not None:
            patches.tried("sources are not recorded", lambda: LOADS.read_ahead(arguments[0].ex_iterables))

    kind = getattr(module, "CyclingMultiSourcesExamplesIterable", None)
    for name in ("__iter__", "_iter_arrow"):
        if name in vars(kind or object):
            patches.surround(kind, name, enter, lambda *_: None, "sources of data")
