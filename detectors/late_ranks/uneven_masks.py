"""Ranks that are late because a causal mask leaves more of attention to them, where each has one part of a sequence.

Ranks that divide sequences are known by their messages (:mod:`scalana.detectors.lengths.context_groups`). What they
work at the places of findings, between these messages, is compared with the blocks that a causal mask leaves
(:mod:`scalana.detectors.lengths.causal_blocks`). Where that is so, the run is replayed with parts in zigzag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import UnevenMask
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.late_ranks.advice import advise_zigzag
from scalana.detectors.late_ranks.work_of_finding import work_of
from scalana.detectors.lengths.causal_blocks import CausalFit
from scalana.detectors.lengths.context_groups import RING, ContextGroup, context_groups, work_in_slots
from scalana.detectors.whatif.replay import Change
from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.dependences.progress import of_mpi

KIND = "uneven-mask"
_OF_WORK = ("late-ranks", "serial")


def name_masks(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of work that a causal mask divides unevenly, as one of these, with what parts in zigzag save."""
    some = [finding for finding in findings if finding.kind in _OF_WORK]
    if facts.is_part or not some or not _of_torch(facts):
        return findings
    groups = list(context_groups(facts.timeline))
    rows = [work_of(finding, facts) for finding in some] if groups else []
    ours = [
        finding
        for finding, chosen in zip(some, rows, strict=False)
        if any(group.ranks[-1] in finding.ranks and _Masked.of(group, chosen, facts) is not None for group in groups)
    ]
    if not ours:
        return findings
    chosen = np.logical_or.reduce([chosen for finding, chosen in zip(some, rows, strict=True) if finding in ours])
    masked = [one for group in groups if (one := _Masked.of(group, chosen, facts)) is not None]
    if not masked:
        return findings
    return [_named(ours, masked, chosen, facts), *(finding for finding in findings if finding not in ours)]


def _of_torch(facts: Facts) -> bool:
    """Whether all communicators are torch's: a program of MPI computes other triangles than attention."""
    return not any(of_mpi(communicator.name) for communicator in facts.run.communicators)


@dataclass(frozen=True, slots=True)
class _Masked:
    """What ranks that divide sequences compute of attention."""

    group: ContextGroup
    fit: CausalFit

    @classmethod
    def of(cls, group: ContextGroup, chosen: BoolArray, facts: Facts) -> _Masked | None:
        """That of some rows of own work; None where it is not what a causal mask leaves."""
        fit = CausalFit.of(work_in_slots(group, facts.timeline, chosen), group.way == RING)
        return cls(group, fit) if fit is not None else None


def _named(ours: Sequence[Finding], masked: Sequence[_Masked], chosen: BoolArray, facts: Facts) -> Finding:
    """Findings of late ranks as one of the mask."""
    timeline, first = facts.timeline, ours[0]
    removed = np.zeros(len(timeline.calls) + len(timeline.locations))
    for one in masked:
        more_s = one.fit.zigzag_s() - one.fit.work_s
        removed += one.group.as_change(more_s, one.fit.work_s, chosen, timeline)
    measured_s, (end_s,) = facts.replay.run_ends_s([Change.of(removed)])
    found = _evidence(masked[0], facts)
    return replace(
        first,
        kind=KIND,
        ranks=sorted(one.group.ranks[-1] for one in masked),
        lost_s=sum(finding.lost_s for finding in ours),
        lost_share=sum(finding.lost_share for finding in ours),
        saving_s=max(measured_s - end_s, 0.0),
        evidence=replace(first.evidence, mask=found, balanced_saving_s=None, behind=None),
        advice=advise_zigzag(found),
    )


def _evidence(masked: _Masked, facts: Facts) -> UnevenMask:
    group, fit, psg = masked.group, masked.fit, facts.psg
    place = psg[max(int(facts.timeline.calls.vertex[group.carrier]), 0)].place
    return UnevenMask(
        mask_times=2.0 - 1.0 / len(group.ranks),
        mask_way=group.way,
        mask_ranks=len(group.ranks),
        mask_bytes=int(facts.timeline.calls.nbytes[group.carrier]),
        mask_file=place.file,
        mask_line=place.line,
        block_s=fit.mean_block_s(),
        mask_share=fit.explained,
    )
