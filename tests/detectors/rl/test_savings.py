"""What savings promise, and what comes out without the cause: an agent awaits results one by one. Exact times."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from pathlib import Path

import pytest

from scalana import api
from scalana.detectors.rl.account import RLAccount
from scalana.detectors.rl.loop_predictions import Replayer
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.runtime.record.format import SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from tests.tools import call_run
from tests.tools.call_run import NS, START_NS

STEPS = 6
TOKEN_S, SHORT, LONG = 0.01, (10, 12), 60
REWARD_S, SLOW_S = 0.02, 0.4
TRAIN_S, WEIGHTS_S = 0.2, 0.01


@dataclass
class Planted:
    """In which steps there is what."""

    long: tuple[int, ...] = ()
    """The second server has a long answer."""
    slow: tuple[int, ...] = ()
    """Rewards take long."""


class Process(call_run.Process):
    """One that is called, and says what it does."""

    def span(self, kind: str, name: str, begin_s: float, end_s: float, **attributes: object) -> None:
        lane = self.record.lane(thread=0)
        begin, length = START_NS + round(begin_s * NS), round((end_s - begin_s) * NS)
        self.record.span(SPAN_TYPE[kind], name, begin, length, lane=lane, attributes=attributes)

    def begin(self, call: int, at_s: float) -> None:
        self.call("take", call, self.since_s, at_s)

    def reply(self, call: int, at_s: float) -> None:
        self.call("reply", call, at_s, at_s)
        self.since_s = at_s


def write(folder: Path, planted: Planted) -> float:
    """Write a run; returns its length in seconds."""
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0})
    driver, trainer, agent, first, second, verifier = (
        Process(run, name, number)
        for number, name in enumerate(("driver", "Trainer", "Agent", "Server", "Server", "Verifier"))
    )
    helper = Process(run, "Helper", 6)  # which does something once, and is there until the end
    driver.call("submit", 1, 0.0, 0.0)
    helper.begin(1, 0.0)
    helper.reply(1, 0.01)
    now, call = 0.0, 0
    for step in range(STEPS):
        call += 10
        driver.call("submit", call, now, now)
        agent.begin(call, now)
        lengths = (SHORT[0], LONG if step in planted.long else SHORT[1])
        for number in (1, 2):
            agent.call("submit", call + number, now, now)
        score_s = SLOW_S if step in planted.slow else REWARD_S
        answers, came_s = [], now
        for number, (server, tokens) in enumerate(zip((first, second), lengths, strict=True), 1):
            end_s = now + tokens * TOKEN_S
            server.begin(call + number, now)
            server.span("phase", "rollout", now, end_s)
            server.span("trajectory", "trajectory", now, end_s, tokens=tokens, id=call + number)
            server.reply(call + number, end_s)
            answers.append((end_s, call + number))
        while answers:  # the agent gets what comes first: an answer, which is to be scored, or a score
            end_s, one = heapq.heappop(answers)
            agent.call("result", one, came_s, end_s)
            came_s = end_s
            if one > call + 2:
                continue
            agent.call("submit", one + 2, end_s, end_s)
            free_s = max(end_s, verifier.since_s)
            verifier.begin(one + 2, free_s)
            verifier.span("phase", "compute_score", free_s, free_s + score_s)
            verifier.reply(one + 2, free_s + score_s)
            heapq.heappush(answers, (free_s + score_s, one + 2))
        agent.span("phase", "generate_sequences", now, came_s)
        agent.reply(call, came_s)
        driver.call("result", call, now, came_s)
        trained_s = came_s + TRAIN_S
        driver.call("submit", call + 5, came_s, came_s)
        trainer.begin(call + 5, came_s)
        trainer.span("phase", "update_actor", came_s, trained_s - WEIGHTS_S, tokens=100)
        trainer.span("phase", "update_weights", trained_s - WEIGHTS_S, trained_s)
        trainer.span("step", "step", now, trained_s, source="trainer")
        trainer.reply(call + 5, trained_s)
        driver.call("result", call + 5, came_s, trained_s)
        now = trained_s
        helper.record.thread(1 + step, 2 + step)  # one for each step, which hands something over at its end
        helper.call("put", call + 6, now - WEIGHTS_S, now - WEIGHTS_S, thread=1 + step)
    for number, process in enumerate((trainer, agent, first, second, verifier), 1):
        driver.call("submit", 900 + number, now, now)
        process.call("take", 900 + number, process.since_s, now)
    for process in (driver, trainer, agent, first, second, verifier, helper):
        process.end(now)
    return now


CASES = {
    "rl-verifier": Planted(slow=(1, 3)),
    "rl-long-tail": Planted(long=(2, 4)),
}


@pytest.mark.parametrize("steps", [None, (1, STEPS - 1)])
@pytest.mark.parametrize("kind", CASES)
def test_savings_are_what_comes_out_without_the_cause(kind: str, steps: tuple[int, int] | None, tmp_path: Path) -> None:
    recorded_s, usual_s = write(tmp_path / "run", CASES[kind]), write(tmp_path / "usual", Planted())
    report = api.analyze(tmp_path / "run", steps=steps)
    finding = next(each for each in report.findings if each.kind == kind)
    account = report.analysis.sections["rl"]
    assert isinstance(account, RLAccount) and len(account.step_s) == STEPS - (steps is not None)
    assert finding.saving_s == pytest.approx(recorded_s - usual_s, rel=0.1)


def test_nothing_is_promised_where_a_replay_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run", CASES["rl-verifier"])
    monkeypatch.setattr(Replayer, "error", lambda self: 2 * TRUSTED_REPLAY)
    report = api.analyze(tmp_path / "run")
    finding = next(each for each in report.findings if each.kind == "rl-verifier")
    assert finding.saving_s == 0.0 and " -> " not in finding.advice
    assert "Saving not estimated: the replay differs from the run by 10 %." in report.to_text(width=300)
