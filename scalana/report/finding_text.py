"""One finding for people: the place, its source, what it costs, and the way from the symptom to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalana.detectors.kinds import kind_of
from scalana.report import compiled, modules, names, roofline
from scalana.report.claims import claim
from scalana.report.paint import NARROW, Paint, clip, clip_left, rule, wrap
from scalana.report.source import changed_since, excerpt
from scalana.report.steps import trend, when
from scalana.runtime.operations import BY_NAME

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding, Hop
    from scalana.graphs.run_info import RunInfo

_MOST_HOPS = 8
_MOST_CALLERS = 6
_MOST_SERVERS = 4

_COMPUTES = 0.5
"""Part of a cause that is spent on a CPU, or without one that it wants, from which mending it leaves a core to others.
"""
_HAS_CORE = 0.1
"""Part of it that must be spent on a CPU."""


def finding_block(number: int, finding: Finding, run: RunInfo, width: int, paint: Paint) -> list[str]:
    """The lines of one finding."""
    right = f"{names.percent(finding.lost_share)} of all waiting" if finding.lost_share > 0 else finding.kind
    lines = [headline(number, finding, right, run.cwd, width, paint)]
    for sentence in sentences(finding, run):
        lines += wrap(sentence, width, "  ")
    return [*lines, *context(finding, run, width, paint)]


def sentences(finding: Finding, run: RunInfo) -> list[str]:
    """What is said of a finding, a sentence or a few in each: the claim first."""
    said = (
        claim(finding, run.ranks, run.names),
        modules.inside(finding),
        compiled.inside(finding),
        roofline.compared(finding),
        when(finding),
        trend(finding),
        loading(finding),
        compiling(finding),
        asking(finding),
        cost(finding, run),
        sampled(finding),
        held_up(finding, run),
        slowed(finding, run),
        behind(finding, run),
        beside(finding),
    )
    return [sentence for sentence in said if sentence]


def headline(number: int, finding: Finding, right: str, cwd: str, width: int, paint: Paint) -> str:
    """Number, place and function of a finding, and ``right`` at the end of the line."""
    where = names.place(names.near(finding.file, cwd), finding.line)
    number_text = f"{number}  "
    function = f"  {finding.function}" if finding.function else ""
    left, line, right = rule(number_text + clip_left(where, width - len(right) - 20) + function, right, width)
    return (
        paint(number_text, "bold")
        + paint(left[len(number_text) :], "bold", "cyan")
        + paint(line, "dim")
        + paint(right, "bold", "red")
    )


def context(finding: Finding, run: RunInfo, width: int, paint: Paint) -> list[str]:
    """Source, callers, the way from the symptom, and advice, as far as there are any."""
    lines: list[str] = []
    for part in (
        [
            *_source(finding, run, width, paint),
            *_leaf(finding, run.cwd, width, paint),
            *_library(finding, run.cwd, width, paint),
        ],
        _callers(finding, run.cwd, width, paint),
        _path(finding, run, width, paint),
        _advice(finding.advice, width, paint),
    ):
        if part:
            lines += ["", *part]
    return lines


def cost(finding: Finding, run: RunInfo) -> str:
    """What it costs, and what comes back."""
    if finding.lost_s <= 0 and finding.saving_s <= 0:
        return ""
    kind = kind_of(finding.kind)
    lost = f"This costs {names.rank_seconds(finding.lost_s)} {kind.unit}"
    if finding.saving_s <= 0 and not kind.predicts:
        return f"{lost}."
    if off := finding.evidence.replay_off:
        return f"{lost}. What mending it would bring cannot be told: a replay of this run is {names.percent(off)} off."
    if finding.saving_s <= 0:
        return f"{lost}. Mended alone it would not shorten the run: another delay hides behind it."
    share = f" ({names.percent(finding.saving_s / run.seconds)})" if run.seconds else ""
    most = "at most " if finding.evidence.is_bound else ""
    text = f"{lost}; {kind.mended} the run would be {most}{names.seconds(finding.saving_s)}{share} shorter"
    cpu, core_wait = (share or 0.0 for share in finding.evidence.cpu_split())
    if cpu >= _HAS_CORE and cpu + core_wait >= _COMPUTES and _share_cores(run):
        return f"{text}, and more where it frees a core that other ranks wait for."
    return f"{text}."


def sampled(finding: Finding) -> str:
    """That what it costs was seen in few steps, where it was."""
    device = finding.evidence.device
    if device is None or device.marked_steps is None or device.steps is None or device.steps <= device.marked_steps:
        return ""
    marked, steps = device.marked_steps, device.steps
    seen = "one step" if marked == 1 else f"{marked} steps"
    return f"It was seen in {seen} that {'was' if marked == 1 else 'were'} looked at, of {steps} that it stands for."


def _share_cores(run: RunInfo) -> bool:
    """Whether a host has more ranks than cores that they may use."""
    ranks = Counter(run.host_of_rank)
    cores = dict(zip(run.host_of_rank, run.cores_of_rank, strict=False))
    return any(0 < cores.get(host, 0) < count for host, count in ranks.items())


def loading(finding: Finding) -> str:
    """That it lies in waiting for data, if it does."""
    known = finding.evidence.loading
    if known is None:
        return ""
    of = f" of {known.dataset}" if known.dataset is not None else ""
    workers = known.workers
    some = {None: "", 0: ", which has no worker processes", 1: ", which has one worker process"}
    who = some.get(workers, f", which has {workers} worker processes")
    return f"It lies in waiting for data from a loader{of}{who}."


def compiling(finding: Finding) -> str:
    """That it lies in compiling, if it does: for how long, and how often."""
    known = finding.evidence.compiling
    if known is None:
        return ""
    times = round(known.compilations)
    count = "1 compilation" if times == 1 else f"{times} compilations"
    others = f", {round(known.compilations_others)} on other ranks" if known.compilations_others is not None else ""
    again = f", {round(known.again)} of what was compiled before" if known.again else ""
    return f"It lies in compiling (torch.compile): {names.seconds(known.seconds)} in {count}{again}{others}."


def asking(finding: Finding) -> str:
    """That it lies in waiting for servers that left no record, if it does: which, and for how long."""
    known = finding.evidence.servers
    if known is None:
        return ""
    return f"It lies in waiting for {'a server' if len(known) == 1 else 'servers'} without a record: {_servers(known)}."


def _servers(seconds: Mapping[str, float]) -> str:
    shown = [f"{name} ({names.seconds(value)})" for name, value in list(seconds.items())[:_MOST_SERVERS]]
    more = len(seconds) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more else "")


def held_up(finding: Finding, run: RunInfo) -> str:
    """Where ranks wait for what a thread or child of theirs does here, if they do."""
    known = finding.evidence.waits_at
    if known is None:
        return ""
    where = names.place(names.near(known.file, run.cwd), known.line)
    ranks, some = run.names.many(finding.ranks, run.ranks), "waits" if len(finding.ranks) == 1 else "wait"
    return f"Meanwhile {ranks} {some} at {where}" + (f" ({known.function})." if known.function else ".")


def slowed(finding: Finding, run: RunInfo) -> str:
    """Which lines take longer because a helper has their core, if one has."""
    lines = finding.evidence.slowed
    if lines is None:
        return ""
    places = [names.place(names.near(line.file, run.cwd), line.line) for line in lines]
    lost = sum(line.lost_s for line in lines)
    return f"Of these {names.rank_seconds(lost)} are lost at {' and '.join(places[:4])}, from which it takes the core."


def beside(finding: Finding) -> str:
    """How it recurs, and what it is not though one might think so, if the finding says."""
    loop = finding.evidence.loop
    if loop is None:
        return ""
    text = f"Who: {loop.recurrence}. " if loop.recurrence else ""
    return text + (f"Not the cause: {'; '.join(loop.not_the_cause)}." if loop.not_the_cause else "")


def behind(finding: Finding, run: RunInfo) -> str:
    """Which delay comes to light when this one is mended, if one does."""
    other = finding.evidence.behind
    if other is None:
        return ""
    where = names.place(names.near(other.file, run.cwd), other.line)
    ranks = run.names.many(other.ranks, run.ranks)
    return f"Behind it hides {where} on {ranks}, which would then cost {names.rank_seconds(other.lost_s)}."


def _source(finding: Finding, run: RunInfo, width: int, paint: Paint) -> list[str]:
    shown = excerpt(finding.file, finding.line, finding.end_line)
    digits = len(str(shown[-1].number)) if shown else 0
    lines = []
    for row in shown:
        text = clip(row.text, width - digits - 9)
        if row.marked:
            lines.append("    " + paint("▸", "bold", "red") + paint(f" {row.number:>{digits}} │ {text}", "bold"))
        else:
            lines.append(paint(f"      {row.number:>{digits}} │ {text}", "dim"))
    if lines and source_changed(finding, run):
        lines.append(paint("      (the file has changed since the run)", "yellow"))
    return lines


def source_changed(finding: Finding, run: RunInfo) -> bool:
    """Whether the lines of a finding may not be those that ran."""
    return run.start_unix_s is not None and changed_since(finding.file, run.start_unix_s + run.seconds)


def _leaf(finding: Finding, cwd: str, width: int, paint: Paint) -> list[str]:
    label, text = "  inside it    ", leaf(finding, cwd)
    return [paint(label, "dim") + clip(text, width - len(label))] if text else []


def leaf(finding: Finding, cwd: str) -> str:
    """The function below the place in which the time is spent, if most of it is in one."""
    found = finding.evidence.leaf
    if found is None:
        return ""
    is_near = found.file == finding.file
    where = f"line {found.line}" if is_near else names.place(names.near(found.file, cwd), found.line)
    calls = f", which {found.calls} lines call" if found.calls > 1 else ""
    return f"in {found.function}, {where}{calls}"


def _library(finding: Finding, cwd: str, width: int, paint: Paint) -> list[str]:
    where, tail = library(finding, cwd)
    if not where:
        return []
    label = "  inside it    "
    where = clip_left(where, max(width - len(label) - len(tail), 30))
    return [paint(label, "dim") + paint(where, "cyan") + clip(tail, max(0, width - len(label) - len(where)))]


def library(finding: Finding, cwd: str) -> tuple[str, str]:
    """Where it happens inside the call of a library's that the place is, and in which function; "" if it is none."""
    inside = finding.evidence.library
    if inside is None:
        return "", ""
    tail = f" {inside.function}" + (f" calls {inside.calls}" if inside.calls else "")
    return names.place(names.near(inside.file, cwd), inside.line), tail


