"""What to do about experts that a loop waits for."""

from __future__ import annotations

from scalana.detectors.evidence import ExpertWaits


def advise_experts(known: ExpertWaits) -> str:
    """Return what to change first."""
    if not known.other_loads:
        return (
            f"Begin loads before `{known.expert_lookup}` needs them: in another thread, or on another stream, when an "
            "earlier layer computes. Or keep more experts."
        )
    best = known.other_loads[0]
    if best.change == "more-slots":
        where = " in each layer" if known.expert_slots_by_layer else ""
        return f"Keep {best.slots} experts{where} instead of {known.expert_slots}, if there is memory for them."
    when = "from the begin of the draft on" if best.change == "in-draft" else f"{best.layers} layers ahead"
    if best.change == "ahead" and best.layers == 1:
        when = "1 layer ahead"
    return (
        f"Load experts {when}, in another thread or on another stream. What a layer will ask for is known early by its "
        "router, applied to the input of an earlier layer, or by the routing of a draft model."
    )
