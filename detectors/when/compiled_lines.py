"""What compiled code costs by the lines that it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scalana.detectors.section_name import SectionName
from scalana.detectors.thresholds.shares import WORTH_FOLLOWING
from scalana.detectors.when.advice import FROM_CACHE
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.folder.models import Frame, Kernel, module_path
from scalana.graphs.spans.modules import position_of
from scalana.graphs.steps.steps import Steps

_K = TypeVar("_K")

BACKWARD = "backward"


@dataclass(frozen=True, slots=True)
class Operators:
    """What some kernels are made of."""

    here: dict[str, int]
    """Elements of the operators of the line that they do most of, the largest first."""
    fused: dict[tuple[Frame, str], int]
    """Elements of operators of other lines that are in them."""


@dataclass(frozen=True, slots=True)
class CompiledLine:
    """The kernels that came from one line of the program, or do most for it."""

    frame: Frame
    """File, line, and function; ("", 0, "") for kernels of which no line is known."""
    module: str
    """Place of the module in its model, the same for all in a list; "" where unknown."""
    module_class: str
    kernels: tuple[Kernel, ...]
    seconds: FloatArray
    """Of a step ``[2, ranks]``: forward, or where that is not known, and backward. Of the run where it has no steps."""

    def operators(self, kernels: Iterable[Kernel] | None = None) -> Operators:
        """What the kernels are made of, or some of them."""
        here: dict[str, int] = {}
        fused: dict[tuple[Frame, str], int] = {}
        for kernel in self.kernels if kernels is None else kernels:
            for source in kernel.does():
                if not source.frames or source.frames[-1] == self.frame:
                    here[source.name] = here.get(source.name, 0) + source.work
                else:
                    key = source.frames[-1], source.name
                    fused[key] = fused.get(key, 0) + source.work
        least = WORTH_FOLLOWING * (sum(here.values()) + sum(fused.values()))
        return Operators(_largest(here, least), _largest(fused, least))


def _largest(work: dict[_K, int], least: float) -> dict[_K, int]:
    return {name: count for name, count in sorted(work.items(), key=lambda one: -one[1]) if count >= least}


def compiled_lines(ppg: PPG, steps: Steps | None) -> list[CompiledLine]:
    """The lines whose compiled kernels took time, those that took most on a rank first."""
    times, ranks = ppg.compiled, ppg.timeline.ranks
    if not len(times):
        return []
    taken = times.end_s - times.start_s
    count = 1
    if steps is not None:
        taken = steps.steady_periods().inside_s(times.rank, times.start_s, times.end_s)
        count = max(len(steps.number[steps.steady()]), 1)
    seconds = np.zeros((len(times.kernels), ranks))
    np.add.at(seconds, (times.kernel, times.rank), taken / count)
    rows: dict[tuple[Frame, str, str], list[int]] = {}
    for row, kernel in enumerate(times.kernels):
        rows.setdefault(place_of_kernel(kernel), []).append(row)
    found = []
    for (frame, module, kind), own in rows.items():
        back = np.array([times.kernels[row].phase == BACKWARD for row in own])
        of = np.stack([seconds[own][~back].sum(axis=0), seconds[own][back].sum(axis=0)])
        if of.any():
            found.append(CompiledLine(frame, module, kind, tuple(times.kernels[row] for row in own), of))
    return sorted(found, key=lambda line: -float(line.seconds.sum(axis=0).max()))


def place_of_kernel(kernel: Kernel) -> tuple[Frame, str, str]:
    """The line that most of a kernel came from, its module and the class of that; empty where they are not known."""
    main = kernel.main()
    if main is None:
        return ("", 0, ""), "", ""
    path, kind = main.modules[-1] if main.modules else ("", "")
    return main.frames[-1], position_of(module_path(path)), kind.rpartition(".")[2]


def warnings_of(ppg: PPG) -> Iterator[str]:
    """What is not known of compiled code in which ranks were."""
    times = ppg.compiled
    seconds = np.bincount(times.kernel, times.end_s - times.start_s, len(times.kernels))
    unknown = sum(float(took) for kernel, took in zip(times.kernels, seconds, strict=True) if kernel.main() is None)
    if unknown > 0.5 * float(seconds.sum()) > 0.0:
        yield FROM_CACHE


COMPILED: SectionName[list[CompiledLine]] = SectionName("compiled")
"""Those that took most first."""
