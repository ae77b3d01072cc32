"""Where the time of the devices went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.device.account import DeviceAccount
from scalana.detectors.kinds import kind_of
from scalana.report import names
from scalana.report.document.sections import (
    Account,
    Column,
    Facts,
    Layout,
    Row,
    Section,
    Share,
    Table,
    texts,
)
from scalana.report.findings.claims import claim
from scalana.report.findings.sentences import faster
from scalana.report.topics.hot import place_of

NAME = "device"

_DIGITS = 6
_IDLE = 0.1
"""Part of the devices' seconds that they must have nothing to do for the places of their hosts to be shown."""
_PLACES = 4
_LEAST = 0.02
"""Part of the devices' seconds that a place must have."""

_IDLE_COLUMNS = (
    Column("nothing to do", 15),
    Column("seconds", 9),
    Column("while the host was at", is_text=True, leads=True),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """The account of all devices, and where their hosts were while they had nothing to do."""
    account = account_of(analysis)
    if account is None:
        return []
    of = "in the marked steps" if account.marked else "from the first kernel to the last"
    shares = tuple(Share(name, seconds, color) for color, (name, seconds) in enumerate(_parts(account)))
    whole = Account("time of the devices", account.total_s, shares, Layout.LINE)
    first = whole, Facts((*in_words(account, analysis), *_limits(analysis)))
    idle = idle_places(account, analysis)
    rows = tuple(Row((names.percent(account.share(seconds)), names.seconds(seconds), place)) for seconds, place in idle)
    blocks = (first, (Table(_IDLE_COLUMNS, rows),)) if rows else (first,)
    return [Section(NAME, "On the devices", blocks, of)]


def _limits(analysis: Analysis) -> tuple[str, ...]:
    """What is said of devices that are busy all the time, which is no fault."""
    found = [one for one in analysis.findings if kind_of(one.kind).is_on_device and not kind_of(one.kind).is_fault]
    run = analysis.ppg.run
    return tuple(
        f"{names.place(names.near(one.file, run.cwd), one.line)} {one.function}: "
        f"{claim(one, run.ranks, run.names)} {faster(one)} {one.advice}"
        for one in found
    )


def account_of(analysis: Analysis) -> DeviceAccount | None:
    """The account of the devices of a run; None where it has none."""
    found = analysis.sections.get(NAME)
    return found if isinstance(found, DeviceAccount) else None


def _parts(account: DeviceAccount) -> tuple[tuple[str, float], ...]:
    """What adds up to the seconds of the devices."""
    return (
        ("busy", account.busy_s),
        ("waiting for other ranks", account.waiting_s),
        ("in communication", account.transfer_s),
        ("nothing to do", account.gap_s),
    )


def in_words(account: DeviceAccount, analysis: Analysis) -> tuple[str, ...]:
    """How many devices, and how much of their communication is hidden; then which streams are busiest."""
    count = len(account.ranks)
    text = f"{count} device{'s' * (count != 1)}, {names.seconds(account.total_s)} in total"
    whole = account.hidden_s + account.waiting_s + account.transfer_s
    if whole > 0.0:
        text += f"; {names.percent(account.hidden_s / whole)} of the communication is hidden behind kernels"
    processes = analysis.ppg.run.names
    streams = [
        f"{name} of {processes.one(rank)} {names.seconds(busy)}" for rank, name, busy, _ in _busiest(account)[:3]
    ]
    return texts(f"{text}.", "Busiest streams: " + ", ".join(streams) if streams else "")


def idle_places(account: DeviceAccount, analysis: Analysis) -> list[tuple[float, str]]:
    """Seconds in which devices had nothing to do, with the place where their hosts were, of the longest."""
    if account.share(account.gap_s) < _IDLE:
        return []
    seconds: dict[tuple[str, int, str], float] = defaultdict(float)
    for one in account.idle:
        file, line, _, name = place_of(analysis.ppg, one.vertex)
        if file:
            seconds[file, line, name] += one.seconds
    most = sorted(seconds, key=lambda place: -seconds[place])[:_PLACES]
    shown = names.shortest(file for file, _, _ in seconds)
    return [
        (seconds[file, line, name], f"{names.place(shown[file], line)}  {name}")
        for file, line, name in most
        if account.share(seconds[file, line, name]) >= _LEAST
    ]


def entries(analysis: Analysis) -> dict[str, Any]:
    """The same for programs. The four shares add up to 1."""
    account = account_of(analysis)
    return {} if account is None else {NAME: _entry(account, analysis)}


def _entry(account: DeviceAccount, analysis: Analysis) -> dict[str, Any]:
    return {
        "kind": "imported" if analysis.ppg.run.command[:1] == ["import"] else "recorded",
        "ranks": account.ranks,
        "seconds": round(account.total_s, _DIGITS),
        "busy_share": round(account.share(account.busy_s), _DIGITS),
        "waiting_share": round(account.share(account.waiting_s), _DIGITS),
        "communication_share": round(account.share(account.transfer_s), _DIGITS),
        "gap_share": round(account.share(account.gap_s), _DIGITS),
        "hidden_communication_s": round(account.hidden_s, _DIGITS),
        "exposed_communication_s": round(account.waiting_s + account.transfer_s, _DIGITS),
        "idle": [
            {"vertex": one.vertex, "seconds": round(one.seconds, _DIGITS)}
            for one in account.idle
            if one.vertex > 0 and round(one.seconds, _DIGITS) > 0.0
        ],
        "lanes": [
            {"rank": rank, "name": name, "busy_s": round(busy, _DIGITS), "spans": spans}
            for rank, name, busy, spans in account.lanes
        ],
    }


def _busiest(account: DeviceAccount) -> list[tuple[int, str, float, int]]:
    return sorted(account.lanes, key=lambda lane: -lane[2])
