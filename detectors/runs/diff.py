"""What changed between two runs of one program, which may have been edited in between: places, and root causes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.targets import TargetKind
from scalana.detectors.finding import Finding
from scalana.detectors.noise.verdict import beyond_noise
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.named_place import CodeLocation
from scalana.detectors.runs import advice
from scalana.detectors.runs.costs import CostTable, RunCosts, cost_table
from scalana.detectors.runs.scaling.disturbed import off_alike
from scalana.detectors.runs.scaling.loss import group_rows, targets_of
from scalana.detectors.thresholds.certainty import CERTAIN
from scalana.detectors.thresholds.differences import NOISE_OF_A_RUN, UNCHANGED, UNEXPLAINED_NOISE
from scalana.detectors.thresholds.limits import MOST_CHANGES
from scalana.detectors.thresholds.shares import FLOOR, MINOR, WORTH_A_CHANGE
from scalana.graphs.arrays.segments import sum_by_key, weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.structure.align import align
from scalana.graphs.structure.psg import PSG

BEFORE, AFTER = 0, 1
Blurs = tuple[FloatArray, FloatArray]
PARTS = {TargetKind.OWN: "work", TargetKind.TRANSFER: "transfer"}


@dataclass(slots=True)
class Change:
    """One place that costs more or less than before. Seconds are those of an average rank."""

    file: str
    line: int
    end_line: int
    function: str
    vertex_kind: str
    part: str
    """``work`` (with the waiting that it causes), ``transfer``, or ``unresolved`` (lateness that samples don't
    explain)."""
    vertex: int
    """In the graph of the later run; of the earlier one where the place is gone."""
    only: str
    """``before`` where the place is gone, ``after`` where it is new, else empty."""
    before_s: float
    after_s: float
    work_s: float
    """Change of its own work."""
    waiting_s: float
    """Change of the waiting that it causes on other ranks, divided over all ranks."""
    transfer_s: float
    noise_s: float
    """Standard deviation of the change, from what varies within the runs."""
    caller: str = ""
    """``file:line function`` of the call that leads there, "" for none: a helper may change for some callers alone."""

    @property
    def change_s(self) -> float:
        """Seconds of an average rank, positive where it became slower."""
        return self.after_s - self.before_s


@dataclass(slots=True)
class CausePair:
    """One root cause in both runs, or in one of them."""

    before: Finding | None
    after: Finding | None

    @property
    def change_s(self) -> float:
        """Change of the waiting that it causes, in rank-seconds."""
        return (self.after.lost_s if self.after else 0.0) - (self.before.lost_s if self.before else 0.0)


@dataclass(slots=True)
class Difference:
    """What two runs differ in."""

    before: RunCosts
    after: RunCosts
    changes: list[Change]
    """Largest first, slower and faster ones together; those below the noise are left out."""
    rest_s: float
    """Change of everything else, seconds of an average rank."""
    setup_s: float
    """Change of the start of the job (imports, setting up communication)."""
    core_wait_s: float
    """Change of the time without a core."""
    appeared: list[Finding]
    vanished: list[Finding]
    stayed: list[CausePair]
    warnings: list[str] = field(default_factory=list)


def compare(before: RunCosts, after: RunCosts, analyses: tuple[Analysis, Analysis]) -> Difference:
    """Compare two runs. The changes, ``rest_s``, ``setup_s`` and ``core_wait_s`` add up to the change of the recorded
    seconds of an average rank."""
    table = cost_table([before, after], AFTER)
    ranks = table.ranks
    per_rank = table.cost_s / ranks
    delta = per_rank[:, AFTER] - per_rank[:, BEFORE]
    grouped = group_rows(table, np.abs(delta), analyses[AFTER].ppg.timeline, after.psg, by_caller=True)
    groups = [(after.psg, code_location, rows, "") for code_location, rows in grouped.items()]
    groups += _gone(table)
    matched = align(after.psg, before.psg)
    blurs = (_blurred(analyses[BEFORE]), _blurred(analyses[AFTER]))
    changes = [
        _change(table, psg, code_location, rows, only, matched, blurs) for psg, code_location, rows, only in groups
    ]
    scale = float(per_rank.sum(axis=0).max(initial=0.0))
    told = [change for change in changes if _is_worthy(change, scale)]
    told = sorted(told, key=lambda change: -abs(change.change_s))[:MOST_CHANGES]
    setup = float(delta[table.setup].sum())
    core_wait = table.core_wait_s.sum(axis=0) / ranks
    appeared, vanished, stayed = _causes(after.psg, matched, analyses)
    return Difference(
        before=before,
        after=after,
        changes=told,
        rest_s=float(delta.sum()) - setup - sum(change.change_s for change in told),
        setup_s=setup,
        core_wait_s=float(core_wait[AFTER] - core_wait[BEFORE]),
        appeared=appeared,
        vanished=vanished,
        stayed=stayed,
        warnings=_warnings(table),
    )


def _gone(table: CostTable) -> list[tuple[PSG, CodeLocation, list[int], str]]:
    """Places of the earlier run that the later one does not have, by line."""
    run = table.runs[BEFORE]
    groups: dict[tuple[int, str, int], tuple[CodeLocation, list[int]]] = {}
    for row in np.flatnonzero((table.vertex < 0) & ~table.setup).tolist():
        target = table.origin[row][1]
        if table.origin[row][0] == BEFORE and run.vertex[target] >= 0:
            code_location = CodeLocation(
                TargetKind(int(run.kind[target])), int(run.vertex[target]), int(run.line[target])
            )
            place = run.psg[code_location.vertex].place
            key = (int(code_location.kind), place.file, code_location.lines(place)[0])
            groups.setdefault(key, (code_location, []))[1].append(row)
    return [(run.psg, code_location, rows, "before") for code_location, rows in groups.values()]


def _blurred(analysis: Analysis) -> FloatArray:
    """Variance of the seconds of an average rank that wait for each target, by the sampling ``[targets]``: each time
    that a rank is late, the samples say how long to about half a period."""
    table, ranks = analysis.blame, max(analysis.ppg.run.ranks, 1)
    groups, shares, size = table.groups, table.shares, table.numbering.wait
    key, seconds = sum_by_key(
        groups.group_comparison[shares.group] * size + shares.target, table.flow_s[shares.group] * shares.share / ranks
    )
    times = np.sqrt(groups.comparison_count[key // size])
    error = np.minimum(0.5 * analysis.ppg.timeline.period_s * times, seconds)
    return weighted_count(key % size, error**2, size)


def _change(
    table: CostTable, psg: PSG, code_location: CodeLocation, rows: list[int], only: str, matched: IntArray, blurs: Blurs
) -> Change:
    """``matched`` are the later graph's vertices that the earlier one has too, ``blurs`` as of :func:`_blurred`."""
    parts = [part[rows].sum(axis=0) / table.ranks for part in (table.work_s, table.caused_s, table.transfer_s)]
    total = sum(parts, np.zeros(2))
    error = np.sqrt((table.error_s[rows] ** 2).sum(axis=0)) / table.ranks
    # Of work and transfer the noise is known from their repetitions; of waiting it is assumed to be that of any run.
    assumed = NOISE_OF_A_RUN * (parts[1] + np.where(error > 0.0, 0.0, parts[0] + parts[2]))
    if code_location.kind is TargetKind.UNRESOLVED:
        assumed = UNEXPLAINED_NOISE * parts[1]
    targets = targets_of(table, rows, AFTER) if only != "before" else np.zeros(0, dtype=np.int64)
    old = np.array([table.origin[row][1] for row in rows if table.origin[row][0] == BEFORE], dtype=np.int64)
    after = float(blurs[AFTER][targets].sum())
    # Targets of both runs are known by their number in the later one.
    blur = after + (float(blurs[BEFORE][old].sum()) if len(old) else min(after, float(parts[1][BEFORE]) ** 2))
    floor = FLOOR * table.cost_s.sum(axis=0) / table.ranks
    noise = float(np.sqrt((error**2 + assumed**2 + floor**2).sum() + blur))
    place = psg[code_location.vertex].place
    line, end_line = code_location.lines(place)
    is_new = not only and total[BEFORE] == 0.0 and not np.isin(table.vertex[rows], matched).any()
    return Change(
        file=place.file,
        line=line,
        end_line=max(line, end_line),
        function=psg.function_of(code_location.vertex),
        vertex_kind=psg[code_location.vertex].kind.value,
        part=PARTS.get(code_location.kind, "unresolved"),
        vertex=code_location.vertex,
        only="after" if is_new else only,
        before_s=float(total[BEFORE]),
        after_s=float(total[AFTER]),
        work_s=_step(parts[0]),
        waiting_s=_step(parts[1]),
        transfer_s=_step(parts[2]),
        noise_s=noise,
        caller=next(iter(callers(code_location.vertex, psg)), ""),
    )


