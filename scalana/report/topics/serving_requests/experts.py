"""Experts that are loaded while a model computes: lookups, loads and waiting by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalana.detectors.experts.expert_waits import EXPERTS
from scalana.report import names
from scalana.report.document.sections import Column, Row, Section, Table, section, texts
from scalana.report.values import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalana.detectors.analysis import Analysis
    from scalana.detectors.experts.expert_waits import Experts, LayerTime

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
    room = f" It has room for {experts.slots} experts, and keeps those that were used last." if experts.slots else ""
    return f"`{loads.lookup}` looks experts up, `{loads.load}` loads them.{room}"


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
            "slots": experts.slots,
            "unused_loads": experts.loads.unused,
            "layers": layers,
            "other_loads": [
                {"change": one.change, "layers": one.layers, "slots": one.slots, "pass_s": plain(one.pass_s)}
                for one in experts.others
            ],
        }
    }
