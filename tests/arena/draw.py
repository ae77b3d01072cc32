"""What a random program does: drawn from a seed, as plain data."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

RUNTIMES = ("mpi", "torch")
PATTERNS = ("barrier", "allreduce", "broadcast", "gather", "ring", "pairs")
"""What ranks exchange at the end of a turn."""
CLOSING = ("barrier", "allreduce")
"""What the last phase of a step may end with, so that all ranks wait for one that is late."""
PLACES = ("extra call", "longer call", "own function", "deep branch", "thread")
"""Where a fault is: a call that only the slow ranks make; a call that all make, with more to do; a function that only
the slow ranks run; a branch inside of a helper; a thread that the main thread waits for."""
WHAT = ("compute", "sleep")
WHEN = ("always", "every fifth step", "once", "growing")
STEP_S = 0.08
"""A step of a rank takes about so long, without its fault."""


@dataclass(frozen=True)
class Phase:
    """A part of a step: turns of work, each with an exchange behind it."""

    work: str
    """One of :data:`WHAT`."""
    work_s: float
    """About so long in a turn."""
    depth: int
    """Helpers between the phase and what does the work."""
    shared: bool
    """Whether other phases call the same helpers."""
    turns: int
    pattern: str
    """One of :data:`PATTERNS`."""


@dataclass(frozen=True)
class Fault:
    """What makes some ranks slower than others."""

    place: str
    """One of :data:`PLACES`."""
    what: str
    """One of :data:`WHAT`."""
    when: str
    """One of :data:`WHEN`."""
    ranks: tuple[int, ...]
    phase: int
    """Number of the phase that it is in."""
    extra_s: float
    """About so much in a turn of that phase, where it comes in every step."""


@dataclass(frozen=True)
class Program:
    """A program."""

    seed: int
    runtime: str
    """One of :data:`RUNTIMES`."""
    ranks: int
    steps: int
    phases: tuple[Phase, ...]
    fault: Fault | None
    ticker: bool
    """Whether each rank has a thread that wakes up now and then, and is of no importance."""

    @property
    def name(self) -> str:
        """In few words."""
        fault = self.fault
        if fault is None:
            return f"{self.runtime}, {self.ranks} ranks, balanced"
        return f"{self.runtime}, {self.ranks} ranks, {fault.place}, {fault.what}, {fault.when}"


def drawn(seed: int, balanced: bool = False) -> Program:
    """The program of a seed; ``balanced``: the same one without its fault. One process alone has no fault: nobody waits
    for it."""
    chance = random.Random(seed)
    runtime = chance.choice(RUNTIMES)
    ranks = chance.choice((1, 2, 2, 3, 3, 4, 4, 4))
    count = chance.randint(2, 4)
    weights = [chance.uniform(0.5, 1.5) for _ in range(count)]
    phases = tuple(
        _phase(chance, STEP_S * weight / sum(weights), last=n == count - 1) for n, weight in enumerate(weights)
    )
    if sum(phase.shared for phase in phases) == 1:  # a helper of one phase is not shared
        phases = tuple(replace(phase, shared=True, depth=max(phase.depth, 1)) for phase in phases)
    fault = _fault(chance, ranks, count, phases)
    ticker, steps = chance.random() < 0.3, chance.randint(40, 60)
    return Program(seed, runtime, ranks, steps, phases, None if balanced or ranks == 1 else fault, ticker)


def _phase(chance: random.Random, part_s: float, last: bool) -> Phase:
    turns = chance.choice((1, 1, 2, 4))
    pattern = chance.choice(CLOSING if last else PATTERNS)
    depth = chance.randint(0, 3)
    return Phase(chance.choice(WHAT), part_s / turns, depth, depth > 0 and chance.random() < 0.5, turns, pattern)


def _fault(chance: random.Random, ranks: int, count: int, phases: tuple[Phase, ...]) -> Fault:
    slow = tuple(sorted(chance.sample(range(ranks), 2 if ranks == 4 and chance.random() < 0.25 else 1)))
    at = chance.randrange(count)
    place = chance.choice(PLACES)
    if place == "deep branch" and (phases[at].depth == 0 or phases[at].shared):
        place = "longer call"
    extra_s = STEP_S * chance.uniform(0.3, 1.0) / phases[at].turns
    return Fault(place, chance.choice(WHAT), chance.choice(WHEN), slow, at, extra_s)
