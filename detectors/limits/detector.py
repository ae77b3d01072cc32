"""Causes that all ranks share, as a detector: what limits a step although no rank differs from the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from scalana.detectors.detector import Outcome
from scalana.detectors.facts import Facts, Need
from scalana.detectors.kinds import BY_NAME
from scalana.detectors.limits import (
    compile_bound,
    cores,
    held_locks,
    input_bound,
    one_at_a_time,
    python_loops,
    slow_link,
    source_costs,
    task_tail,
    worker_bound,
    worker_starts,
)
from scalana.detectors.limits.causal_profile import LIMITS, CausalProfile, causal_profile
from scalana.detectors.limits.data import slow_source
from scalana.detectors.limits.shared_cause import SharedCause
from scalana.detectors.limits.transfers import communication, spared_calls
from scalana.detectors.reconcile import Extent, Verdict, covered
from scalana.detectors.thresholds.shares import MAJORITY

RECOGNISERS: tuple[Callable[[CausalProfile, Facts], list[SharedCause]], ...] = (
    slow_source.slow_source,
    worker_starts.worker_starts,
    input_bound.input_bound,
    one_at_a_time.one_at_a_time,
    worker_bound.worker_bound,
    task_tail.task_tail,
    compile_bound.compile_bound,
    held_locks.held_locks,
    source_costs.source_costs,
    slow_link.slow_link,
    communication.communication,
    cores.cores,
    python_loops.python_loops,
)
"""Where two speak of the same seconds, the earlier one has the word."""
OF_ACCOUNTED = (
    slow_source.slow_source,
    worker_starts.worker_starts,
    input_bound.input_bound,
    worker_bound.worker_bound,
)
"""Those for runs whose pipelines and loops have accounts of their own."""
KINDS = (
    slow_source.KIND,
    input_bound.KIND,
    one_at_a_time.KIND,
    worker_bound.KIND,
    task_tail.KIND,
    compile_bound.KIND,
    held_locks.INTERPRETER,
    *source_costs.KIND_OF.values(),
    slow_link.KIND,
    spared_calls.KIND,
    cores.KIND,
    python_loops.KIND,
)
_NOTHING = Extent((), np.zeros(0, np.int64), np.zeros(0, np.int64))
"""What is explained where some ranks spend more than others: what they do so, is for others to say."""


class Limits:
    """What all ranks spend in a step, and what less of it would bring."""

    kinds = tuple(BY_NAME[kind] for kind in KINDS)

    def detect(self, facts: Facts) -> Outcome:
        """Of the steady state; none in single steps of a run, which are looked at for what is different in them. Where
        pipelines and loops have accounts of their own, these say what is waited for, but for data and workers."""
        if facts.is_part or facts.has(Need.DEVICE):  # a device may have work while its host waits
            return Outcome()
        profile = causal_profile(facts)
        if profile is None:
            return Outcome()
        profile = replace(profile, busy=cores.busiest(facts))
        accounted = facts.has(Need.ACTIONS) or facts.has(Need.PHASES)
        recognisers = OF_ACCOUNTED if accounted else RECOGNISERS
        verdicts: list[Verdict] = []
        known: list[Extent] = []
        apart: list[Extent] = []
        for cause in (cause for recognise in recognisers for cause in recognise(profile, facts)):
            if covered(cause.extent, known, facts.timeline) < MAJORITY:
                by_itself = cause.is_apart or not cause.is_even
                verdicts.append(Verdict(cause.finding, _NOTHING if by_itself else cause.extent))
                apart += [cause.extent] if cause.is_apart else []
            known.append(cause.extent)
        return Outcome(verdicts, apart, sections={LIMITS.name: profile})
