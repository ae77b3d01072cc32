"""One line on what to do, where the evidence supports one."""

from __future__ import annotations

from scalana.detectors.evidence import PoolOrder, UnevenLengths, UnevenMask, UnevenSizes
from scalana.detectors.finding import Finding
from scalana.detectors.kinds import kind_of
from scalana.detectors.source_calls import source_call, source_line
from scalana.detectors.thresholds.factors import LARGER_INPUT, NOT_THE_CORE
from scalana.detectors.thresholds.limits import NAMED
from scalana.detectors.thresholds.shares import FLOOR, MAJORITY, SUBSTANTIAL

TAKES_CORE = (
    "Other programs or threads take the core of these ranks: look for them on that host (top), and move them, or give "
    "each rank a core of its own."
)
"""About ranks that wait for a core far longer than others, perhaps from a step on."""


def advise(finding: Finding) -> str:
    """Return a sentence, or "" where the evidence does not tell."""
    evidence = finding.evidence
    if evidence.unsampled:
        return "Record such a run with samples (scalana run), or profile this rank, to see what it does here."
    if standing := kind_of(finding.kind).advice:
        return standing
    if evidence.pool is not None:
        return advise_order(evidence.pool)
    if evidence.instead is not None and evidence.place is not None and not evidence.place.seconds_others:
        return (
            f"Other ranks run `{evidence.instead.function}` instead, which is faster: check which condition decides, "
            "or make this as fast."
        )
    line = _source(finding)
    if call := source_call(line):
        return call.advice
    if _by_helpers(finding):
        return (
            "The rank waits for this work of its own background threads or workers: make it faster, or spread it "
            "over more of them that do not block each other (for example on a lock)."
        )
    if finding.kind == "serial":
        return "Only this rank works while all others wait: distribute the work, or move it off the critical path."
    cpu, core_wait = evidence.cpu_split()
    rests = cpu is not None and core_wait is not None and cpu + core_wait < 0.3
    if rests and (rest := source_call(line, rests=True)):
        return rest.advice
    if evidence.whole_role:
        return "All processes of this role take as long here: make this cheaper, or share it among more processes."
    if evidence.drifts:
        return "The ranks with the most work here change during the run: rebalance from time to time."
    if len(finding.ranks) > 1 and evidence.steady_share is not None and evidence.steady_share < MAJORITY:
        return "A different rank is late each time: balance this work within every step, not only over the run."
    if cpu is not None and core_wait is not None:
        if rests:
            return "The time is spent off the CPU (I/O, sleep or a lock): overlap or remove it on these ranks."
        if cpu + core_wait > 0.7:
            return _computing(finding)
        return (
            f"{cpu + core_wait:.0%} of this is computing{_or_waiting(cpu, core_wait)}, the rest I/O, sleep or a lock: "
            "do both less often, or share them with the others."
        )
    return ""


def advise_cut(sizes: UnevenSizes) -> str:
    """Return how to cut the data, from what makes a part expensive."""
    return (
        f"Cut the data so that all ranks get equally many {sizes.size_of}. Now the ranks have {_counts(sizes.sizes)} "
        "of them."
    )


def _counts(values: list[float]) -> str:
    """Some numbers, the first of many."""
    shown = ", ".join(f"{value:,.0f}" for value in values[:NAMED])
    return f"{shown}, ..." if len(values) > NAMED else shown


def advise_packing(lengths: UnevenLengths) -> str:
    """Return how to pack the sequences of a step, from what they cost and what that saves."""
    by_cost = lengths.redistributions[0]
    if by_cost.saving_s <= 0.0:
        return (
            f"The longest sequence, of up to {lengths.longest:.0f} tokens, takes a rank about as long as its step: "
            "split long sequences over ranks (context parallelism), or limit their length."
        )
    costs = []
    if lengths.second_per_token > 0.0:
        costs.append(f"{1e6 * lengths.second_per_token:.2g} us a token")
    if lengths.second_per_square > 0.0:
        costs.append(f"{1e3 * 1024**2 * lengths.second_per_square:.2g} ms for the square of 1024 tokens")
    more = ""
    if by_cost.tokens is not None and by_cost.tokens >= LARGER_INPUT:
        more = f" A rank then gets up to {by_cost.tokens:.1f} times as many tokens as now: check that they fit."
    return (
        f"Pack sequences by cost ({' and '.join(costs)}), not by tokens: the most expensive first, each to the rank "
        f"that has least.{more}"
    )


