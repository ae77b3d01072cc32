"""Findings that lie in the forward of a module, and which operators their lines call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scalana.detectors.annotator import Annotated
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.thresholds.limits import SHOWN_OPERATORS
from scalana.graphs.structure.psg import PSG, VertexKind


class CallingOperators:
    """Operators that stand in the structure of the program once its models are in it: causes are found by lines of
    code, before that."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings with the operators of their lines."""
        if facts.modelled is facts.ppg:
            return Annotated(findings)
        return Annotated([_with_operators(finding, facts.modelled.psg) for finding in findings])


def _with_operators(finding: Finding, psg: PSG) -> Finding:
    if finding.where.direction != "forward":
        return finding
    inside = finding.evidence.library
    if inside is not None:
        operators = operators_at(psg, inside.file, inside.line, inside.line)
    else:
        operators = operators_at(psg, finding.file, finding.line, finding.end_line)
    return replace(finding, where=replace(finding.where, operator=operators)) if operators else finding


def operators_at(psg: PSG, file: str, first: int, last: int) -> str:
    """The operators of modules that some lines call, by their names, the first of many; "" where there are none."""
    names: dict[str, None] = {}
    for one in psg.vertices:
        if one.kind is VertexKind.OP and one.place.file == file and first <= one.place.line <= max(first, last):
            names.update(dict.fromkeys(one.place.name.split(", ")))
    return ", ".join(list(names)[:SHOWN_OPERATORS]) + (", ..." if len(names) > SHOWN_OPERATORS else "")
