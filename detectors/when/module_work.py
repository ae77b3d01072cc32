"""What the modules of a model computed and moved on the steps whose operators were counted, rank by rank.

Seconds and operators are of the same steps, and what is said of a module is said of all that is inside of it. What a
checkpoint computes again counts for the backward within which it does. Seconds are those of the thread on a CPU, where
that is known: a module is not slow because others have its core.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.section_name import SectionName
from scalana.detectors.when.module_times import lasted_s, summed_calls, waiting_in
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.folder.operators import OperatorCounts, OperatorKind
from scalana.graphs.spans.modules import DIRECTIONS, Module, ModuleCalls, device_calls, module_calls
from scalana.graphs.spans.operator_costs import bytes_of, flops_of
from scalana.graphs.steps.periods import Periods

WAYS = ("forward", "backward")
"""The second with what is computed again in it."""
_BACKWARD, _RECOMPUTE = DIRECTIONS.index("backward"), DIRECTIONS.index("recompute")


@dataclass(frozen=True, slots=True)
class ModuleWork:
    """The work of modules.

    Tables are ``[modules, ways, ranks]``, ways as in :data:`WAYS`: means of a step with all that is inside included,
    NaN on ranks whose operators were not counted. Columns are ``[rows]``: a kind of operator that a module itself ran,
    one way, on one step of a rank.
    """

    modules: list[Module]
    kinds: list[OperatorKind]
    steps: FloatArray
    """How many were counted ``[ranks]``."""
    on_device: BoolArray
    """Whether the seconds of a module are those of a device ``[modules, ranks]``."""
    seconds: FloatArray
    """Table: without waiting for other ranks; on a CPU, as far as that is known, or on a device, where it is marked."""
    stalled_s: FloatArray
    """Table: neither on a CPU nor waiting for other ranks."""
    own_s: FloatArray
    """Table, outside of the modules that are inside."""
    flops: FloatArray
    """Table of floating-point operations."""
    bytes: FloatArray
    """Table."""
    operators: FloatArray
    """Table of calls of operators."""
    operators_s: FloatArray
    """Table of seconds in them; NaN where they only launch what a device does."""
    module: IntArray
    """Column."""
    way: IntArray
    """Column."""
    rank: IntArray
    """Column."""
    kind: IntArray
    """Column."""
    calls: FloatArray
    """Column."""
    call_s: FloatArray
    """Column: seconds of all these calls, on a CPU."""

    def table(self, values: FloatArray) -> FloatArray:
        """A table of something that each row has ``[rows]``; modules' own, without what is inside."""
        return _summed(values, (self.module, self.way, self.rank), self.seconds.shape) * per_step(self.steps)

    def with_inside(self, table: FloatArray) -> FloatArray:
        """The same with what is inside."""
        return with_inside(table, self.modules)

    def inside(self, module: int) -> list[int]:
        """A module, and all that are inside of it."""
        found = {module}
        for number in range(module + 1, len(self.modules)):  # parents come first
            if self.modules[number].parent in found:
                found.add(number)
        return sorted(found)

    def operators_of(self, modules: list[int], ways: tuple[int, ...], rank: int) -> dict[int, tuple[float, float]]:
        """Calls and seconds of a step, by kind, of what some modules themselves ran on a rank."""
        chosen = np.isin(self.module, modules) & np.isin(self.way, ways) & (self.rank == rank)
        calls, seconds = (
            np.bincount(self.kind[chosen], column[chosen], len(self.kinds)) for column in (self.calls, self.call_s)
        )
        here = np.flatnonzero(calls)
        scale = 1.0 / float(self.steps[rank])
        return {kind: (float(calls[kind]) * scale, float(seconds[kind]) * scale) for kind in here.tolist()}


def per_step(steps: FloatArray) -> FloatArray:
    """One over the number of steps, NaN for none ``[ranks]``."""
    return np.divide(1.0, steps, out=np.full(len(steps), np.nan), where=steps > 0)


def module_work(ppg: PPG, waits: WaitStates, first: int = 0) -> ModuleWork | None:
    """The work of the modules of a run; None where no operators were counted.

    Steps before the ``first`` of the steady state count only on ranks that counted no others.
    """
    counts, timeline = ppg.models.operators, ppg.timeline
    calls = module_calls(ppg.spans)
    if not len(counts) or not len(calls):
        return None
    chosen = _chosen(counts, calls, first, timeline.ranks)
    number = {(one.root, one.name, one.kind): place for place, one in enumerate(calls.modules)}
    module_of = np.array([number.get(key[:3], -1) for key in counts.modules], np.int64)
    way_of = np.array([int(key[3] != WAYS[0]) for key in counts.modules], np.int64)
    kept = np.flatnonzero(_in(counts.rank, counts.step, chosen) & (module_of[counts.module] >= 0))
    if not len(kept):
        return None
    steps = np.bincount([rank for rank, _ in chosen], minlength=timeline.ranks).astype(np.float64)
    timed = np.flatnonzero(_in(calls.rank, calls.step, chosen))
    lasted = lasted_s(calls, timed, ppg.spans, waiting_in(timeline, waits))
    on_cpu = np.fmin(lasted, ppg.spans.cpu_s(calls.row[timed]))  # a wait that spins is on a CPU, too
    seconds, stalled_s = (_seconds(calls, timed, values, ppg) * per_step(steps) for values in (on_cpu, lasted - on_cpu))
    on_device = _on_devices(seconds, stalled_s, ppg, calls, timed, chosen, steps)
    call_s = np.minimum(counts.seconds, counts.cpu_s)[kept]
    module, way, rank = module_of[counts.module[kept]], way_of[counts.module[kept]], counts.rank[kept]
    kind, repeated = counts.kind[kept], counts.calls[kept].astype(np.float64)
    launched = np.array([one.is_on_device for one in counts.kinds], np.bool_)

    def table(values: FloatArray) -> FloatArray:
        own = _summed(values, (module, way, rank), seconds.shape)
        return with_inside(own * per_step(steps), calls.modules)

    return ModuleWork(
        modules=calls.modules,
        kinds=counts.kinds,
        steps=steps,
        on_device=on_device,
        seconds=seconds,
        stalled_s=stalled_s,
        own_s=np.maximum(seconds - _of_children(seconds, calls.modules), 0.0),
        flops=table(np.array([flops_of(one) for one in counts.kinds], np.float64)[kind] * repeated),
        bytes=table(np.array([bytes_of(one) for one in counts.kinds], np.float64)[kind] * repeated),
        operators=table(repeated),
        operators_s=table(np.where(launched[kind], np.nan, call_s)),
        module=module,
        way=way,
        rank=rank,
        kind=kind,
        calls=repeated,
        call_s=call_s,
    )


