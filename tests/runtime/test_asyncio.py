"""Programs of coroutines: who awaits whom while one runs, and what is seen while none does."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalana.runtime.record.format import SPAN_TYPE

from . import jobs, recording

AWAITING = jobs.PROGRAMS / "awaiting.py"

ROLLOUTS = """
    import asyncio
    def busy(seconds):
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
    async def judge(seconds):
        await asyncio.sleep(0)
        busy(seconds)
    async def rollout():
        await judge(0.1)
    async def collect():
        await asyncio.gather(*[rollout() for _ in range(3)])
        await asyncio.sleep(0.4)
    _core.start(RECORD, 500, 1 << 22)
    asyncio.run(collect())  # main
    _core.stop(0)
"""


@dataclass(frozen=True)
class Stretch:
    """The time of the main thread from one sample to the next, as the earlier one found it."""

    seconds: float
    frames: list[tuple[str, int]]
    """(function, line)s, the outermost first."""
    rests: bool
    """It doesn't advance: the sample at its end finds it where the earlier one did, waiting."""


@pytest.fixture(scope="module")
def stretches(tmp_path_factory: pytest.TempPathFactory) -> list[Stretch]:
    folder = tmp_path_factory.mktemp("asyncio")
    record = recording.recorded(ROLLOUTS, folder)
    samples, thread = record.samples, recording.main_thread(record)
    rows = [row for row in range(len(samples)) if samples.thread[row] == thread]
    main_line = recording.line_of(folder, "# main")
    waiting, result = 3, []
    for row, following in zip(rows, rows[1:]):  # noqa: B905  pairs
        frames = [(frame.code.name, frame.line) for frame in record.frames(samples.path[row])]
        if ("<module>", main_line) in frames:
            rests = samples.path[following] == samples.path[row] and samples.state[following] == waiting
            result.append(Stretch((samples.time_ns[following] - samples.time_ns[row]) * 1e-9, frames, rests))
    return result


@pytest.mark.measured
def test_a_coroutine_is_called_by_those_that_await_it(stretches: list[Stretch]) -> None:
    busy = [stretch for stretch in stretches if stretch.frames[-1][0] == "busy"]
    assert sum(stretch.seconds for stretch in busy) > 0.15  # of 0.3 s
    for stretch in busy:
        names = [name for name, _ in stretch.frames]
        assert names[0] == "<module>"
        assert names[-3:] == ["rollout", "judge", "busy"]


@pytest.mark.measured
def test_while_all_coroutines_wait_the_thread_rests_in_the_event_loop(stretches: list[Stretch]) -> None:
    idle = [stretch for stretch in stretches if stretch.frames[-1][0].endswith("select") and stretch.rests]
    assert sum(stretch.seconds for stretch in idle) > 0.2  # of 0.4 s


@pytest.mark.measured
def test_a_loop_that_rests_is_where_its_coroutines_await(tmp_path: Path) -> None:
    """Timers, others that gather, limits of time, asynchronous generators, threads and messages."""
    done = jobs.run([sys.executable, AWAITING], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (record,) = jobs.records(tmp_path)
    assert SPAN_TYPE["await"] not in record.spans.type and not record.notes
    source = AWAITING.read_text().splitlines()
    seconds: dict[str, float] = defaultdict(float)
    thread = recording.main_thread(record)
    samples = record.samples
    rows = [row for row in range(len(samples)) if samples.thread[row] == thread]
    for before, row in zip(rows, rows[1:]):  # noqa: B905  pairs
        lines = [frame.line for frame in record.frames(samples.path[row]) if frame.code.filename == str(AWAITING)]
        place = source[lines[-1] - 1].partition("# ")[2] if lines else ""
        seconds[place] += (samples.time_ns[row] - samples.time_ns[before]) * 1e-9
    expected = {"tool": 0.24, "limited": 0.18, "items": 0.18, "thread": 0.3, "message": 0.3}
    assert {place: seconds[place] for place in expected} == pytest.approx(expected, rel=0.25)
    assert seconds["thinks"] > 0.08, "what runs stays where it is"


def test_what_is_handed_to_loops_is_left_alone(tmp_path: Path) -> None:
    """Proxies are not asked for what they do not have, what handlers raise comes through, and loops go."""
    program = jobs.PROGRAMS / "loops_left_alone.py"
    plain, recorded = jobs.run([sys.executable, program]), jobs.run([sys.executable, program], tmp_path)
    assert (recorded.returncode, recorded.stderr) == (plain.returncode, plain.stderr) == (0, "")
    assert recorded.stdout == plain.stdout
    assert plain.stdout.splitlines()[-1] == "20 0"
    (record,) = jobs.records(tmp_path)
    assert not record.notes
