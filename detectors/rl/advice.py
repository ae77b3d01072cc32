"""What to do about each cause, with what it would bring where that can be told."""

from __future__ import annotations

from scalana.detectors.finding import Finding
from scalana.detectors.rl.account import TOKEN, Prediction, RLAccount
from scalana.detectors.rl.causes import Cause


def advice_of(cause: Cause, finding: Finding, account: RLAccount, predicted: dict[str, Prediction]) -> str:
    """What to do, in sentences."""
    now_s = float(account.step_s.mean())

    def bring(change: str) -> str:
        prediction = predicted.get(change)
        if prediction is None or not prediction.trusted or prediction.step_s <= 0.0:
            return ""
        return f" ({now_s:.3g} -> {prediction.step_s:.3g} s a step)"

    if cause.key == "long-tail":
        cheaper = (
            "More tensor parallelism, or a faster engine, makes each of its tokens cheaper."
            if account.unit == TOKEN
            else f"What makes each {account.unit} cheaper helps as much."
        )
        return (
            f"The longest trajectory is the floor: no assignment ends before it. Cap the length{bring('cap')}, or end "
            f"the rollout when most are done and carry the rest into the next step{bring('partial')}. {cheaper}"
        )
    if cause.key == "assignment":
        deal = (
            f" Dealing the answers to one prompt over all processes helps too{bring('spread-groups')}."
            if "spread-groups" in predicted
            else ""
        )
        known = (
            f" Where lengths are guessed by other answers to the same prompt:{bring('expected-first')}."
            if bring("expected-first")
            else ""
        )
        return (
            "Give trajectories out by expected length, the longest first, or let processes fetch the next when they "
            f"are free{bring('balance')}.{known}{deal}"
        )
    if cause.key == "verifier":
        return (
            f"Score answers as they are finished, while others are still generated{bring('overlapped-verifier')}; use "
            "more workers, and a limit of time for each answer. A verifier twice as fast: "
            f"{_step(predicted, 'faster-verifier', now_s)}."
        )
    if cause.key == "weight-sync":
        return (
            "Send weights in few large pieces, from all processes that hold a part of them rather than from one"
            f"{bring('sharded-sync')}, and let generation begin with the first layers."
        )
    if cause.key == "data-transfer":
        return (
            "Let every process prepare its own part, ahead of the step that needs it, and send references or packed "
            "tensors rather than objects."
        )
    if cause.key == "evaluation":
        return (
            "Evaluate beside training rather than in between (RLlib: evaluation_parallel_to_training), less often, on "
            "fewer episodes, or with more processes."
        )
    if cause.key == "starvation":
        return (
            "Give more of the devices to generation, or shorten its longest answers: trajectories come more slowly "
            f"than they are trained on. Twice as many that generate: {_step(predicted, 'more-rollouts', now_s)}. Let "
            "training run more versions behind, where it may."
        )
    if cause.key == "training-imbalance":
        return (
            "Give every process as many tokens to train on: sort rows by length and deal them out, or pack "
            f"them{bring('balanced-rows')}."
        )
    if finding.evidence.at_line is not None and finding.evidence.at_line.own_line:
        return (
            "It is slower as it runs what the others hardly run: see what leads to this line, rather than at the "
            f"machine{bring('no-slow-process')}."
        )
    return (
        "Same lengths, same company, and slower: look at this process's device and host (clocks, temperature, other "
        f"jobs, a core of its own), or replace it{bring('no-slow-process')}."
    )


def _step(predicted: dict[str, Prediction], change: str, now_s: float) -> str:
    """The step with a change, where that can be relied on."""
    prediction = predicted.get(change)
    if prediction is None or not prediction.trusted:
        return "not predicted"
    return f"{now_s:.3g} -> {prediction.step_s:.3g} s a step"
