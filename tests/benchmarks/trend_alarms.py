"""How often a change over the steps is reported of a cost that does not change: percent of a hundred seeds, as JSON.

Run: python -m tests.benchmarks.trend_alarms

The series are those of `tests/detectors/when/test_trend.py`, of 20, 60 and 120 steps.
"""

from __future__ import annotations

import json

import numpy as np

from scalana.detectors.when.cost_trend import trend_of
from tests.detectors.when.test_trend import COUNTS, STEADY

SEEDS = 100


def alarms(name: str, steps: int) -> int:
    """In how many seeds of a hundred a series is said to change."""
    series, _ = STEADY[name]
    return sum(bool(trend_of(series(steps, np.random.default_rng(seed)))) for seed in range(SEEDS))


def main() -> None:
    """Print them."""
    print(json.dumps({name: [alarms(name, steps) for steps in COUNTS] for name in STEADY}, indent=2))


if __name__ == "__main__":
    main()
