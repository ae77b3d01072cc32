"""How far modules stay below what the machine can do: a slow module told apart from a big one.

By the roofline model (Williams, Waterman, Patterson, CACM 2009), operator by operator: one that has to do F operations
and to move B bytes takes at least ``max(F / peak, B / bandwidth)``, both as measured on the machine. The least time of
a module is the sum over its operators. What it takes beyond that could be gained, at best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.seconds import TINY_S
from scalana.detectors.thresholds.shares import SHARE_OF_ITS_OWN
from scalana.detectors.when.module_work import ModuleWork
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.spans.operator_costs import bytes_of, flops_of, is_communication, product_type

COMPUTE, MEMORY, OVERHEAD = BOUNDS = ("compute", "memory", "overhead")
"""What most of the time of a module goes to: operators whose arithmetic takes longer than their data, the others, or
what is neither: code between operators, and operators too small for their cost of being called."""
_WIDE, _USUAL = "float64", "float32"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What one process can do, with all others of its host at work as well."""

    flops: Mapping[str, float]
    """Floating-point operations a second in a large matrix product, by type of elements."""
    bandwidth: tuple[tuple[int, float], ...]
    """Bytes moved by an operator, and bytes a second; from small ones, which stay in caches, to large ones."""

    def peak(self, dtype: str, has_usual: bool = False) -> float:
        """FLOP/s for products of a type; of one that was not measured those of the fastest.

        Where float32 is faster its speed counts: for narrower types, which some CPUs only emulate, and for float64 in a
        model that has products in float32 as well (``has_usual``), so that float64 is a choice.
        """
        known = [self.flops[dtype]] if dtype in self.flops else list(self.flops.values())
        if (dtype != _WIDE or has_usual) and _USUAL in self.flops:
            known.append(self.flops[_USUAL])
        return max(known, default=float("nan"))

    def bytes_per_s(self, moved: float) -> float:
        """Bytes a second for an operator that moves so many: at best those of the next larger one measured, or of any
        yet larger."""
        larger = [speed for size, speed in self.bandwidth if size >= moved]
        return max(larger) if larger else self.bandwidth[-1][1] if self.bandwidth else float("nan")


@dataclass(frozen=True, slots=True)
class Roofline:
    """Modules beside the ceilings of the machine. Tables are as in :class:`.work.ModuleWork`, NaN on ranks without
    ceilings too."""

    work: ModuleWork
    ceilings: Mapping[int, Ceilings]
    """By rank."""
    least_s: FloatArray
    """Table of the least time."""
    own_gain_s: FloatArray
    """Table of what a module itself takes beyond its least time, without what is inside."""
    parts_s: FloatArray
    """Seconds by what they go to ``[bounds, modules, ways, ranks]``, in the order of :data:`BOUNDS`."""
    own_parts_s: FloatArray
    """The same without what is inside of a module."""
    call_least_s: FloatArray
    """Least time of the calls of a row ``[rows]``."""

    def bound(self, module: int, way: int) -> str:
        """What most of the time of a module goes to, one of :data:`BOUNDS`; "" where it is not known."""
        parts = np.nansum(self.parts_s[:, module, way], axis=1)
        return BOUNDS[int(np.argmax(parts))] if parts.any() else ""


def roofline(work: ModuleWork, ceilings: Mapping[int, Ceilings]) -> Roofline | None:
    """Put the work of modules beside the ceilings of their ranks; None where no rank has both."""
    if not any(work.steps[rank] > 0 for rank in ceilings):
        return None
    compute, memory = _kinds(work, ceilings)
    place = {rank: number for number, rank in enumerate(ceilings)}
    of_rank = np.array([place.get(rank, -1) for rank in range(len(work.steps))], np.int64)[work.rank]
    known = of_rank >= 0
    compute_s, memory_s = (np.where(known, each[of_rank, work.kind] * work.calls, np.nan) for each in (compute, memory))
    least_s = np.fmax(compute_s, memory_s)
    meets = np.array([is_communication(kind) for kind in work.kinds], np.bool_)[work.kind]
    least_s = np.where(meets, work.call_s, least_s)  # how fast it could be is another question
    launched = np.array([kind.is_on_device for kind in work.kinds], np.bool_)[work.kind]
    least_s[launched & ~work.on_device[work.module, work.rank]] = np.nan  # nobody knows what the device took
    is_tiny = ~launched & (work.call_s < TINY_S * work.calls) & (least_s < SHARE_OF_ITS_OWN * work.call_s) & ~meets
    taken_s = np.where(launched, least_s, work.call_s)
    nature = np.where(is_tiny, 2, np.where(compute_s >= memory_s, 0, 1))
    own_parts = np.array([work.table(np.where(nature == bound, taken_s, 0.0)) for bound in range(len(BOUNDS))])
    parts = np.array([work.with_inside(part) for part in own_parts])
    between = work.seconds - np.where(np.isnan(work.operators_s), work.seconds, work.operators_s)
    parts[2] += np.maximum(between, 0.0)
    in_own = work.table(np.where(launched, 0.0, work.call_s))
    own_parts[2] += np.where(np.isnan(work.operators_s), 0.0, np.maximum(work.own_s - in_own, 0.0))
    own = work.table(least_s)
    gain = np.maximum(work.own_s - own, 0.0)
    return Roofline(work, ceilings, work.with_inside(own), gain, parts, own_parts, least_s)


def _kinds(work: ModuleWork, ceilings: Mapping[int, Ceilings]) -> tuple[FloatArray, FloatArray]:
    """Seconds of one call at least for its arithmetic, and for its data, each ``[ranks with ceilings, kinds]``."""
    types = [product_type(kind) for kind in work.kinds]
    flops = [flops_of(kind) for kind in work.kinds]
    moved = [bytes_of(kind) for kind in work.kinds]
    has_usual = _USUAL in types
    compute, memory = np.zeros((2, len(ceilings), len(work.kinds)))
    for row, ceiling in enumerate(ceilings.values()):
        for kind, (dtype, count, size) in enumerate(zip(types, flops, moved, strict=True)):
            compute[row, kind] = count / ceiling.peak(dtype, has_usual) if count else 0.0
            memory[row, kind] = size / ceiling.bytes_per_s(size)
    return compute, memory


ROOFLINE: SectionName[Roofline] = SectionName("roofline")
"""The same beside what the machine can do, where that was measured."""
