"""What is said of experts that a loop waits for."""

from __future__ import annotations

from scalana.detectors.evidence import ExpertWaits, OtherLoads
from scalana.detectors.finding import Finding
from scalana.report import names

SHOWN_LOADS = 4
"""Other ways to load that are shown; the JSON report has all."""


def expert_layers(finding: Finding) -> str:
    """Which layer waits longest, and what the loads take in all."""
    known = finding.evidence.experts
    if known is None:
        return ""
    hidden = max(1.0 - known.expert_wait_s / max(known.expert_load_s, 1e-300), 0.0)
    text = (
        f"Loads ({names.data(known.expert_bytes)}) take {names.seconds(known.expert_load_s)}, "
        f"{names.percent(hidden)} hidden behind other work."
    )
    if not known.costliest_layer:
        return text
    return f"{text} Layer {known.costliest_layer} waits longest: {names.seconds(known.costliest_layer_s)}."


def other_loads(finding: Finding) -> str:
    """What a pass through the layers would take with experts loaded earlier, or more of them kept."""
    known = finding.evidence.experts
    if known is None or not known.other_loads:
        return ""
    shown = known.other_loads[:SHOWN_LOADS]
    (first, first_s), *more = ((way(one, known), names.seconds(one.pass_s)) for one in shown)
    rest = "".join(f", {words} {pass_s}" for words, pass_s in more)
    now_s = names.seconds(known.expert_pass_s)
    return (
        f"{first[0].upper()}{first[1:]}, a pass through the layers would take {first_s} instead of {now_s}{rest} "
        "(predicted)."
    )


def way(other: OtherLoads, known: ExpertWaits) -> str:
    """Another way to load, in words."""
    if other.change == "in-draft":
        return "with experts loaded from the begin of the draft on"
    if other.change == "more-slots":
        return f"with room for {other.slots} experts{' in each layer' if known.expert_slots_by_layer else ''}"
    return f"with experts loaded {other.layers} {'layer' if other.layers == 1 else 'layers'} ahead"


def mended_by(known: ExpertWaits) -> str:
    """When the run would be as much shorter as is predicted."""
    return way(known.other_loads[0], known) if known.other_loads else "with experts loaded earlier"
