"""Findings that lie in compiled code: of which operators the kernels of their lines are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scalana.detectors.annotator import Annotated
from scalana.detectors.evidence import CompiledCode, FusedOperator
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.when.compiled_lines import (
    BACKWARD,
    COMPILED,
    CompiledLine,
    compiled_lines,
    place_of_kernel,
    warnings_of,
)
from scalana.graphs.ppg import PPG
from scalana.graphs.readers.folder.models import Frame, Kernel, Source, is_made, operators_in_name
from scalana.graphs.steps.periods import Periods
from scalana.graphs.structure.psg import VertexKind

_FORWARD = "forward"


class InCompiledCode:
    """Code that inductor compiled."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings whose work lies in it with the operators of their lines, and those of other lines that are fused
        with them. Findings of devices are known by the name of their kernel, and lie at the line that most of it came
        from."""
        found, lines = _with_kernels(findings, facts.ppg), compiled_lines(facts.ppg, facts.steps)
        if lines:
            found = _in_lines(found, lines, facts)
        sections = {COMPILED.name: lines} if lines else {}
        return Annotated(found, sections, tuple(warnings_of(facts.ppg)))


def _in_lines(findings: list[Finding], lines: list[CompiledLine], facts: Facts) -> list[Finding]:
    times, timeline = facts.ppg.compiled, facts.timeline
    number = {kernel: row for row, kernel in enumerate(times.kernels)}

    def lies_in(finding: Finding, there: list[CompiledLine]) -> bool:
        chosen = np.isin(times.kernel, [number[kernel] for line in there for kernel in line.kernels])
        periods = Periods.joined(times.rank[chosen], times.start_s[chosen], times.end_s[chosen], timeline.ranks)
        return facts.lasting_work_of(finding).lies_in(periods)

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
        places.setdefault(place_of_kernel(kernel), []).append(kernel)
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
