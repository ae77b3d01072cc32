"""Context parallelism by exchanges of tokens for heads: what they take of a step, and a ring instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.lengths.exchange_costs import HEAD_EXCHANGES, ExchangeCost, HeadExchanges
from scalana.report import names
from scalana.report.document.sections import Column, Row, Section, Table, section, texts
from scalana.report.values import plain

_MOST_GROUPS = 8
"""Shown; the JSON report has all."""

_COLUMNS = (
    Column("exchanges", 9, is_right=True),
    Column("sent", 8, is_right=True),
    Column("take", 8, is_right=True),
    Column("share", 6, is_right=True),
    Column("waiting", 8, is_right=True),
    Column("attention", 9, is_right=True),
    Column("ranks", is_text=True, leads=True),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """A row for each group of ranks."""
    found = analysis.section(HEAD_EXCHANGES)
    if found is None:
        return []
    rows = [_row(one, found) for one in found.groups[:_MOST_GROUPS]]
    more = len(found.groups) - _MOST_GROUPS
    first = found.groups[0]
    where = names.place(names.near(first.place.file, analysis.ppg.run.cwd), first.place.line)
    notes = texts(
        f"and {more} more: see the JSON report" if more > 0 else "",
        f"Ulysses: each rank has a part of every sequence. All-to-alls ({where}) exchange tokens for heads before "
        f"attention, and back after it. Each rank computes the attention of {_heads(first)} over all tokens: a causal "
        "mask leaves as much to every rank.",
        _ring(found),
    )
    of = f"a step of {names.seconds(found.step_s)}, by an average rank" if found.step_s else "the run, an average rank"
    return [section("context-parallelism", "Context parallelism", of, Table(_COLUMNS, tuple(rows), notes))]


def _row(one: ExchangeCost, found: HeadExchanges) -> Row:
    share = names.percent(one.exchange_s / found.step_s) if found.step_s else "·"
    times = (names.seconds(one.exchange_s), share, names.seconds(one.wait_s), names.seconds(one.attention_s))
    times = times if not found.on_devices else ("·", "·", "·", "·")
    return Row((f"{one.calls:.3g}", names.data(one.nbytes), *times, names.ranks(one.ranks)))


def _heads(one: ExchangeCost) -> str:
    part = f"1/{len(one.ranks)} of the heads"
    if one.queries_per_key == 1:
        return part
    return f"{part} ({one.queries_per_key} heads of queries for each one of keys and values)"


def _ring(found: HeadExchanges) -> str:
    """What a ring would send and take."""
    one = found.groups[0]
    sends = (
        f"Around a ring, with the parts of sequences in zigzag, a rank would send {names.data(one.ring_bytes)} of "
        f"keys, values and their gradients instead of {names.data(one.nbytes)}"
    )
    if found.ring_step_s is None:
        return f"{sends}."
    return (
        f"{sends}, while it computes blocks of attention: a step would take {names.seconds(found.ring_step_s)} instead "
        f"of {names.seconds(found.step_s)} (predicted, with as many bytes a second)."
    )


def entries(analysis: Analysis) -> dict[str, Any]:
    """Every group, for the JSON report."""
    found = analysis.section(HEAD_EXCHANGES)
    if found is None:
        return {}
    groups = [
        {
            "ranks": list(one.ranks),
            "file": one.place.file,
            "line": one.place.line,
            "queries_per_key": one.queries_per_key,
            "attentions": plain(one.attentions),
            "exchanges": plain(one.calls),
            "bytes": plain(one.nbytes),
            "exchange_s": plain(one.exchange_s) if not found.on_devices else None,
            "wait_s": plain(one.wait_s) if not found.on_devices else None,
            "attention_s": plain(one.attention_s) if not found.on_devices else None,
            "ring_bytes": plain(one.ring_bytes),
        }
        for one in found.groups
    ]
    step_s = plain(found.step_s) if found.step_s else None
    ring_s = plain(found.ring_step_s) if found.ring_step_s is not None else None
    return {"context_parallelism": {"step_s": step_s, "ring_step_s": ring_s, "groups": groups}}
