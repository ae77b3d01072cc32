"""Alignment of host clocks from synthetic completions."""

from __future__ import annotations

import numpy as np
import pytest

from scalana.graphs.readers.clocks import estimate_clocks


def _run(offsets_s, drifts, guess_error_s, ticks=2000, seconds=30.0, noise_s=30e-6, outliers=0.02, seed=1, keep=None):
    """Completions of common ticks, as the hosts' own clocks show them; returns estimate and worst error in seconds."""
    rng = np.random.default_rng(seed)
    true = np.sort(rng.uniform(0.0, seconds, ticks))
    tick, host, time = [], [], []
    for h, (offset, drift) in enumerate(zip(offsets_s, drifts, strict=True)):
        late = rng.exponential(noise_s, ticks) + (rng.random(ticks) < outliers) * rng.exponential(0.02, ticks)
        shown = offset + (true + late) * (1.0 + drift)
        chosen = np.arange(ticks) if keep is None else np.flatnonzero(keep(h, np.arange(ticks)))
        tick.append(chosen)
        host.append(np.full(len(chosen), h))
        time.append(np.rint(shown[chosen] * 1e9).astype(np.int64))
    guess = -np.rint((np.array(offsets_s) + np.array(guess_error_s)) * 1e9).astype(np.int64)
    clocks = estimate_clocks(guess, np.concatenate(tick), np.concatenate(host), np.concatenate(time))
    probe = np.linspace(0.0, seconds, 50)
    reference = offsets_s[0] + probe * (1.0 + drifts[0])
    errors = [
        np.abs(clocks.align(h, np.rint((o + probe * (1 + d)) * 1e9).astype(np.int64)) * 1e-9 - reference).max()
        for h, (o, d) in enumerate(zip(offsets_s, drifts, strict=True))
    ]
    return clocks, errors


def test_offset_of_seconds_and_drift_of_50_ppm():
    clocks, errors = _run([1000.0, 1003.5, 12.25], [0.0, 50e-6, -35e-6], [0.0, 0.3, -2.0])
    assert max(errors) < 30e-6
    assert clocks.drift[1] == pytest.approx(-50e-6, abs=2e-6)
    assert clocks.drift[2] == pytest.approx(35e-6, abs=2e-6)


def test_without_drift_none_is_invented():
    clocks, errors = _run([5.0, 905.0], [0.0, 0.0], [0.0, 0.01], ticks=300, seconds=4.0)
    assert max(errors) < 30e-6
    assert abs(clocks.drift[1]) < 5e-6


def test_host_that_shares_ticks_only_with_another_than_the_first():
    # Host 2 meets host 1 only, and host 1 meets host 0 only in the other half of the ticks.
    def keep(h, tick):
        return {0: tick % 2 == 0, 1: tick >= 0, 2: tick % 2 == 1}[h]

    _, errors = _run([0.0, 40.0, 80.0], [0.0, 20e-6, 40e-6], [0.0, 1.0, -1.0], keep=keep)
    assert max(errors) < 60e-6


def test_few_ticks_give_an_offset_and_no_drift():
    clocks, errors = _run([0.0, 7.0], [0.0, 0.0], [0.0, 0.5], ticks=4, outliers=0.0)
    assert clocks.drift[1] == 0.0
    assert clocks.ticks[1] == 4
    assert errors[1] < 100e-6


def test_without_common_ticks_the_real_time_clock_stays():
    none = np.zeros(0, np.int64)
    clocks = estimate_clocks(np.array([100, 350], np.int64), none, none, none)
    assert clocks.align(1, np.array([1000], np.int64)).tolist() == [1250]
    assert clocks.ticks.tolist() == [0, 0]


def test_host_zero_keeps_its_own_axis():
    clocks, _ = _run([1000.0, 1003.5], [10e-6, 50e-6], [0.0, 0.0])
    t = np.array([1_000_000_000_000, 1_020_000_000_001], np.int64)
    assert clocks.align(0, t).tolist() == t.tolist()