def advise_zigzag(mask: UnevenMask) -> str:
    """Return how to divide sequences so that all ranks compute as much under a causal mask."""
    ranks = mask.mask_ranks
    return (
        f"Cut each sequence into {2 * ranks} parts, and give rank 0 the first and the last one, rank 1 the second and "
        f"the last but one, and so on (zigzag): all {ranks} ranks then compute equally much{_in_each(mask)}. Position "
        "embeddings, labels and the order of outputs have to follow. Ulysses (all-to-alls that exchange tokens for "
        f"heads around attention) balances the mask, too, if the heads of keys and values can be divided by {ranks}."
    )


def _in_each(mask: UnevenMask) -> str:
    return " in every round" if mask.mask_way == "ring" else ""


def advise_order(pool: PoolOrder) -> str:
    """Return what to do about the order of the tasks of a pool."""
    first_s, halves_s = pool.longest_first_s, pool.halves_s
    which = f"{pool.workers} workers take {pool.tasks} tasks, one at a time: "
    smaller = f"smaller pieces (halves: {halves_s:.2g} s less)"
    if first_s <= 0.0:
        return f"{which}the longest end last in any order. Hand out {smaller}."
    sentence = f"{which}long ones begin late. Hand out the longest first, if known ({first_s:.2g} s less)"
    return f"{sentence}, or {smaller}." if halves_s > 0.0 else f"{sentence}."


def _source(finding: Finding) -> str:
    """The line of a finding, and that in the function which it calls to spend its time there."""
    line = source_line(finding.file, finding.line) if finding.line == finding.end_line else ""
    leaf = finding.evidence.leaf
    return line + source_line(leaf.file, leaf.line) if leaf is not None else line


def _or_waiting(cpu: float, core_wait: float) -> str:
    """What to say of the part that waits for a core, where that is most of what is not off the CPU."""
    return " or waiting for a core" if core_wait > cpu else ""


def _by_helpers(finding: Finding) -> bool:
    """Whether threads or children of the ranks do most of what these spend more than others at a place."""
    helper, place = finding.evidence.helper_share, finding.evidence.place
    if helper is None or place is None:
        return False
    here, others = place.seconds_here, place.seconds_others
    more = here - others if others is not None and others < here else here
    return helper > MAJORITY or (helper > SUBSTANTIAL and helper * here > MAJORITY * more)


def _computing(finding: Finding) -> str:
    """What to do about computing that takes longer on some ranks, or takes time on them alone."""
    place = finding.evidence.place
    if place is None or place.seconds_others is None:
        return ""
    here, others, leaf = place.seconds_here, place.seconds_others, finding.evidence.leaf
    if place.others_elsewhere and leaf is not None and others > FLOOR * here:
        return (
            f"Other ranks call `{leaf.function}` at other lines, for less time: check which condition brings this rank "
            "here, or give it less to do."
        )
    if others > FLOOR * here:
        often = _times_as_often(finding)
        if (often - 1.0) * others >= MAJORITY * (here - others):
            return f"This runs {often:.2g} times as often here as on other ranks: distribute its work more evenly."
        if here >= NOT_THE_CORE * others:
            return "The same code computes longer here than on other ranks: balance its input, or how often it runs."
        return (
            "The same code computes longer here than on other ranks: balance its input, or how often it runs, or check "
            "this core."
        )
    who = "Only these ranks spend" if len(finding.ranks) > 1 else "Only this rank spends"
    return f"{who} time here: do this less often, make it cheaper, or share it with the others."


def _times_as_often(finding: Finding) -> float:
    """How many times as often as other ranks those of a finding run what is around it; 1 where that is not known."""
    place = finding.evidence.place
    if place is None or place.runs_here is None or not place.runs_others:
        return 1.0
    return place.runs_here / place.runs_others