def _step(values: FloatArray) -> float:
    return float(values[AFTER] - values[BEFORE])


def _is_worthy(change: Change, scale: float) -> bool:
    size = max(change.before_s, change.after_s)
    least = max(WORTH_A_CHANGE * scale, UNCHANGED * size)
    return bool(beyond_noise(abs(change.change_s), change.noise_s, CERTAIN, least))


def _causes(
    after: PSG, matched: IntArray, analyses: tuple[Analysis, Analysis]
) -> tuple[list[Finding], list[Finding], list[CausePair]]:
    """Root causes that appeared, vanished, and stayed: findings at one vertex, or at one inside the other."""
    appeared = sorted(analyses[AFTER].findings, key=lambda finding: -finding.lost_s)
    vanished: list[Finding] = []
    stayed: list[CausePair] = []
    for old in sorted(analyses[BEFORE].findings, key=lambda finding: -finding.lost_s):
        vertex = int(matched[old.vertex]) if old.vertex >= 0 else -1
        same = next((new for new in appeared if _is_same(after, vertex, new, old)), None)
        if same is None:
            vanished.append(old)
        else:
            appeared.remove(same)
            stayed.append(CausePair(old, same))
    return appeared, vanished, sorted(stayed, key=lambda pair: -abs(pair.change_s))


