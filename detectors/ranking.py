"""Which findings come first: what costs most, whether single ranks cause it or all ranks share it."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of


def ranked(findings: Sequence[Finding]) -> list[Finding]:
    """Faults of single ranks, the largest loss first; among them the causes that all ranks share, each before the first
    fault without which the run would be less shorter; then what may be what the program is for; what is no fault comes
    last."""
    kinds = [(finding, kind_of(finding.kind)) for finding in findings]
    single = sorted(
        (f for f, kind in kinds if kind.is_fault and not kind.is_shared and not kind.is_last), key=lambda f: -f.lost_s
    )
    shared = sorted(
        (f for f, kind in kinds if kind.is_fault and kind.is_shared and not kind.is_last), key=lambda f: -f.saving_s
    )
    last = sorted((f for f, kind in kinds if kind.is_fault and kind.is_last), key=lambda f: -f.saving_s)
    merged: list[Finding] = []
    for cause in shared:
        while single and single[0].saving_s >= cause.saving_s:
            merged.append(single.pop(0))
        merged.append(cause)
    others = sorted((f for f, kind in kinds if not kind.is_fault), key=lambda f: -f.lost_s)
    return [*merged, *single, *last, *others]
