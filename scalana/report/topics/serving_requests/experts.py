"""Experts that are loaded while a model computes: lookups, loads and waiting by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.experts.expert_waits import EXPERTS, Experts, LayerTime
from scalana.report import names
from scalana.report.document.sections import Column, Row, Section, Table, section, texts
from scalana.report.values import plain

_COLUMNS = (
    Column("layer", 8, is_text=True),
    Column("lookups", 8),
    Column("hit rate", 8),
    Column("bytes", 9),
    Column("loads", 8),
    Column("waiting", 8),
    Column("hidden", 7),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """A row for each layer, and one for all."""
    experts = analysis.section(EXPERTS)
    if experts is None:
        return []
    rows = [_row(one, one.name, experts) for one in experts.layers] if len(experts.layers) > 1 else []
    rows.append(_row(_whole(experts), "all", experts))
    notes = texts(
        "loads: what they take, in whichever thread. waiting: for loads, at lookups. hidden: the rest of the loads, "
        "behind other work.",
        _cache(experts),
        _phases(experts),
    )
    of = f"{names.seconds(experts.pass_s)} a pass through the layers"
    return [section("experts", "Loads of experts", of, Table(_COLUMNS, tuple(rows), notes))]


def _row(one: LayerTime, name: str, experts: Experts) -> Row:
    rate = names.percent(1.0 - one.loads / max(one.lookups, 1)) if experts.loads.has_cache else "·"
    hidden = max(1.0 - one.exposed_s / one.load_s, 0.0) if one.load_s > 0.0 else 0.0
    times = (names.seconds(one.load_s), names.seconds(one.exposed_s), names.percent(hidden))
    return Row((name, str(one.lookups), rate, names.data(one.bytes), *times))


def _whole(experts: Experts) -> LayerTime:
    """All layers together."""
    kind, layers = type(experts.layers[0]), experts.layers
    return kind(
        "",
        sum(one.lookups for one in layers),
        sum(one.loads for one in layers),
        sum(one.bytes for one in layers),
        sum(one.load_s for one in layers),
        sum(one.exposed_s for one in layers),
    )


def _cache(experts: Experts) -> str:
    """Which functions these are."""
    loads = experts.loads
    if not loads.has_cache:
        return f"`{loads.load}` loads at each call: lookups that need no load were not seen."
    room = ""
    if experts.room is not None:
        where = " in each layer" if experts.room.by_layer else ""
        room = f" It has room for {experts.room.slots} experts{where}, and keeps those that were used last."
    return f"`{loads.lookup}` looks experts up, `{loads.load}` loads them.{room}"


def _phases(experts: Experts) -> str:
    """What drafting and verifying take."""
    known = experts.drafting
    if known is None:
        return ""
    calls = "1 call" if known.mean_calls == 1 else f"{known.mean_calls:.3g} calls"
    return (
        f"A draft model ({calls} a round) takes {names.seconds(known.mean_draft_s)}, verifying "
        f"{names.seconds(known.mean_verify_s)}: mean of {known.rounds} rounds."
    )


def entries(analysis: Analysis) -> dict[str, Any]:
    """The same for the JSON report."""
    experts = analysis.section(EXPERTS)
    if experts is None:
        return {}
    layers = [
        {
            "layer": one.name,
            "lookups": one.lookups,
            "loads": one.loads,
            "bytes": plain(one.bytes),
            "load_s": plain(one.load_s),
            "wait_s": plain(one.exposed_s),
        }
        for one in experts.layers
    ]
    return {
        "experts": {
            "lookup": experts.loads.lookup,
            "load": experts.loads.load,
            "ranks": experts.ranks.tolist(),
            "wait_s_of_ranks": [plain(float(one)) for one in experts.exposed_s],
            "passes": plain(experts.passes),
            "pass_s": plain(experts.pass_s),
            "slots": experts.room.slots if experts.room is not None else None,
            "slots_by_layer": experts.room is not None and experts.room.by_layer,
            "unused_loads": experts.loads.unused,
            "drafting": _drafting(experts),
            "layers": layers,
            "other_loads": [
                {"change": one.change, "layers": one.layers, "slots": one.slots, "pass_s": plain(one.pass_s)}
                for one in experts.others
            ],
        }
    }


def _drafting(experts: Experts) -> dict[str, Any] | None:
    known = experts.drafting
    if known is None:
        return None
    times = {"draft_s": plain(known.mean_draft_s), "verify_s": plain(known.mean_verify_s)}
    return {"rounds": known.rounds, "draft_calls": plain(known.mean_calls), **times}
