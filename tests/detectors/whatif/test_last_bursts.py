"""What a rank does after its last call nobody waits for, but the end of the run does: a fix saves it, too."""

from __future__ import annotations

import pytest

from tests.detectors.jobs import analyse

ROUNDS, RANKS = 8, 3
SLOW_S, SHARE_S = 0.1, 0.02


def program(slow_ms: dict[int, float]) -> list[list[tuple]]:
    """Each round begins with a collective; the slow work comes after it, and so also after the last one."""
    everybody = list(range(RANKS))
    actions: list[list[tuple]] = [[("coll", "barrier", everybody, -1)] for _ in everybody]
    for _ in range(ROUNDS):
        for rank in everybody:
            actions[rank].append(("work", "share", 1e3 * SHARE_S))
            actions[rank].append(("coll", "allreduce", everybody, -1))
            if rank in slow_ms:
                actions[rank].append(("work", "log", slow_ms[rank]))
    return actions


@pytest.mark.parametrize("period_s", [0.0, 0.005])
def test_a_saving_counts_work_after_the_last_call(period_s: float) -> None:
    ((name, finding),), _ = analyse(program({1: 1e3 * SLOW_S}), period_s=period_s)
    assert (name, finding.ranks) == ("log", [1])
    assert finding.lost_s == pytest.approx((ROUNDS - 1) * SLOW_S * (RANKS - 1), rel=0.05)
    assert finding.saving_s == pytest.approx(ROUNDS * SLOW_S, rel=0.05)


def test_of_what_others_do_as_well_the_excess_alone_is_saved() -> None:
    ((name, finding),), _ = analyse(program({0: 40.0, 1: 1e3 * SLOW_S, 2: 40.0}))
    assert (name, finding.ranks) == ("log", [1])
    assert finding.saving_s == pytest.approx(ROUNDS * (SLOW_S - 0.04), rel=0.05)
    assert finding.evidence.balanced_saving_s == pytest.approx(finding.saving_s * 2 / 3)