def _is_same(psg: PSG, vertex: int, new: Finding, old: Finding) -> bool:
    if vertex < 0 or new.vertex < 0:
        return vertex == new.vertex and new.kind == old.kind
    if vertex == new.vertex:
        return True
    around = {above.index for above in psg.ancestors(vertex)} | {above.index for above in psg.ancestors(new.vertex)}
    return psg.function_of(vertex) == psg.function_of(new.vertex) and (vertex in around or new.vertex in around)


def _warnings(table: CostTable) -> list[str]:
    before, after = table.runs
    warnings = [*before.lacks, *after.lacks]
    if before.ranks != after.ranks:
        warnings.append(advice.SIZES_DIFFER.format(before=before.ranks, after=after.ranks))
    if _shared(table) < MINOR:
        warnings.append(advice.NOT_SHARED)
    elif (first := _programs(before.psg)) and (second := _programs(after.psg)) and not first & second:
        one, other = (" and ".join(sorted(some)) for some in (first, second))
        warnings.append(advice.DIFFERENT_PROGRAMS.format(before=one, after=other))
    if before.ranks == after.ranks and (change := _everywhere(table)):
        direction = "longer" if change > 0.0 else "shorter"
        warnings.append(advice.EVERYWHERE.format(change=abs(change), direction=direction))
    return warnings


def _programs(psg: PSG) -> set[str]:
    """Names of the files that a run began in, wherever these lie: a program may be checked out in two folders."""
    return {os.path.basename(psg[child].place.file) for child in psg[0].children if child not in psg.added}


def _shared(table: CostTable) -> float:
    """Part of the time of the runs, without their start, at places that both have: the larger of the two parts."""
    cost = np.where(table.setup[:, None], 0.0, table.cost_s)
    both = (cost > 0.0).all(axis=1)
    return float((cost[both].sum(axis=0) / np.maximum(cost.sum(axis=0), 1e-300)).max())


def _everywhere(table: CostTable) -> float:
    """Relative change of the work of an ordinary place, 0 unless nearly all places changed by about the same factor."""
    work = np.where(((table.kind == TargetKind.OWN) & ~table.setup)[:, None], table.work_s, 0.0)
    rows = np.flatnonzero(
        (work.min(axis=1) > 0.0) & (work.max(axis=1) >= WORTH_A_CHANGE * work.sum(axis=0).max(initial=0.0))
    )
    if len(rows) < 3:
        return 0.0
    change = np.log(work[rows, AFTER] / work[rows, BEFORE])
    low, middle, high = np.quantile(change, (0.2, 0.5, 0.8))
    return float(np.expm1(middle)) if off_alike(float(low), float(high)) > np.log1p(NOISE_OF_A_RUN) else 0.0
