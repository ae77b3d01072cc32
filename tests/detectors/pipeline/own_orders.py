"""Orders of two stages a rank in a V that nobody published: each rank does what comes first, by a rule of its own."""

from __future__ import annotations

from collections.abc import Callable

from scalana.detectors.pipeline.model.actions import Action, Kind, Program

Rule = Callable[[Action], tuple]
"""Which of several actions that can begin at the same time does: the least."""

RULES: dict[str, Rule] = {
    "backwards first": lambda one: (one.kind is Kind.F, one.microbatch, one.stage),
    "forwards first": lambda one: (one.kind is Kind.B, one.microbatch, one.stage),
    "deep first": lambda one: (one.kind is Kind.F, -one.stage if one.kind is Kind.F else one.stage, one.microbatch),
}


def own_order(ranks: int, microbatches: int, rule: Rule, most: int) -> Program:
    """An order by a rule, with at most so many activations on a rank."""
    last = 2 * ranks - 1
    kinds = (Kind.F, Kind.B)
    left = {
        rank: [Action(kind, s, m) for s in (rank, last - rank) for m in range(microbatches) for kind in kinds]
        for rank in range(ranks)
    }
    done: dict[Action, float] = {}
    free, alive = [0.0] * ranks, [0] * ranks
    orders: list[list[Action]] = [[] for _ in range(ranks)]

    def needs(one: Action) -> list[Action]:
        kind, stage, m = one.kind, one.stage, one.microbatch
        found = [Action(kind, stage, m - 1)] if m else []
        if kind is Kind.F:
            return found + ([Action(kind, stage - 1, m)] if stage else [])
        return [*found, Action(Kind.F, stage, m), *([Action(kind, stage + 1, m)] if stage < last else [])]

    while any(left.values()):
        able = [
            ((max([free[rank], *(done[other] for other in needs(one))]), *rule(one)), rank, one)
            for rank, mine in left.items()
            for one in mine
            if all(other in done for other in needs(one)) and (one.kind is Kind.B or alive[rank] < most)
        ]
        (begin, *_), rank, one = min(able, key=lambda each: (*each[0], each[1]))
        done[one] = free[rank] = begin + (1.0 if one.kind is Kind.F else 2.0)
        alive[rank] += 1 if one.kind is Kind.F else -1
        left[rank].remove(one)
        orders[rank].append(one)
    return Program.of(orders)
