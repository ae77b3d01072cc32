"""Weights that a program loads while it computes (experts), and how it looks them up.

``runtime/torch/experts/loads.py`` writes a span for each call of the program's functions around a load. Here one of
these functions becomes the load itself, as each of its calls loads, and one the lookup, as it returns weights that it
had to load only sometimes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.span_columns import Spans
from scalana.runtime.record.span_kinds import EXPERTS

_LOADS = 0.95
"""Part of the calls of a function that load, from which it is what loads: its other calls may find a file there."""
_SAME = 0.9
"""Part of the most weights that any function is called for, from which another one is called for as many."""
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Uses(ColumnTable):
    """Lookups of weights, those of a thread in order; columns are ``[uses]``."""

    row: IntArray
    """Of the spans."""
    rank: IntArray
    lane: IntArray
    start_s: FloatArray
    end_s: FloatArray
    weight: IntArray
    """Which weights: a number of those that are equal."""
    layer: IntArray
    """Place of its layer among all, in the order in which a pass goes through them."""
    turn: IntArray
    """Number of the pass through the layers, of its thread."""
    missed: BoolArray
    """Whether it had to be loaded since the lookup before of the same weights."""
    load_s: FloatArray
    """Seconds that this took, wherever; 0 where it was there."""
    bytes: FloatArray
    """Of the load."""

    def some(self, chosen: BoolArray | IntArray) -> Uses:
        """Some of them."""
        return Uses(*(getattr(self, name)[chosen] for name in Uses.__slots__))

    @property
    def seconds(self) -> FloatArray:
        """What each took."""
        return np.asarray(self.end_s - self.start_s)

    def exposed_s(self) -> FloatArray:
        """Seconds for which a lookup waited for a load: longer than one that needs none usually takes."""
        there = self.seconds[~self.missed]
        usual_s = float(np.median(there)) if len(there) else 0.0
        return np.where(self.missed, np.maximum(self.seconds - usual_s, 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class WeightLoads:
    """What a run looks up and loads."""

    uses: Uses
    lookup: str
    """Function of the program that looks weights up."""
    load: str
    """The one that loads; the same where nothing keeps weights, or what does was not seen."""
    layers: tuple[str, ...]
    """Names of the layers; one that is empty where they are not known."""
    unused: int
    """Loads for which no lookup asked."""

    @property
    def has_cache(self) -> bool:
        """Whether a lookup is known that does not always load."""
        return self.lookup != self.load


@dataclass(frozen=True, slots=True)
class _Function:
    """The calls of a function; columns are ``[calls]``."""

    name: str
    row: IntArray
    keys: list[Key]
    """What each was called for."""
    loads: BoolArray
    returns: float
    """Part of the calls that return weights."""
    seconds: float

    @property
    def weights(self) -> int:
        return len(set(self.keys))


def weight_loads_of(spans: Spans, ranks: int) -> WeightLoads | None:
    """Those of a run; None where it loads no weights while it computes, or only once."""
    functions = _functions(spans, ranks)
    loading = [one for one in functions if one.loads.mean() >= _LOADS and one.weights > 1]
    if not loading:
        return None
    most = max(one.weights for one in loading)
    load = max((one for one in loading if one.weights >= _SAME * most), key=lambda one: one.seconds)
    cached = [one for one in functions if one not in loading and one.returns > 0.5 and one.weights > 1]
    around = [one for one in cached if _holds_one_each(_parents(load.row, one.row, spans))]
    as_many = [one for one in cached if one.weights >= _SAME * most]
    lookup = min(around or as_many, key=lambda one: one.seconds, default=load)
    return _joined(lookup, load, spans)


def _functions(spans: Spans, ranks: int) -> list[_Function]:
    """Every function that was called with numbers, with what each call was for."""
    rows = spans.of_ranks(spans.rows("other", EXPERTS), ranks)
    rows = rows[spans.texts("kind")[rows] == spans.number(EXPERTS)]
    if not len(rows):
        return []
    function, text, owner = spans.texts("function")[rows], spans.texts("key")[rows], spans.integers("object")[rows]
    loads, returns = spans.integers("loads", 0)[rows] > 0, spans.integers("returns", 0)[rows]
    seconds = spans.end_s(rows) - spans.start_s(rows)
    numbers = {one: tuple(map(int, re.findall(r"\d+", spans.names[one]))) for one in np.unique(text).tolist()}
    found = []
    for which in np.unique(function).tolist():
        mine = np.flatnonzero(function == which)
        # Experts of several layers may have an object each, which is called with their numbers alone.
        several = len(np.unique(owner[mine])) > 1
        of_key = [
            ((int(own), *numbers[one]) if several else numbers[one])
            for own, one in zip(owner[mine].tolist(), text[mine].tolist(), strict=True)
        ]
        keys = _varying(of_key)
        found.append(
            _Function(
                spans.names[which],
                rows[mine],
                keys,
                loads[mine],
                float(returns[mine].mean()),
                float(seconds[mine].sum()),
            )
        )
    return found


def _varying(keys: list[Key]) -> list[Key]:
    """Keys without the places that are equal in all of them; as they are where their lengths differ."""
    if len({len(key) for key in keys}) != 1 or not keys[0]:
        return keys
    table = np.array(keys)
    kept = np.flatnonzero((table != table[0]).any(axis=0))
    return [tuple(row) for row in table[:, kept].tolist()]


def _parents(inner: IntArray, outer: IntArray, spans: Spans) -> IntArray:
    """Place in ``outer`` of the call that each of some other calls lies in, of the same thread, -1 for none
    ``[inner]``."""
    lane, start_s, end_s = spans.table.lane, spans.start_s(), spans.end_s()
    result = np.full(len(inner), -1)
    for one in np.unique(lane[inner]).tolist():
        mine = np.flatnonzero(lane[outer] == one)
        mine = mine[np.argsort(start_s[outer[mine]], kind="stable")]
        calls = np.flatnonzero(lane[inner] == one)
        if not len(mine):
            continue
        at_s = start_s[inner[calls]]
        before = np.searchsorted(start_s[outer[mine]], at_s, side="right") - 1
        found = mine[np.maximum(before, 0)]
        inside = (before >= 0) & (at_s <= end_s[outer[found]])
        result[calls[inside]] = found[inside]
    return result


def _holds_one_each(parents: IntArray) -> bool:
    """Whether some loads lie in calls of a function, and nearly always one in each."""
    inside = parents[parents >= 0]
    return len(inside) > 0 and len(np.unique(inside)) >= _SAME * len(inside)


def _joined(lookup: _Function, load: _Function, spans: Spans) -> WeightLoads | None:
    """All lookups, each with the load that it needed."""
    lane = spans.table.lane
    loaded: dict[tuple[int, Key], list[tuple[float, float, float]]] = {}
    size = spans.integers("bytes", 0)
    process = spans.lanes.process
    start_s, end_s = spans.start_s(load.row), spans.end_s(load.row)
    load_keys = _keys_of_loads(lookup, load, spans)
    for row, key, begun, ended in zip(load.row.tolist(), load_keys, start_s.tolist(), end_s.tolist(), strict=True):
        loaded.setdefault((int(process[lane[row]]), key), []).append((ended, ended - begun, float(size[row])))
    order = np.lexsort((spans.start_s(lookup.row), lane[lookup.row]))
    row = lookup.row[order]
    keys = [lookup.keys[place] for place in order.tolist()]
    load_s, bytes_, missed = _loads_of_uses(row, keys, loaded, spans)
    layer, names = _layers(keys, lane[row], _modules(load.row, load_keys, spans))
    number = {key: place for place, key in enumerate(sorted(set(keys)))}
    uses = Uses(
        row,
        spans.rank[row],
        lane[row].astype(np.int64),
        spans.start_s(row),
        spans.end_s(row),
        np.array([number[key] for key in keys], np.int64),
        layer,
        _turns(layer, lane[row]),
        missed,
        load_s,
        bytes_,
    )
    return WeightLoads(uses, lookup.name, load.name, names, sum(map(len, loaded.values())))


def _loads_of_uses(
    row: IntArray, keys: list[Key], loaded: dict[tuple[int, Key], list[tuple[float, float, float]]], spans: Spans
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Seconds and bytes of the loads of each lookup, and whether it has any: those that ended since the lookup before.
    They are taken out of ``loaded``."""
    load_s, bytes_ = np.zeros(len(row)), np.zeros(len(row))
    missed = np.zeros(len(row), np.bool_)
    process = spans.lanes.process[spans.table.lane[row]].tolist()
    for ones in loaded.values():
        ones.sort(reverse=True)
    end_s = spans.end_s(row)
    for place in np.argsort(end_s, kind="stable").tolist():
        waiting = loaded.get((process[place], keys[place]), [])
        while waiting and waiting[-1][0] <= end_s[place]:
            _, took_s, size = waiting.pop()
            missed[place] = True
            load_s[place] += took_s
            bytes_[place] += size
    return load_s, bytes_, missed


