"""What compiled code costs by the lines that it came from, and which findings lie in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.evidence import CompiledCode, FusedOperator
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.shares import WORTH_FOLLOWING
from scalana.detectors.when.burst_work import BurstWork
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.folder.models import Frame, Kernel, Source, is_made, module_path, operators_in_name
from scalana.graphs.spans.modules import position_of
from scalana.graphs.steps.periods import Periods
from scalana.graphs.steps.steps import Steps
from scalana.graphs.steps.window import gap_edges
from scalana.graphs.structure.psg import VertexKind

_K = TypeVar("_K")

BACKWARD = "backward"
_FORWARD = "forward"


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
        rows.setdefault(_place(kernel), []).append(row)
    found = []
    for (frame, module, kind), own in rows.items():
        back = np.array([times.kernels[row].phase == BACKWARD for row in own])
        of = np.stack([seconds[own][~back].sum(axis=0), seconds[own][back].sum(axis=0)])
        if of.any():
            found.append(CompiledLine(frame, module, kind, tuple(times.kernels[row] for row in own), of))
    return sorted(found, key=lambda line: -float(line.seconds.sum(axis=0).max()))


def _place(kernel: Kernel) -> tuple[Frame, str, str]:
    main = kernel.main()
    if main is None:
        return ("", 0, ""), "", ""
    path, kind = main.modules[-1] if main.modules else ("", "")
    return main.frames[-1], position_of(module_path(path)), kind.rpartition(".")[2]


def with_compiled(
    findings: Sequence[Finding], lines: list[CompiledLine], table: BlameTable, ppg: PPG, steady: Periods | None
) -> list[Finding]:
    """Findings whose work lies in compiled code with the operators of which the kernels of their lines are made, and
    those of other lines that are fused with them. ``steady`` is the steady state. Findings of devices are known by the
    name of their kernel, and lie at the line that most of it came from."""
    findings = _with_kernels(findings, ppg)
    if not lines:
        return findings
    times, timeline = ppg.compiled, ppg.timeline
    edges = gap_edges(timeline)
    number = {kernel: row for row, kernel in enumerate(times.kernels)}

    def lies_in(finding: Finding, there: list[CompiledLine]) -> bool:
        chosen = np.isin(times.kernel, [number[kernel] for line in there for kernel in line.kernels])
        periods = Periods.joined(times.rank[chosen], times.start_s[chosen], times.end_s[chosen], timeline.ranks)
        return BurstWork.of(finding, table, timeline, edges).where_lost(finding, steady).lies_in(periods)

    result = []
    for finding in findings:
        there = [line for line in lines if _is_of(line, finding)]
        is_compiled = finding.entries is not None and bool(there) and lies_in(finding, there)
        result.append(_with_lines(finding, there) if is_compiled else finding)
    return result


def _with_kernels(findings: Sequence[Finding], ppg: PPG) -> list[Finding]:
    by_name: dict[str, list[Kernel]] = {}
    for kernel in ppg.models.kernels():
        by_name.setdefault(kernel.name, []).append(kernel)
    own = {one.place.file for one in ppg.psg.vertices if one.kind is VertexKind.FUNCTION}
    return [_with_kernel(finding, by_name, own, ppg.timeline.ranks) for finding in findings]


def _with_kernel(finding: Finding, by_name: Mapping[str, list[Kernel]], own: set[str], ranks: int) -> Finding:
    device = finding.evidence.device
    name = device.kernel or "" if device is not None else ""
    known = by_name.get(name, [])
    if not known and is_made(name):  # of a trace that holds nothing else of it
        known = [Kernel("", 0, name, "", (Source(operators_in_name(name), (), (), 0),), "name")]
    if not known:
        return finding
    places: dict[tuple[Frame, str, str], list[Kernel]] = {}
    for kernel in known:
        places.setdefault(_place(kernel), []).append(kernel)
    (frame, module, kind), most = max(places.items(), key=lambda one: sum(map(_work, one[1])))
    ways = Counter(kernel.phase for kernel in most)
    line = CompiledLine(frame, module, kind, tuple(most), np.zeros((2, ranks)))
    finding = _with_code(finding, line, most, ways.most_common(1)[0][0])
    if frame[0] not in own:
        return finding
    # Nearer to the cause than the call that launches it.
    return replace(finding, file=frame[0], line=frame[1], end_line=frame[1], function=frame[2])


def _work(kernel: Kernel) -> int:
    return sum(source.work for source in kernel.sources)


def _is_of(line: CompiledLine, finding: Finding) -> bool:
    file, at, _ = line.frame
    return file == finding.file and finding.line <= at <= max(finding.line, finding.end_line)


def _with_lines(finding: Finding, lines: list[CompiledLine]) -> Finding:
    here = max(lines, key=lambda line: float(line.seconds[:, finding.ranks].sum()))
    sides = here.seconds[:, finding.ranks].mean(axis=1)
    way = int(sides.argmax())
    kernels = [kernel for kernel in here.kernels if (kernel.phase == BACKWARD) == bool(way)]
    return _with_code(finding, here, kernels, (_FORWARD, BACKWARD)[way])


def _with_code(finding: Finding, line: CompiledLine, kernels: list[Kernel], direction: str) -> Finding:
    operators = line.operators(kernels)
    code = CompiledCode(
        file=line.frame[0],
        line=line.frame[1],
        operators=list(operators.here),
        kernels=list(dict.fromkeys(kernel.name for kernel in kernels)),
        fused_with=[FusedOperator(name, file, at) for (file, at, _), name in operators.fused],
        direction=direction,
        module=line.module,
        module_class=line.module_class,
        known_by=line.kernels[0].by,
    )
    evidence, where = replace(finding.evidence, compiled=code), finding.where
    work = evidence.module_work
    if work is not None and work.different == "between":  # no kernel of inductor's is counted as an operator
        evidence = replace(evidence, module_work=replace(work, different=None))
    if line.module and where.module is None:
        where = replace(where, module=line.module, module_class=line.module_class, direction=direction)
    if where.operator is None:
        where = replace(where, operator=", ".join(operators.here))
    return replace(finding, evidence=evidence, where=where)


def warnings_of(ppg: PPG) -> Iterator[str]:
    """What is not known of compiled code in which ranks were."""
    times = ppg.compiled
    seconds = np.bincount(times.kernel, times.end_s - times.start_s, len(times.kernels))
    unknown = sum(float(took) for kernel, took in zip(times.kernels, seconds, strict=True) if kernel.main() is None)
    if unknown > 0.5 * float(seconds.sum()) > 0.0:
        yield (
            "most compiled code came from torch's cache, and its source lines are unknown: with "
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, torch compiles it again, and they are known"
        )
