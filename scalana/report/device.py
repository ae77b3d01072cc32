"""Where the time of the devices went, as reports tell of it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from scalana.report import names
from scalana.report.hot import place_of
from scalana.report.paint import clip, rule, wrap

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.device.account import DeviceAccount
    from scalana.report.paint import Paint

_DIGITS = 6
_IDLE = 0.1
"""Part of the devices' seconds in which they must have nothing to do, for where hosts were to be told."""
_PLACES = 4
_LEAST = 0.02
"""Part of the devices' seconds that a place must have."""


def text(account: DeviceAccount, analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """Lines for people."""
    left, line, right = rule("On the devices", where(account), width)
    told, *more = in_words(account, analysis)
    lines = [*wrap(told, width, "  "), *(clip(f"  {sentence}", width) for sentence in more)]
    idle = idle_places(account, analysis)
    if idle:
        lines += ["", f"  {'nothing to do':>15}  while the host was at"]
        lines += [clip(f"  {names.percent(account.share(seconds)):>15}  {place}", width) for seconds, place in idle]
    return [paint(left, "bold") + paint(line + right, "dim"), *lines]


def parts(account: DeviceAccount) -> tuple[tuple[str, float], ...]:
    """What adds up to the seconds of the devices."""
    return (
        ("busy", account.busy_s),
        ("waiting for other ranks", account.waiting_s),
        ("in communication", account.transfer_s),
        ("nothing to do", account.gap_s),
    )


def in_words(account: DeviceAccount, analysis: Analysis) -> list[str]:
    """How many devices, and where their time went; then which streams are busiest, if there are any."""
    shares = [f"{name} {names.percent(account.share(seconds))}" for name, seconds in parts(account)]
    count = len(account.ranks)
    told = f"{count} device{'s' * (count != 1)}, {names.seconds(account.total_s)} in all: {', '.join(shares)}"
    whole = account.hidden_s + account.waiting_s + account.transfer_s
    if whole > 0.0:
        told += f"; {names.percent(account.hidden_s / whole)} of the communication is hidden behind kernels"
    processes = analysis.ppg.run.names
    streams = [
        f"{name} of {processes.one(rank)} {names.seconds(busy)}" for rank, name, busy, _ in _busiest(account)[:3]
    ]
    return [f"{told}.", *(["busiest: " + ", ".join(streams)] if streams else [])]


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


def where(account: DeviceAccount) -> str:
    """Of which time the shares are."""
    return "in the steps that were marked on them" if account.marked else "from their first kernel to their last"


def document(account: DeviceAccount, analysis: Analysis) -> dict[str, Any]:
    """The same for programs. The four shares add up to 1."""
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