def _keys_of_loads(lookup: _Function, load: _Function, spans: Spans) -> list[Key]:
    """What each load was for: as the lookup around it says, or by the first of the load's own numbers."""
    if lookup is load:
        return load.keys
    length = len(lookup.keys[0])
    parents = _parents(load.row, lookup.row, spans).tolist()
    return [
        lookup.keys[parent] if parent >= 0 else key[:length] for key, parent in zip(load.keys, parents, strict=True)
    ]


def _modules(rows: IntArray, keys: list[Key], spans: Spans) -> dict[Key, Key]:
    """The numbers in the name of the module that first loaded each of the weights."""
    text = spans.texts("module")[rows]
    found: dict[Key, Key] = {}
    for key, one in zip(keys, text.tolist(), strict=True):
        if one >= 0:
            found.setdefault(key, tuple(map(int, re.findall(r"\d+", spans.names[one]))))
    return found


def _layers(keys: list[Key], lane: IntArray, modules: dict[Key, Key]) -> tuple[IntArray, tuple[str, ...]]:
    """The layer of each lookup, and the names of all layers.

    Of the numbers that a lookup is called with, that of the layer is the same in each module, or goes up during a pass:
    it falls least often. Where there is one number alone, it is the expert's, and the layer is that of the module
    around its load.
    """
    values = np.zeros(len(keys), np.int64)
    if len({len(key) for key in keys}) == 1 and len(keys[0]) > 1:
        table = np.array(keys)
        same = lane[1:] == lane[:-1]
        falls = ((table[1:] < table[:-1]) & same[:, None]).sum(axis=0)
        place = _place_of_module(modules, len(keys[0]))
        values = table[:, int(falls.argmin()) if place is None else place]
    elif modules:
        outer = dict(zip(modules, _varying(list(modules.values())), strict=True))
        values = np.array([outer.get(key, (0,))[:1] or (0,) for key in keys])[:, 0]
    number, layer = np.unique(values, return_inverse=True)
    names = tuple(map(str, number.tolist())) if len(number) > 1 else ("",)
    return layer.reshape(-1).astype(np.int64), _module_numbers(keys, layer.reshape(-1), modules) or names


