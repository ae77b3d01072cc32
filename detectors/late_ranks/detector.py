"""Ranks that make others wait, as a detector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.late_ranks.collecting import name_collections
from scalana.detectors.late_ranks.interference import name_interference
from scalana.detectors.late_ranks.late_ranks import Waiting, detect_halves
from scalana.detectors.late_ranks.rounds import name_rounds, without_shared
from scalana.detectors.late_ranks.slow_ranks import name_slow_ranks
from scalana.detectors.late_ranks.starting import name_starts
from scalana.detectors.late_ranks.task_names import name_tasks
from scalana.detectors.late_ranks.uneven_lengths import name_lengths
from scalana.detectors.late_ranks.uneven_masks import name_masks
from scalana.detectors.late_ranks.uneven_sizes import name_sizes
from scalana.detectors.noise.contention import without_turns
from scalana.detectors.noise.lasting import Lasting
from scalana.detectors.reconcile import Verdict, extent_of
from scalana.detectors.thresholds.shares import MAJORITY
from scalana.detectors.when.module_passes import join_passes
from scalana.detectors.when.module_times import with_modules
from scalana.graphs.run_info import RunInfo

_TRANSFER = "slow-transfer"


class LateRanks:
    """See :mod:`scalana.detectors.late_ranks.late_ranks`."""

    kinds = tuple(
        BY_NAME[name]
        for name in (
            "late-ranks",
            "serial",
            "in-rounds",
            "uneven-lengths",
            "uneven-mask",
            "uneven-sizes",
            "slow-rank",
            "waiting-for-core",
            "helper-takes-core",
            "garbage-collection",
            _TRANSFER,
            "carried-in",
            "started-late",
            "unresolved",
        )
    )

    def detect(self, facts: Facts) -> Outcome:
        """The root causes of waiting."""
        timeline, psg = facts.timeline, facts.psg
        states, table, replay, starts = facts.waits, facts.blame, facts.replay, facts.run.starts
        looks_behind, lasting = not facts.causes_only, _lasting(facts)
        waiting = Waiting(states, table, replay, facts.task_farms, facts.task_pools, starts, looks_behind, lasting)
        modules = facts.modules
        findings, halves = detect_halves(timeline, psg, waiting, wanted=modules is not None)
        if modules is not None:
            findings, halves = (with_modules(some, modules, facts.ppg) for some in (findings, halves))
        findings = without_shared(name_rounds(findings, facts), timeline)
        findings = name_interference(findings, facts.ppg.metrics["helper_cpu_s"], psg)

        def part_of(finding: Finding, part: float = 1.0) -> float:
            steady = finding.evidence.steady_share
            return part * (lasting.measured_by(finding.entries, steady) if lasting is not None else 1.0)

        told = without_turns(findings, timeline, facts.run, part_of)
        if modules is not None:
            halves = [*(finding for finding in findings if finding not in told), *halves]
            halves = without_turns(halves, timeline, facts.run, partial(part_of, part=MAJORITY))
            told = join_passes(told, halves, modules, psg)
        told = name_starts(name_collections(told, facts), facts.run.starts, timeline)
        told = name_slow_ranks(name_sizes(name_lengths(name_masks(told, facts), facts), facts), facts)
        told = without_unknown(name_tasks(told, facts), facts.run)
        return Outcome([Verdict(finding, extent_of(finding, timeline, psg, facts.blame)) for finding in told])


def without_unknown(findings: Sequence[Finding], run: RunInfo) -> list[Finding]:
    """Without transfers that take long, where not all processes have a record: these may be waiting."""
    return [finding for finding in findings if run.is_whole or finding.kind != _TRANSFER]


def _lasting(facts: Facts) -> Lasting | None:
    """The steady state of a run; None where it shows none, and in single steps."""
    stretch = None if facts.is_part else facts.stretch
    if stretch is None or not stretch.has_steps:
        return None
    return Lasting.of(facts.timeline, facts.blame, stretch.begin_s, stretch.end_s)
