"""Programs of coroutines: who awaits whom while one runs, and what is seen while none does."""

from __future__ import annotations

import pytest

from . import recording

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


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, list[tuple[str, int]], int]]:
    """Of each sample of the main thread the seconds to the next one, its (function, line)s, and the state."""
    folder = tmp_path_factory.mktemp("asyncio")
    record = recording.recorded(ROLLOUTS, folder)
    thread = recording.main_thread(record)
    rows = [row for row in range(len(record.samples)) if record.samples.thread[row] == thread]
    times = record.samples.time_ns
    main_line = recording.line_of(folder, "# main")
    result = []
    for row, following in zip(rows, rows[1:]):  # noqa: B905  pairs
        frames = [(frame.code.name, frame.line) for frame in record.frames(record.samples.path[row])]
        if ("<module>", main_line) in frames:
            result.append(((times[following] - times[row]) * 1e-9, frames, record.samples.state[row]))
    return result


def test_a_coroutine_is_called_by_those_that_await_it(
    samples: list[tuple[float, list[tuple[str, int]], int]],
) -> None:
    busy = [(seconds, [name for name, _ in frames]) for seconds, frames, _ in samples if frames[-1][0] == "busy"]
    assert sum(seconds for seconds, _ in busy) > 0.15  # of 0.3 s
    for _, names in busy:
        assert names[0] == "<module>"
        assert names[-3:] == ["rollout", "judge", "busy"]


def test_while_all_coroutines_wait_the_thread_rests_in_the_event_loop(
    samples: list[tuple[float, list[tuple[str, int]], int]],
) -> None:
    ipc = 3
    idle = [seconds for seconds, frames, state in samples if frames[-1][0].endswith("select") and state == ipc]
    assert sum(idle) > 0.2  # of 0.4 s
