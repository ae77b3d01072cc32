"""What limits a step: the causal profile, a row a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalana.detectors.analysis import Analysis
from scalana.detectors.limits.causal_profile import LIMITS, Activity, CausalProfile, PlaceProfile
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Fit, Row, Section, Table, Tone, section, texts
from scalana.report.values import plain
from scalana.runtime.operations import BY_CODE

_MOST_PLACES = 5
"""Shown; the JSON report has all."""
_SHOWN = 0.05
"""Part of a step that a place must take on the critical path, or save, to be shown."""

_COLUMNS = (
    Column("spent", 8, is_right=True),
    Column("on path", 8, is_right=True),
    Column("if half", 8, is_right=True),
    Column("without", 8, is_right=True),
    Column("place", is_text=True, leads=True, fit=Fit.CLIP_LEFT, tone=Tone.PLACE),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """The places that a step's time lies on, and what a step would take if they took half as long, or nothing."""
    profile = analysis.section(LIMITS)
    if profile is None:
        return []
    places = [place for place in profile.places if _matters(place, profile)][:_MOST_PLACES]
    if not places:
        return []
    of = f"a step of {names.seconds(profile.step_s)}" if profile.has_steps else "the whole run"
    table = Table(_COLUMNS, tuple(_row(place, analysis) for place in places), texts(_notes(profile)))
    return [section("limits", "What limits a step" if profile.has_steps else "What limits the run", of, table)]


def entries(analysis: Analysis) -> dict[str, Any]:
    """The causal profile, for the JSON report."""
    profile = analysis.section(LIMITS)
    if profile is None:
        return {}
    return {
        "limits": {
            "step_s": plain(profile.step_s),
            "steps": profile.steps if profile.has_steps else None,
            "ideal_network_s": plain(profile.ideal_network_s),
            "all_cores_s": plain(profile.all_cores_s),
            "busy_cores": plain(profile.busy.busy_cores) if profile.busy is not None else None,
            "other_path_s": plain(profile.other_s),
            "places": [_entry(place, analysis) for place in profile.places],
        }
    }


def _matters(place: PlaceProfile, profile: CausalProfile) -> bool:
    saved_s = profile.step_s - place.without_s
    return max(float(place.path_s.sum()), saved_s, place.mean_s) >= _SHOWN * profile.step_s


def _row(place: PlaceProfile, analysis: Analysis) -> Row:
    file, line, end_line, name = _where(place, analysis)
    where = names.place(names.near(file, analysis.ppg.run.cwd), line, end_line)
    amounts = (place.mean_s, float(place.path_s.sum()), place.half_s, place.without_s)
    name += _BESIDE.get(place.activity, "")
    return Row((*(names.seconds(amount) for amount in amounts), Cell(where, f" {name}" if name else "")))


def _where(place: PlaceProfile, analysis: Analysis) -> tuple[str, int, int, str]:
    """File, lines, and the function or the operation."""
    psg = analysis.ppg.psg
    vertex = max(place.location.vertex, 0)
    here = psg[vertex].place
    line, end_line = place.location.lines(here)
    name = BY_CODE[psg[vertex].operation].name if place.is_transfer else psg.function_of(vertex)
    name = name or (here.name if line <= 0 else "")
    return here.file, line, end_line, name


def _notes(profile: CausalProfile) -> str:
    """What readers need to understand the table, and what holds for no single place."""
    what = "a step" if profile.has_steps else "the run"
    text = (
        "spent: an average rank. on path: on the critical path. if half, without: "
        f"what {what} would take if all ranks took half as long there, or no time (predicted by replay)."
    )
    bounds = [
        f"{names.seconds(seconds)} {where}"
        for seconds, where in ((profile.ideal_network_s, "on an ideal network"), (profile.all_cores_s, _CORES))
        if profile.step_s - seconds >= _SHOWN * profile.step_s
    ]
    return f"{text} It would take {', '.join(bounds)}.{_others(profile, bounds)}" if bounds else text


def _others(profile: CausalProfile, bounds: list[str]) -> str:
    """That the cores for which ranks wait are not busy with the job."""
    busy = profile.busy
    if busy is None or busy.is_full or not busy.has_one_each or not bounds[-1].endswith(_CORES):
        return ""
    threads = "1 thread computes" if busy.computing_threads == 1 else f"{busy.computing_threads} threads compute"
    cores = "1 core" if busy.host_cores == 1 else f"{busy.host_cores} cores"
    return (
        f" {threads} on {cores}, and the job keeps {busy.busy_cores:.1f} busy: other programs take its cores, or a CPU "
        "limit of its container does."
    )


_BESIDE = {Activity.DEVICE: " (device)", Activity.DEVICE_WAIT: " (host waits for device)"}
"""What stands behind a name where it is not the host that works."""
_CORES = "if no rank waited for a core"


def _entry(place: PlaceProfile, analysis: Analysis) -> dict[str, Any]:
    file, line, end_line, name = _where(place, analysis)
    return {
        "file": file,
        "line": line,
        "end_line": end_line,
        "name": name,
        "activity": place.activity.value,
        "mean_s": plain(place.mean_s),
        "least_s": plain(float(place.seconds.min())),
        "most_s": plain(float(place.seconds.max())),
        "cpu_s": plain(place.cpu_s),
        "core_wait_s": plain(place.core_wait_s),
        "path_s": plain(float(place.path_s.sum())),
        "half_step_s": plain(place.half_s),
        "without_step_s": plain(place.without_s),
    }
