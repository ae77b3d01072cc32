"""Moments that all processes of a host agree on: each works them out alone, from the clock that they share."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.installed import RUNTIME

MS = 1_000_000
clock = st.integers(0, 10**18)
steps = st.sampled_from([MS, 5 * MS, 10_101_010, 160 * MS])


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("moments") / "moments.so"
    source = RUNTIME / "_core/sampler/moments.c"
    subprocess.run(
        [compiler, "-std=c11", "-shared", "-fPIC", "-o", str(library), f"-I{RUNTIME / '_core'}", str(source)],
        check=True,
        timeout=60,
    )
    loaded = ctypes.CDLL(str(library))
    loaded.moments_tick_after.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    loaded.moments_tick_after.restype = ctypes.c_uint64
    loaded.moments_own_tick_after.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32]
    loaded.moments_own_tick_after.restype = ctypes.c_uint64
    return loaded


@given(now=clock, late=st.integers(0, 300 * MS), step=steps)
def test_ticks_follow_each_other_about_a_step_apart(moments: ctypes.CDLL, now: int, late: int, step: int) -> None:
    tick = moments.moments_tick_after(now, step)
    assert now < tick <= now + step * 5 // 4
    following = moments.moments_tick_after(tick, step)
    assert step * 3 // 4 <= following - tick <= step * 5 // 4
    # Whoever wakes up a little late is back in step with the others at the next tick.
    assert moments.moments_tick_after(tick + late % (step // 2), step) == following


def test_ticks_keep_the_rate_and_are_not_in_step_with_the_clock(moments: ctypes.CDLL) -> None:
    step, count, now = 5 * MS, 2000, 12345
    within = []
    for _ in range(count):
        now = moments.moments_tick_after(now, step)
        within.append(now % step)
    assert abs(now - count * step) < 2 * step
    early, late = min((x + step // 2) % step for x in within), max((x + step // 2) % step for x in within)
    assert late - early > step // 5


@given(now=clock, process=st.integers(0, 2**32 - 1), step=steps)
def test_own_ticks_follow_each_other_like_common_ones(moments: ctypes.CDLL, now: int, process: int, step: int) -> None:
    tick = moments.moments_own_tick_after(now, step, process)
    assert now < tick <= now + step * 5 // 4
    following = moments.moments_own_tick_after(tick, step, process)
    assert step * 3 // 4 <= following - tick <= step * 5 // 4


@given(first=st.integers(0, 2**22), step=steps)
def test_processes_of_one_host_tick_in_turns(moments: ctypes.CDLL, first: int, step: int) -> None:
    # Where nothing is left to chance: what ticks lack to whole steps, less what all have in common.
    ticks = [moments.moments_own_tick_after(1000 * step, step, first + i) for i in range(8)]
    places = sorted(tick % step for tick in ticks)
    gaps = [later - place for place, later in zip(places, [*places[1:], places[0] + step], strict=True)]
    assert max(gaps) < 0.6 * step  # of even ones an eighth; chance moves each by an eighth either way
