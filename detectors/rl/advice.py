"""What to do about each cause, with what it would bring where that can be told."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.finding import Finding
from scalana.detectors.rl.account import TOKEN, Prediction, RLAccount
from scalana.detectors.rl.cause_table import Cause

CHANGES = {
    "faster-verifier": "a verifier twice as fast",
    "balanced-rows": "equally many training tokens for every process",
    "no-slow-process": "slow processes as fast as the others",
    "balance": "longest trajectories first, lengths known",
    "spread-groups": "answers to one prompt spread over all processes",
    "cap": "at most {cap:.0f} tokens: loses {lost:.1%} of them",
    "partial": "rollout ends when {done:.0%} are done, the rest continues in the next step",
    "expected-first": "longest first, lengths estimated from other answers to the same prompt",
    "more-rollouts": "twice as many generating processes",
    "more-trainers": "twice as many training processes",
    "overlapped-verifier": "answers scored while others are generated",
    "sharded-sync": "weights sent in parts by all processes, not by one",
}
"""What is changed in a prediction, by its key."""

AT_OWN_LINE = "{name}, in {waited} of {steps} steps: this line, which the others hardly run"
TOO_FEW = "{ranks} processes, in {waited} of {steps} steps: generation does not keep up"
IN_ONE_STEP = "{name}, in one step of {steps}"
ONLY_STEP = "one step was recorded"
IN_TURNS = "a different process in each step, in {waited} of {steps} steps: the data, not a machine"
AGAIN = "{who}, in {waited} of {steps} steps: {reason}"
EACH_TIME, SOME_TIMES = "{name} each time", "{name} {most} times"
"""How often it is the same process, and what that speaks for."""
ITS_INPUT = "the input that it always gets: it is not slower at the same work"
"""Why it is the same process, where it is not slow."""
ITS_CALLS = "the calls that it always gets"

LONGEST = "{why}: trajectory {name} has {tokens} {unit}s, the median of its step {usual:.0f}"
LONG = {True: "It is slow and has long answers", False: "It is not slow, its answers are long"}
"""About a process with the longest trajectory, by whether it is slow."""

LONGEST_CALL = "Its longest call takes {took:.0f} ms, the median of its step {usual:.0f} ms"
"""The same where nobody says what is generated."""
ONE_AFTER_THE_OTHER = "{ranks} processes, in {waited} of {steps} steps"

NOT_SUMS = "sums of {unit}s: {name} has {here} in step {step}, {other} has {most}"
NOT_SPEED = "speed: {who} {factor:.2f} times as long for one {unit}"
NOT_LENGTHS = "lengths: it has {mean:.0f} {unit}s per step, the average generating process {usual:.0f}"
"""What one might suspect, and what speaks against it."""
TAKES = {True: "it takes", False: "they take"}
"""By whether it is one process."""


ADVICE = {
    "long-tail": "No assignment ends before the longest trajectory. Cap the length{cap}, or end the rollout when most "
    "are done and continue the rest in the next step{partial}. ",
    "assignment": "Assign trajectories by expected length, longest first, or let free processes fetch the next "
    "one{balance}.",
    "verifier": "Score answers as they finish, while others are still generated{overlapped-verifier}; use more "
    "workers, and a timeout per answer. A verifier twice as fast: {faster-verifier.step}.",
    "weight-sync": "Send weights in few large pieces, from all processes that hold a part instead of from "
    "one{sharded-sync}, and let generation begin with the first layers.",
    "data-transfer": "Let every process prepare its own part ahead of the step, and send references or packed tensors "
    "instead of objects.",
    "evaluation": "Evaluate in parallel to training (RLlib: evaluation_parallel_to_training), less often, on fewer "
    "episodes, or with more processes.",
    "starvation": "Give more devices to generation, or shorten its longest answers: training consumes trajectories "
    "faster than they arrive. Twice as many generating processes: {more-rollouts.step}. Let training run "
    "more versions behind where possible.",
    "training-imbalance": "Balance the training tokens per process: sort rows by length and distribute them, or pack "
    "them{balanced-rows}.",
}
"""What to do, by cause. A field is the effect of a change of :data:`CHANGES`."""
CHEAPER = {
    True: "More tensor parallelism or a faster engine makes each token cheaper.",
    False: "A cheaper {unit} helps as much.",
}
"""The same of long tails, by whether lengths are those of tokens."""
ESTIMATED = " With lengths estimated from other answers to the same prompt:{expected-first}."
SPREAD = " Spreading the answers to one prompt over all processes also helps{spread-groups}."
"""The same of assignments."""
SLOW = {
    True: "It is slower because it runs code that others hardly run: check what leads to this line, not the "
    "machine{no-slow-process}.",
    False: "Slower than others with equal sequence lengths and batch: check the device and host of this process "
    "(clocks, temperature, other jobs, its own core), or replace it{no-slow-process}.",
}
"""What to do about slow processes, by whether one is slow at a line of its own."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change would bring, in words."""

    step: str
    """The step now and then."""
    is_known: bool

    def __str__(self) -> str:
        return f" ({self.step})" if self.is_known else ""


def advice_of(cause: Cause, finding: Finding, account: RLAccount, predicted: dict[str, Prediction]) -> str:
    """What to do, in sentences."""
    now_s = float(account.step_s.mean())
    effects = {change: _effect(predicted.get(change), now_s) for change in CHANGES}
    at_line = finding.evidence.at_line
    text = ADVICE.get(cause.key, SLOW[at_line is not None and at_line.own_line])
    if cause.key == "long-tail":
        text += CHEAPER[account.unit == TOKEN]
    if cause.key == "assignment":
        text += ESTIMATED * effects["expected-first"].is_known + SPREAD * ("spread-groups" in predicted)
    return text.format_map({**effects, "unit": account.unit})


def _effect(prediction: Prediction | None, now_s: float) -> Effect:
    if prediction is None or not prediction.trusted:
        return Effect("not predicted", is_known=False)
    return Effect(f"{now_s:.3g} -> {prediction.step_s:.3g} s per step", is_known=prediction.step_s > 0.0)