def _module_numbers(keys: list[Key], layer: IntArray, modules: dict[Key, Key]) -> tuple[str, ...]:
    """What modules call the layers, which may be known by the objects of their caches alone; empty where they do not
    tell them apart."""
    inner = [module[1:] for module in modules.values()]  # without the number of the outermost one
    outer = dict(zip(modules, _varying(inner), strict=True)) if modules else {}
    pairs = {(one, outer[key]) for one, key in zip(layer.tolist(), keys, strict=True) if key in outer}
    if len(pairs) < 2 or not len(pairs) == len({module for _, module in pairs}) == int(layer.max()) + 1:
        return ()
    return tuple(".".join(map(str, module)) for _, module in sorted(pairs))


def _place_of_module(modules: dict[Key, Key], places: int) -> int | None:
    """The number of keys that tells the modules around loads from each other; None where none does, or several do."""
    found = []
    for place in range(places):
        pairs = {(key[place], module) for key, module in modules.items() if len(key) == places}
        if 1 < len(pairs) == len({value for value, _ in pairs}) == len({module for _, module in pairs}):
            found.append(place)
    return found[0] if len(found) == 1 else None


def _turns(layer: IntArray, lane: IntArray) -> IntArray:
    """Number of the pass through the layers that each lookup is a part of: another one begins with an earlier layer."""
    begins = np.zeros(len(layer), np.int64)
    begins[1:] = (layer[1:] < layer[:-1]) | (lane[1:] != lane[:-1])
    return np.cumsum(begins)
