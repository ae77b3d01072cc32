"""A loop whose rollouts and trainer are processes of their own, called by a driver: written with exact times."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount
from scalana.runtime.record.format import SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from tests.tools import call_run
from tests.tools.call_run import NS, START_NS

STEPS = 5
SHORT_S, LONG_S, TRAIN_S = 0.1, 0.3, 0.2
STEP_S = LONG_S + TRAIN_S


class Process(call_run.Process):
    """One that says what phase it is in."""

    def serve(self, call: int, begin_s: float, end_s: float, phase: str, tokens: int) -> None:
        """Idle until it is called, then do something that is a phase."""
        self.call("take", call, self.since_s, begin_s)
        begin, length = START_NS + round(begin_s * NS), round((end_s - begin_s) * NS)
        lane = self.record.lane(thread=0)
        self.record.span(SPAN_TYPE["phase"], phase, begin, length, lane=lane, attributes={"tokens": tokens})
        if phase == "rollout":
            self.record.span(
                SPAN_TYPE["trajectory"],
                "trajectory",
                begin,
                length,
                lane=lane,
                attributes={"tokens": tokens, "id": call},
            )
        self.call("reply", call, end_s, end_s)
        self.since_s = end_s


def write(folder: Path, tokens: int = 0) -> None:
    """The second rollout takes longer in each step: by its tokens, unless all have so many; then in one step alone."""
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0, "seconds": STEPS * STEP_S})
    driver, trainer = Process(run, "driver", 0), Process(run, "Trainer", 1)
    rollouts = [Process(run, "Rollout", number) for number in (2, 3)]
    for step in range(STEPS):
        now, first = step * STEP_S, 1 + 3 * step
        for number, rollout in enumerate(rollouts):
            length_s = LONG_S if number and (step == 1 or not tokens) else SHORT_S
            driver.call("submit", first + number, now, now)
            rollout.serve(first + number, now, now + length_s, "rollout", tokens or round(1000 * length_s))
        generated, trained = now + LONG_S, now + STEP_S
        for number in range(2):
            driver.call("result", first + number, now, generated)
        driver.call("submit", first + 2, generated, generated)
        trainer.serve(first + 2, generated, trained, "update_actor", 400)
        driver.call("result", first + 2, generated, trained)
    for number, rollout in enumerate(rollouts):  # which wait to the end, and are told so
        driver.call("submit", 900 + number, STEPS * STEP_S, STEPS * STEP_S)
        rollout.call("take", 900 + number, rollout.since_s, STEPS * STEP_S)
    for process in (driver, trainer, *rollouts):
        process.end(STEPS * STEP_S)


def test_waits_through_a_driver_are_charged_to_whom_it_waits_for(tmp_path: Path) -> None:
    write(tmp_path / "run")
    report = api.analyze(tmp_path / "run")
    names = report.ppg.run.names
    assert [names.one(number) for number in range(4)] == ["Rollout 0", "Rollout 1", "the Trainer", "the driver"]
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert len(account.step_s) == STEPS and account.step_s.tolist() == pytest.approx([STEP_S] * STEPS)
    seconds = {key: float(row.sum()) / STEPS for key, row in zip(account.keys, account.seconds, strict=True)}
    mean_s = (SHORT_S + LONG_S) / 2
    expected = {
        "generation": SHORT_S + LONG_S,
        "training": TRAIN_S,
        # The trainer waits for an average rollout in any case, and rollouts for the trainer.
        "starvation": mean_s,
        "backpressure": 2 * TRAIN_S,
        # What the other rollout, and the trainer, wait for the long one.
        "long-tail": (LONG_S - SHORT_S) + (LONG_S - mean_s),
    }
    told = {key: value for key, value in seconds.items() if value > 1e-3}
    told["generation"] += told.pop("under-batched", 0.0)
    assert told == {key: pytest.approx(value, rel=0.02) for key, value in expected.items()}
    assert account.total_s == pytest.approx(3 * STEPS * STEP_S), "a driver without phases is not part of the whole"
    (tail,) = [finding for finding in report.findings if finding.kind == "rl-long-tail"]
    assert names.many(tail.ranks) == "Rollout 1"


def test_what_is_as_long_as_the_others_is_no_tail(tmp_path: Path) -> None:
    write(tmp_path / "run", tokens=100)
    account = api.analyze(tmp_path / "run").analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert account.shares["long-tail"] == 0.0 and account.shares["other"] * account.total_s > LONG_S - SHORT_S


GENERATE_S = (0.1, 0.25)
SLOW_TRAIN_S, EPS_S = 0.4, 0.001


def write_with_buffer(folder: Path) -> None:
    """Rollouts put what they made into a queue that is full, an async actor, until the trainer gets something. The
    second one says of its trajectories when they are, and of no phase: they last until there is room."""
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0, "seconds": STEPS * SLOW_TRAIN_S})
    buffer, trainer = Process(run, "Buffer", 0), Process(run, "Trainer", 1)
    rollouts = [Process(run, "Rollout", number) for number in (2, 3)]

    def comes(call: int, at_s: float) -> None:
        """A call for which the loop of the actor has waited, as nothing else could end what it has under way."""
        if buffer.since_s:
            buffer.call("get", call, buffer.since_s, at_s)
        buffer.call("take", call, at_s if buffer.since_s else 0.0, at_s)
        buffer.since_s = at_s + EPS_S

    def say(process: Process, phase: str, begin_s: float, end_s: float, tokens: int) -> None:
        begin, length = START_NS + round(begin_s * NS), round((end_s - begin_s) * NS)
        kind = SPAN_TYPE["trajectory" if process is rollouts[1] else "phase"]
        process.record.span(
            kind, phase, begin, length, lane=process.record.lane(thread=0), attributes={"tokens": tokens}
        )

    for step in range(STEPS):
        now = step * SLOW_TRAIN_S
        for number, rollout in enumerate(rollouts):
            got, put = 1 + 10 * step + number, 1001 + 10 * step + number
            if step:
                trainer.call("submit", got, now + number * 4 * EPS_S, now + number * 4 * EPS_S)
                comes(got, now + (4 * number + 1) * EPS_S)
                for reply in (got, put - 10):
                    buffer.call("reply", reply, buffer.since_s, buffer.since_s)
                trainer.call("result", got, now + number * 4 * EPS_S, now + (4 * number + 3) * EPS_S)
                rollout.call("result", put - 10, rollout.since_s, now + (4 * number + 3) * EPS_S)
                rollout.since_s = now + (4 * number + 3) * EPS_S
            until = now + (SLOW_TRAIN_S if number else GENERATE_S[number])
            say(rollout, "rollout", rollout.since_s, until, 100)
        for number, rollout in enumerate(rollouts):
            put, rollout.since_s = 1001 + 10 * step + number, now + GENERATE_S[number]
            rollout.call("submit", put, rollout.since_s, rollout.since_s)
            comes(put, rollout.since_s + EPS_S)
        say(trainer, "update_actor", now + 8 * EPS_S, now + SLOW_TRAIN_S, 400)
    for process in (buffer, trainer, *rollouts):
        process.end(STEPS * SLOW_TRAIN_S)


def test_rollouts_that_wait_for_room_in_a_buffer_wait_for_the_trainer(tmp_path: Path) -> None:
    write_with_buffer(tmp_path / "run")
    report = api.analyze(tmp_path / "run")
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert account.roles == {"rollout": [1, 2], "trainer": [3]}
    seconds = dict(zip(account.keys, account.seconds.sum(axis=1).tolist(), strict=True))
    # In the last step, nothing comes after what they wait for.
    waited_s = sum(SLOW_TRAIN_S - each for each in GENERATE_S) * (STEPS - 1)
    assert seconds["backpressure"] == pytest.approx(waited_s, rel=0.05)
    assert seconds["training"] == pytest.approx(STEPS * SLOW_TRAIN_S, rel=0.05)
    generated_s = STEPS * sum(GENERATE_S) + SLOW_TRAIN_S - GENERATE_S[1]  # the last wait is never over, and none
    assert seconds["generation"] + seconds["under-batched"] == pytest.approx(generated_s, rel=0.05)
    (change,) = [each for each in account.what_if if each.change == "more-trainers"]
    assert change.trusted
    # A rollout is the slower one then; the last of them ends its record as late as it did.
    faster_s = (max(SLOW_TRAIN_S / 2, *GENERATE_S) * (STEPS - 1) + SLOW_TRAIN_S) / STEPS
    assert change.step_s == pytest.approx(faster_s, rel=0.05)


def write_with_thread(folder: Path) -> None:
    """A trainer whose calls only hand batches to a thread of its own, and a driver that marks iterations, of two
    batches each."""
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0, "seconds": STEPS * 2 * LONG_S})
    driver, trainer, rollout = Process(run, "driver", 0), Process(run, "Trainer", 1), Process(run, "Rollout", 2)
    trainer.record.thread(1, 2)
    lane = trainer.record.lane(thread=1)
    for batch in range(2 * STEPS):
        now, call = batch * LONG_S, 1 + 2 * batch
        driver.call("submit", call, now, now)
        rollout.serve(call, now, now + LONG_S, "rollout", 100)
        driver.call("result", call, now, now + LONG_S)
        if batch % 2:
            begin = START_NS + round((now - LONG_S) * NS)
            attributes = {"source": "trainer"}
            driver.record.span(
                SPAN_TYPE["step"],
                "step",
                begin,
                round(2 * LONG_S * NS),
                lane=driver.record.lane(thread=0),
                step=1 + batch // 2,
                attributes=attributes,
            )
        if batch < 2 * STEPS - 1:
            driver.call("submit", call + 1, now + LONG_S, now + LONG_S)
            trainer.do(call + 1, now + LONG_S, now + LONG_S + EPS_S)
            begin, length = START_NS + round((now + LONG_S) * NS), round(TRAIN_S * NS)
            trainer.record.span(SPAN_TYPE["phase"], "update", begin, length, lane=lane, attributes={"tokens": 100})
            asks_s = now + LONG_S + TRAIN_S / 4  # what the main thread does meanwhile takes no time of the process
            trainer.call("get", 1000 + call, asks_s, asks_s + TRAIN_S / 2)
            trainer.since_s = asks_s + TRAIN_S / 2
    end_s = 2 * STEPS * LONG_S
    driver.call("submit", 900, end_s, end_s)
    trainer.call("take", 900, trainer.since_s, end_s)
    for process in (driver, trainer, rollout):
        process.end(end_s)


def test_a_thread_that_trains_while_the_main_one_waits_for_calls_is_at_work(tmp_path: Path) -> None:
    write_with_thread(tmp_path / "run")
    account = api.analyze(tmp_path / "run").analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    assert account.first_step == 1 and account.step_s.tolist() == pytest.approx([2 * LONG_S] * STEPS)
    seconds = {key: float(row.sum()) for key, row in zip(account.keys, account.seconds, strict=True)}
    trained_s = (2 * STEPS - 1) * TRAIN_S
    assert seconds["training"] == pytest.approx(trained_s, rel=0.01)
    # It idles for the rest, until there is another batch; the first one is waited for from the beginning.
    assert seconds["starvation"] == pytest.approx(2 * STEPS * LONG_S - trained_s, rel=0.02)
    assert sum(account.shares.values()) == pytest.approx(1.0, abs=1e-6)


TOKEN_S = 0.001
LENGTHS = (60, 80, 50, 70, 90, 40, 60, 50, 70, 80, 60, 50, 300)


def write_one_by_one(folder: Path, lengths: Sequence[int], times: Sequence[float] = (1.0, 1.0)) -> None:
    """A driver that hands out trajectories one by one, to whichever rollout is free; these take so many times as long
    for a token as is usual."""
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0})
    driver, trainer = Process(run, "driver", 0), Process(run, "Trainer", 1)
    rollouts = [Process(run, "Rollout", number) for number in (2, 3)]
    now, call = 0.0, 0
    for _ in range(STEPS):
        waiting, running = list(lengths), []
        free = [0, 1]
        while waiting or running:
            while waiting and free:
                number, tokens = free.pop(0), waiting.pop(0)
                call += 1
                driver.call("submit", call, now, now)
                end = now + tokens * TOKEN_S * times[number]
                rollouts[number].serve(call, now, end, "rollout", tokens)
                heapq.heappush(running, (end, number, call))
            until, number, done = heapq.heappop(running)
            driver.call("result", done, now, until)
            now = until
            free.append(number)
        call += 1
        driver.call("submit", call, now, now)
        trainer.serve(call, now, now + TRAIN_S, "update_actor", 400)
        driver.call("result", call, now, now + TRAIN_S)
        now += TRAIN_S
    for number, rollout in enumerate(rollouts):
        driver.call("submit", 900 + number, now, now)
        rollout.call("take", 900 + number, rollout.since_s, now)
    for process in (driver, trainer, *rollouts):
        process.end(now)


def account_of(folder: Path, lengths: Sequence[int], times: Sequence[float] = (1.0, 1.0)) -> RLAccount:
    write_one_by_one(folder, lengths, times)
    account = api.analyze(folder).analysis.sections["rl"]
    assert isinstance(account, RLAccount)
    return account


def test_other_orders_of_trajectories_that_are_handed_out_one_by_one(tmp_path: Path) -> None:
    recorded = account_of(tmp_path / "run", LENGTHS)
    mended = account_of(tmp_path / "mended", sorted(LENGTHS, reverse=True))
    predicted = {change.change: change for change in recorded.what_if if change.trusted}
    assert mended.step_s.mean() < 0.85 * recorded.step_s.mean()
    assert predicted["balance"].step_s == pytest.approx(mended.step_s.mean(), rel=0.02)
    cap = int(predicted["cap"].text.split()[2])
    capped = account_of(tmp_path / "capped", [min(length, cap) for length in LENGTHS])
    assert predicted["cap"].step_s == pytest.approx(capped.step_s.mean(), rel=0.02)


def test_a_slow_rollout_of_those_that_fetch_the_next_when_they_are_free(tmp_path: Path) -> None:
    slow = account_of(tmp_path / "run", LENGTHS[:-1] * 3, (1.0, 2.0))
    mended = account_of(tmp_path / "mended", LENGTHS[:-1] * 3)
    assert [(each.rank, each.phase) for each in slow.slow] == [(1, "generation")]
    assert slow.slow[0].times == pytest.approx(2.0, rel=0.01) and slow.floor_s == pytest.approx(TOKEN_S, rel=0.01)
    predicted = {change.change: change for change in slow.what_if if change.trusted}
    assert mended.step_s.mean() < 0.85 * slow.step_s.mean()
    assert predicted["no-slow-process"].step_s == pytest.approx(mended.step_s.mean(), rel=0.03)
