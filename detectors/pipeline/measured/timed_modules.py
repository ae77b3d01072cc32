"""The layers of a pipeline of which nobody told the stages: the modules that ranks call in its actions.

Modules are timed on some steps, forward and backward. A call belongs to the action that it lies in. What two actions
between the same messages have is divided by guess, so the end that is certain counts: a forward that was sent ended
there, a backward that was received began there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.measured.replayable import ActionRows
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.thresholds.seconds import AT_ONCE_S
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.spans.modules import DIRECTIONS, Module, ModuleCalls, module_calls
from scalana.graphs.spans.span_columns import Spans

CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
"""Modules whose items are layers, rather than they themselves."""
PLACEHOLDERS = ("Identity", "PPMissingLayer")
"""Modules that stand where another stage has a layer: they do nothing."""

Layer = tuple[int, int]
"""A module, and the how-manieth call of it in an action."""


@dataclass(frozen=True)
class _Called:
    """Timed calls of modules and the actions of a pipeline that they may lie in."""

    calls: ModuleCalls
    start_s: FloatArray
    """``[calls]``"""
    end_s: FloatArray
    """``[calls]``"""
    rows: ActionRows
    ranks: tuple[int, ...]
    """Ranks of the run, by place in the pipeline."""

    def met(self, stage: int, kind: Kind, chosen: BoolArray) -> _Met:
        """Calls of ``chosen`` modules, ``[modules]``, in the actions of a kind and stage."""
        actions = self.rows.take((self.rows.stage == stage) & (self.rows.kind == kind))
        if not len(actions.kind):
            return _Met([], {})
        direction = DIRECTIONS.index("forward" if kind == Kind.F else "backward")
        mine = chosen[self.calls.module] & (self.calls.direction == direction)
        told = np.flatnonzero(mine & (self.calls.rank == self.ranks[int(actions.rank[0])]))
        told = told[np.argsort(self.start_s[told], kind="stable")]
        return _of_actions(actions, self.start_s[told], self.end_s[told], self.calls.module[told])


def find_layers(spans: Spans, rows: ActionRows, ranks: tuple[int, ...]) -> Layers | None:
    """The layers of the stages of ``rows``, whose ranks are places in ``ranks``; None unless those of every stage were
    timed, in every kind of action that there is."""
    calls = module_calls(spans)
    if not len(calls):
        return None
    called = _Called(calls, spans.start_s(calls.row), spans.end_s(calls.row), rows, ranks)
    stages = range(int(rows.stage.max()) + 1)
    roots = np.array([module.parent < 0 for module in calls.modules])
    again = {module for stage in stages for module, place in called.met(stage, Kind.F, roots).order if place}
    chosen = _are_layers(calls.modules, again)
    names: list[str] = []
    costs: list[FloatArray] = []
    cut = [0]
    for stage in stages:
        found = {kind: called.met(stage, kind, chosen) for kind in (Kind.F, Kind.B)}
        if not found[Kind.F].cost_s or (not found[Kind.B].cost_s and bool((rows.kind == Kind.B).any())):
            return None
        order = found[Kind.F].order or found[Kind.B].order
        several = Counter((calls.modules[module].root, calls.modules[module].name) for module, _ in order)
        for module, place in order:
            one = calls.modules[module]
            names.append((one.name or one.root) + (f" {place}" if several[one.root, one.name] > 1 else ""))
            cost = np.zeros(4)
            for kind, met in found.items():
                cost[kind] = met.cost_s.get((module, place), 0.0)
            costs.append(cost)
        cut.append(len(names))
    return Layers(tuple(names), np.array(costs).T, np.array(cut, np.int64))


def _are_layers(modules: list[Module], again: Collection[int]) -> BoolArray:
    """Which modules are layers ``[modules]``.

    The children of what is called by no other, the items of those that only hold others, and so on below a child that
    holds a list; that itself, where it calls no other. Where an action calls such a class ``again``, as the program
    goes through the blocks of its stage itself, each call of it is a layer.
    """
    children: dict[int, list[int]] = {}
    for number, module in enumerate(modules):
        children.setdefault(module.parent, []).append(number)
    layers = np.zeros(len(modules), bool)

    def holds_list(number: int) -> bool:
        name = modules[number].name
        below = [modules[child].name[len(name) + bool(name) :].split(".") for child in children.get(number, [])]
        return modules[number].kind in CONTAINERS or sum(len(parts) > 1 for parts in below) > 1

    def look(number: int, is_root: bool) -> None:
        inner = children.get(number, [])
        if inner and (is_root or holds_list(number)):
            for child in inner:
                look(child, False)
        else:
            layers[number] = modules[number].kind not in PLACEHOLDERS

    for root in children.get(-1, []):
        look(root, root not in again)
    return layers


@dataclass
class _Met:
    """What was met in the actions of one kind and stage."""

    order: list[Layer]
    """In the order of an action, the one that most actions have."""
    cost_s: dict[Layer, float]
    """The median of each."""


def _of_actions(actions: ActionRows, start_s: FloatArray, end_s: FloatArray, module: IntArray) -> _Met:
    """Calls of modules (in order of time) by the actions of one kind and stage that they lie in."""
    actions = actions.take(np.argsort(actions.begin_s, kind="stable"))
    ends = ~np.isnan(actions.sent_s)
    of: dict[int, int] = {}  # the action of each call: the first whose end is certain, or the last whose begin is
    for action, (begin, end) in enumerate(_certain(actions)):
        low, high = np.searchsorted(start_s, begin - AT_ONCE_S), np.searchsorted(start_s, end)
        for call in range(int(low), int(high)):
            if end_s[call] <= end + AT_ONCE_S and not (ends[action] and call in of):
                of[call] = action
    met: dict[int, list[int]] = {}
    for call, action in sorted(of.items()):
        met.setdefault(action, []).append(call)
    seconds: dict[Layer, list[float]] = {}
    orders: Counter[tuple[Layer, ...]] = Counter()
    backward = bool(len(actions.kind)) and int(actions.kind[0]) == Kind.B
    for calls in met.values():
        seen: Counter[int] = Counter()
        order: list[Layer] = []
        for call in reversed(calls) if backward else calls:
            one = int(module[call])
            order.append((one, seen[one]))
            seen[one] += 1
            seconds.setdefault(order[-1], []).append(float(end_s[call] - start_s[call]))
        orders[tuple(order)] += 1
    usual = list(orders.most_common(1)[0][0]) if orders else []
    return _Met(usual, {layer: float(np.median(took)) for layer, took in seconds.items() if layer in usual})


def _certain(actions: ActionRows) -> list[tuple[float, float]]:
    """Between when and when the calls of each action can lie: where its begin or its end is a guess, as long again on
    that side."""
    length = actions.end_s - actions.begin_s
    sent, came = ~np.isnan(actions.sent_s), ~np.isnan(actions.wait_end_s)
    begin = np.where(came, actions.begin_s, actions.begin_s - length)
    end = np.where(sent, actions.end_s, actions.end_s + length)
    return list(zip(begin.tolist(), end.tolist(), strict=True))
