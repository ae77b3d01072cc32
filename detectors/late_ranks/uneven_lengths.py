"""Ranks that are late because their sequences cost more: of other lengths, though perhaps of equal tokens.

What ranks took in each step is fitted by the lengths of their sequences. A finding of late ranks is one of lengths
where these explain the lateness at its place, and explain what ranks took at least as well as that these ranks are slow
for another reason. Where another rank is late in each step, no rank stands out on average; then the fit alone shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.evidence import Redistribution, UnevenLengths
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding, Series
from scalana.detectors.late_ranks.advice import advise_packing
from scalana.detectors.late_ranks.work_of_finding import work_of
from scalana.detectors.lengths.length_costs import LengthCost, explained_by_ranks, fitted
from scalana.detectors.lengths.packing import BLOCKS, BY_COST, RULES, SPLIT, Rule, as_change, in_blocks, packed
from scalana.detectors.lengths.step_lengths import StepLengths
from scalana.detectors.thresholds.factors import LARGER_INPUT, SAME_SIZE
from scalana.detectors.thresholds.shares import EXPLAINED, MAJORITY, NEXT_TO_NOTHING, WORTH_IF_UNSTEADY
from scalana.graphs.arrays.types import BoolArray, FloatArray

KIND = "uneven-lengths"
_OF_WORK = ("late-ranks", "serial")


def name_lengths(findings: list[Finding], facts: Facts) -> list[Finding]:
    """Findings of work whose cost is that of the lengths of sequences, as one of these, with what packing saves; or
    one of them more, where ranks are late in turn."""
    fit = _LengthFit.of(facts)
    if fit is None:
        return findings
    ours = [fit.is_cause(finding) for finding in findings]
    if not any(ours):
        return [*findings, *fit.in_turn()]
    first, *others = (finding for finding, one in zip(findings, ours, strict=True) if one)
    whole = replace(
        first,
        lost_s=first.lost_s + sum(one.lost_s for one in others),
        lost_share=first.lost_share + sum(one.lost_share for one in others),
    )
    rest = [finding for finding, one in zip(findings, ours, strict=True) if not one]
    return [fit.named(whole), *rest]


@dataclass(frozen=True, slots=True)
class _Late:
    """Which ranks are late, and whether it is another one in each step."""

    here: BoolArray
    """``[ranks]``"""
    in_turn: bool

    @classmethod
    def of(cls, finding: Finding, ranks: int) -> _Late:
        """Those of a finding."""
        here = np.isin(np.arange(ranks), finding.ranks)
        steady = finding.evidence.steady_share
        return cls(here, bool(here.all() or (len(finding.ranks) > 1 and steady is not None and steady < MAJORITY)))

    def excess(self, values: FloatArray) -> float:
        """By how much the late ranks exceed the median rank in a step, on average; of ``[steps, ranks]``."""
        return float((self._of_late(values) - np.median(values, axis=1)).mean())

    def times(self, values: FloatArray) -> float:
        """How many times that of the median rank the late ones have, of ``[steps, ranks]``."""
        usual = np.median(values, axis=1).mean() if self.in_turn else np.median(values.mean(axis=0))
        return float(self._of_late(values).mean() / max(float(usual), 1e-300))

    def _of_late(self, values: FloatArray) -> FloatArray:
        return np.asarray(values.max(axis=1) if self.in_turn else values[:, self.here].mean(axis=1))


@dataclass(frozen=True, slots=True)
class _LengthFit:
    """The sequences of a run, and what they cost."""

    lengths: StepLengths
    work_s: FloatArray
    """What ranks worked in steps ``[steps, ranks]``."""
    cost: LengthCost
    facts: Facts

    @classmethod
    def of(cls, facts: Facts) -> _LengthFit | None:
        """That of a run; None where lengths are not known, or cost nothing that could be seen."""
        steps, own = facts.steps, facts.timeline.own
        if steps is None or facts.is_part:
            return None
        lengths = StepLengths.of(facts.ppg.spans, steps, facts.timeline.ranks)
        if lengths is None or len(np.unique(lengths.replicas())) < 2:
            return None
        work_s = lengths.work_s(facts.timeline, np.ones(len(own.seconds), np.bool_))
        cost = _fit(work_s, lengths)
        return cls(lengths, work_s, cost, facts) if cost is not None else None

    # ---- whether ----

    def is_cause(self, finding: Finding) -> bool:
        """Whether it is for their lengths that the ranks of a finding are late at its place."""
        if finding.kind not in _OF_WORK:
            return False
        late = _Late.of(finding, self.work_s.shape[1])
        seconds = self.lengths.work_s(self.facts.timeline, work_of(finding, self.facts))
        # A place that is not run in some steps costs nothing there, whatever their lengths.
        run = seconds.max(axis=1) > NEXT_TO_NOTHING * float(seconds.max(initial=0.0))
        seconds, tokens, squares = seconds[run], self.lengths.tokens[run], self.lengths.squares[run]
        cost = fitted(seconds.ravel(), tokens.ravel(), squares.ravel()) if run.any() else None
        if cost is None:
            return False
        excess_s, expected_s = late.excess(seconds), late.excess(cost.seconds(tokens, squares))
        if excess_s <= 0.0 or not EXPLAINED <= expected_s / excess_s <= 1.0 / EXPLAINED:
            return False
        if late.in_turn:
            return cost.is_certain
        otherwise = explained_by_ranks(seconds.ravel(), np.broadcast_to(late.here, seconds.shape).ravel())
        return (1.0 - cost.explained) <= SAME_SIZE * (1.0 - otherwise)

    def in_turn(self) -> list[Finding]:
        """A finding of all ranks, at the call of the model, if packing by cost is worth one."""
        if not self._within_ranks():
            return []
        saving_s = self._redistributed([BY_COST])[0].saving_s
        steps = self.facts.steps
        if steps is None or saving_s < WORTH_IF_UNSTEADY * steps.steady_s():
            return []
        costs = self.cost.seconds(self.lengths.tokens, self.lengths.squares)
        wait_s = (costs.max(axis=1, keepdims=True) - costs).sum(axis=1)
        vertex_kind = self.facts.psg[max(self.lengths.calls.vertex, 0)].kind.value
        file, line, function = self._call()
        lost_s = min(float(wait_s.sum()), self.facts.wait_s)
        finding = Finding(
            KIND,
            self.lengths.calls.vertex,
            file,
            line,
            line,
            function,
            vertex_kind,
            list(range(self.work_s.shape[1])),
            lost_s,
            lost_s / max(self.facts.wait_s, 1e-300),
            saving_s,
            series=Series("waiting", self.lengths.number, wait_s, np.ones(len(wait_s))),
        )
        return [self.named(finding)]

    def _within_ranks(self) -> bool:
        """Whether lengths explain how steps of one rank differ: that one rank takes longer than another may have many
        reasons."""
        lengths = self.lengths
        within = [values - values.mean(axis=0) + values.mean() for values in (self.work_s, lengths.tokens)]
        squares = lengths.squares - lengths.squares.mean(axis=0) + lengths.squares.mean()
        cost = fitted(*(values.ravel() for values in (*within, squares)))
        return cost is not None and cost.is_certain

    # ---- what it is, and what packing brings ----

    def _call(self) -> tuple[str, int, str]:
        """File, line and function in which the model is called."""
        psg, calls = self.facts.psg, self.lengths.calls
        if calls.vertex < 0:
            return "", 0, ""
        place = psg[calls.vertex].place
        return place.file, calls.line or place.line, psg.function_of(calls.vertex)

    def named(self, finding: Finding) -> Finding:
        """A finding of late ranks as one of lengths."""
        late, lengths, cost = _Late.of(finding, self.work_s.shape[1]), self.lengths, self.cost
        token_times = late.times(lengths.tokens)
        costs_s = late.excess(cost.seconds(lengths.tokens, lengths.squares))
        file, line, _ = self._call()
        redistributions = self._redistributed(RULES)
        found = UnevenLengths(
            attention_times=late.times(lengths.squares),
            token_times=token_times,
            is_attention=cost.square_s * late.excess(lengths.squares) >= MAJORITY * costs_s > 0.0,
            equal_tokens=1.0 / LARGER_INPUT < token_times < LARGER_INPUT,
            in_turn=late.in_turn,
            lengths_from=lengths.calls.source,
            lengths_file=file,
            lengths_line=line,
            second_per_token=cost.token_s,
            second_per_square=cost.square_s,
            longest=float(lengths.calls.length.max()),
            fit=cost.explained,
            fitted_steps=len(lengths.tokens),
            redistributions=redistributions,
        )
        evidence = replace(finding.evidence, lengths=found, balanced_saving_s=None, behind=None)
        saving_s = max(0.0, redistributions[0].saving_s)
        return replace(finding, kind=KIND, saving_s=saving_s, evidence=evidence, advice=advise_packing(found))

    def _redistributed(self, rules: Sequence[Rule]) -> list[Redistribution]:
        """The run with other distributions of its sequences."""
        lengths, cost, timeline = self.lengths, self.cost, self.facts.timeline
        sums = [packed(lengths, cost, rule) for rule in rules]
        more_s = [cost.seconds(tokens - lengths.tokens, squares - lengths.squares) for tokens, squares in sums]
        costs = cost.seconds(lengths.tokens, lengths.squares)
        blocks = in_blocks(lengths, cost)
        more_s += [blocks.seconds - costs, costs.mean(axis=1, keepdims=True) - costs]
        changes = [as_change(lengths, more, timeline) for more in more_s]
        measured_s, ends_s = self.facts.replay.run_ends_s(changes)
        names = [*(rule.name for rule in rules), BLOCKS, SPLIT]
        sizes = [*(tokens for tokens, _ in sums), blocks.tokens]
        most = [*(float(tokens.max() / lengths.tokens.max()) for tokens in sizes), None]
        received = [*(None for _ in rules), float(blocks.received.max()), None]
        return [
            Redistribution(name, measured_s - end_s, tokens, came)
            for name, end_s, tokens, came in zip(names, ends_s, most, received, strict=True)
        ]


def _fit(work_s: FloatArray, lengths: StepLengths) -> LengthCost | None:
    return fitted(work_s.ravel(), lengths.tokens.ravel(), lengths.squares.ravel())
