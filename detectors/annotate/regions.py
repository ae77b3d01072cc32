"""Findings that lie in regions which the user named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scalana.detectors.annotator import Annotated
from scalana.detectors.facts import Facts, Need
from scalana.detectors.finding import Finding
from scalana.detectors.when.region_times import REGIONS, RegionTime
from scalana.graphs.structure.psg import PSG, VertexKind


class Regions:
    """Regions that the user named."""

    needs: frozenset[Need] = frozenset()

    def annotate(self, findings: Sequence[Finding], facts: Facts) -> Annotated:
        """Findings with the region that their place lies in, its nested names joined by slashes."""
        if not facts.regions:
            return Annotated(findings)
        return Annotated([_with_region(finding, facts) for finding in findings], {REGIONS.name: facts.regions})


def _with_region(finding: Finding, facts: Facts) -> Finding:
    """A finding with the innermost region; of several such the one in which most time is spent.

    The structure says so where the region stands around the place in the source. Else time does: what is worked at the
    place between two calls must lie in the region for the most part, however the work is arranged between them.
    """
    named = _region_around(finding.vertex, facts.psg)
    inside = [region for region in facts.regions if region.path[-1] == named]
    if not inside and finding.entries is not None:
        inside = _certain(finding, facts)
    if not inside:
        return finding
    best = max(inside, key=lambda region: (len(region.path), float(region.seconds.sum())))
    return replace(finding, evidence=replace(finding.evidence, region="/".join(best.path)))


def _region_around(vertex: int, psg: PSG) -> str:
    """Name of the innermost region that stands around a vertex in the source; empty where there is none."""
    found = psg.enclosing(vertex, VertexKind.REGION) if vertex < len(psg) else -1
    return psg[found].place.name if found >= 0 else ""


def _certain(finding: Finding, facts: Facts) -> list[RegionTime]:
    """The regions in which most of a finding's work lies for certain."""
    work = facts.work_of(finding)
    return [region for region in facts.regions if work.lies_in(region.periods)]