def _callers(finding: Finding, cwd: str, width: int, paint: Paint) -> list[str]:
    found, lines = callers(finding, cwd), []
    for depth, caller in enumerate(found[:_MOST_CALLERS]):
        label = "  called from  " if depth == 0 else "               " + "  " * (depth - 1) + "└ "
        lines.append(paint(label, "dim") + clip_left(caller, width - len(label)))
    if len(found) > _MOST_CALLERS:
        lines.append(paint(f"               and {len(found) - _MOST_CALLERS} more above", "dim"))
    return lines


def callers(finding: Finding, cwd: str) -> list[str]:
    """The call sites that lead to the place, innermost first."""
    found = finding.evidence.callers or []
    found = [caller for caller in found if not caller.endswith(" <module>")] or found  # main() says nothing
    return [names.near(caller, cwd) for caller in found]


@dataclass(frozen=True, slots=True)
class HopText:
    """One hop of the way from the symptom to the cause, in words."""

    who: str
    what: str
    wait_s: float
    """0 where nothing is waited for."""
    place: str
    function: str


def chain(finding: Finding, run: RunInfo) -> list[HopText]:
    """The way from the symptom to the cause, symptom first."""
    arrival, hops = kind_of(finding.kind).arrival, []
    for hop in finding.path:
        who, wait = names.waiters(hop.rank, hop.ranks, run.names)
        what = _waits(wait, hop) if hop.operation or hop is not finding.path[-1] else arrival
        place = names.place(names.near(hop.file, run.cwd), hop.line)
        hops.append(HopText(who, what, max(hop.wait_s, 0.0), place, hop.function))
    return hops