def _chosen(counts: OperatorCounts, calls: ModuleCalls, first: int, ranks: int) -> set[tuple[int, int]]:
    """Rank and number of the steps to count: those of which there are times as well."""
    there = set(zip(counts.rank.tolist(), counts.step.tolist(), strict=True))
    there &= set(zip(calls.rank.tolist(), calls.step.tolist(), strict=True))
    there = {(rank, step) for rank, step in there if rank < ranks}
    steady = {rank for rank, step in there if step >= first}
    return {(rank, step) for rank, step in there if step >= first or rank not in steady}


def _in(rank: IntArray, step: IntArray, chosen: set[tuple[int, int]]) -> BoolArray:
    key = np.array(sorted(chosen), np.int64).reshape(-1, 2)
    return np.isin((rank << 32) + step, (key[:, 0] << 32) + key[:, 1])


def _seconds(calls: ModuleCalls, rows: IntArray, seconds: FloatArray, ppg: PPG) -> FloatArray:
    """Seconds of some calls, ``[rows]``, as ``[modules, ways, ranks]``; what is computed again within the backward of
    the same module counts once."""
    spans, ranks = ppg.spans, ppg.timeline.ranks
    place = calls.module[rows], calls.direction[rows], calls.rank[rows]
    sums, times = summed_calls(place, seconds, len(calls.modules), ranks)
    result = sums[:, : len(WAYS)].copy()
    for module in np.flatnonzero(times[:, _RECOMPUTE].any(axis=1)).tolist():
        own = np.flatnonzero(calls.module[rows] == module)
        there, again = (own[calls.direction[rows[own]] == way] for way in (_BACKWARD, _RECOMPUTE))
        (since, until), (start, end) = (
            (spans.start_s(calls.row[rows[some]]), spans.end_s(calls.row[rows[some]])) for some in (there, again)
        )
        rank = calls.rank[rows[again]]
        during = Periods.joined(calls.rank[rows[there]], since, until, ranks).inside_s(rank, start, end)
        outside = 1.0 - np.divide(during, end - start, out=np.zeros(len(rank)), where=end > start)
        result[module, _BACKWARD] += np.bincount(rank, outside * seconds[again], ranks)
    return result


def _on_devices(
    seconds: FloatArray,
    stalled_s: FloatArray,
    ppg: PPG,
    host: ModuleCalls,
    timed: IntArray,
    chosen: set[tuple[int, int]],
    steps: FloatArray,
) -> BoolArray:
    """Put the seconds on devices in the place of the host's, where all that the host called is marked there.

    ``timed`` are the rows of the ``host``'s calls that count, in steps that are ``chosen``, and ``steps`` how many
    there are of these on each rank. Returns whose seconds they are ``[modules, ranks]``.
    """
    calls = device_calls(ppg.spans, host.modules)
    rows = np.flatnonzero(_in(calls.rank, calls.step, chosen))
    shape = len(host.modules), len(DIRECTIONS), ppg.timeline.ranks
    counts = [
        _summed(np.ones(len(some)), (of.module[some], of.direction[some], of.rank[some]), shape)
        for of, some in ((host, timed), (calls, rows))
    ]
    there = (counts[0] == counts[1]).all(axis=1) & counts[1].any(axis=1)
    lasted = ppg.spans.end_s(calls.row[rows]) - ppg.spans.start_s(calls.row[rows])
    on_device = np.repeat(there[:, np.newaxis], len(WAYS), axis=1)
    seconds[on_device] = (_seconds(calls, rows, lasted, ppg) * per_step(steps))[on_device]
    stalled_s[on_device] = 0.0
    return there


def _summed(values: FloatArray, place: tuple[IntArray, IntArray, IntArray], shape: tuple[int, ...]) -> FloatArray:
    """A table of what some rows have, each at its place ``[rows]``."""
    table = np.zeros(shape)
    np.add.at(table, place, values)
    return table


def with_inside(table: FloatArray, modules: list[Module]) -> FloatArray:
    """What modules do themselves, and what is inside of them ``[modules, ...]``."""
    table = table.copy()
    for number in range(len(modules) - 1, -1, -1):  # parents come first
        parent = modules[number].parent
        if parent >= 0:
            table[parent] += table[number]
    return table


def _of_children(seconds: FloatArray, modules: list[Module]) -> FloatArray:
    """Seconds in the modules right inside of each."""
    table = np.zeros(seconds.shape)
    for number, module in enumerate(modules):
        if module.parent >= 0:
            table[module.parent] += seconds[number]
    return table


WORK: SectionName[ModuleWork] = SectionName("work")
"""Where operators were counted."""