def shortened(hops: list[HopText]) -> list[HopText]:
    """The hops that are shown of a long way: its beginning and its end."""
    return [*hops[: _MOST_HOPS - 1], hops[-1]] if len(hops) > _MOST_HOPS else hops


def _path(finding: Finding, run: RunInfo, width: int, paint: Paint) -> list[str]:
    """One line per hop, symptom first: rank, what it waits in and how long, place."""
    path = chain(finding, run)
    if not path:
        return []
    shown = shortened(path)
    rows = []
    for depth, hop in enumerate(shown):
        who = ("  " * depth + ("└ " if depth else "")) + hop.who
        amount = names.seconds(hop.wait_s) if hop.wait_s > 0 and width >= NARROW else ""
        rows.append((who, hop.what, amount, hop.place, hop.function))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    room = width - 4 - widths[0] - widths[1] - widths[2] - 6
    widths[3] = min(widths[3], max(room, 1))
    lines = [paint("  from the symptom to the cause", "dim")]
    for who, what, amount, place, function in rows:
        fixed = f"    {who:<{widths[0]}}  {what:<{widths[1]}}  {amount:>{widths[2]}}  "
        where = f"{clip_left(place, widths[3]):<{widths[3]}}"
        tail = clip(f" {function}", max(0, width - len(fixed) - len(where))) if function else ""
        lines.append((fixed + paint(where, "cyan") + tail).rstrip())
    if len(path) > len(shown):
        lines.insert(-1, paint(f"    ... {len(path) - len(shown)} more hops", "dim"))
    return lines


def _waits(wait: str, hop: Hop) -> str:
    """What is waited in, or for where that says more."""
    known = BY_NAME.get(hop.operation)
    return f"{wait} for {known.awaited}" if known and known.awaited else f"{wait} in {hop.operation or hop.vertex_kind}"


def _advice(advice: str, width: int, paint: Paint) -> list[str]:
    if not advice:
        return []
    first, *more = wrap(advice, width, "    ", "  → ") or [""]
    return [paint(first[:4], "green") + first[4:], *more]
