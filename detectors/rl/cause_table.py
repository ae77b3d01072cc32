"""Causes of process time in a loop: one row a cause, with what reports call it."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.rl.phases import Doing


@dataclass(frozen=True, slots=True)
class Cause:
    """A part of the whole."""

    key: str
    """In ``rl.shares`` of the JSON report."""
    text: str
    """In the text report."""
    kind: str = ""
    """Kind of finding about waiting of this cause, if there is one."""
    doing: Doing = Doing.OTHER
    """What the process did whose waiting this is."""
    always: str = "its machine, or the input that it always gets"
    """What it speaks for that it is one and the same process."""
    change: str = ""
    """The prediction that tells what mending it brings, where its work has to be done by others."""
    own: bool = False
    """Whether all of what is done is lost, not only the waiting of others for it."""


_ITS_PART = "its part in the program"
CAUSES = (
    Cause("generation", "generation", doing=Doing.GENERATION),
    Cause("under-batched", "generation, under-batched", doing=Doing.GENERATION),
    Cause("long-tail", "waiting: long tail", "rl-long-tail", Doing.GENERATION),
    Cause("assignment", "waiting: assignment of trajectories", "rl-assignment", Doing.GENERATION, change="balance"),
    Cause("verifier", "verifier, and waiting for it", "rl-verifier", Doing.VERIFIER, "its verifier, or what it scores"),
    Cause("weight-sync", "weight sync, and waiting for it", "rl-weight-sync", Doing.WEIGHT_SYNC, _ITS_PART),
    Cause("data-transfer", "data and driver, and waiting for them", "rl-data-transfer", Doing.DATA, _ITS_PART),
    Cause("evaluation", "evaluation, and waiting for it", "rl-evaluation", Doing.EVALUATION, _ITS_PART),
    Cause("log-prob", "log-probabilities, and waiting for them", doing=Doing.LOG_PROB),
    Cause("training", "training", doing=Doing.TRAINING),
    Cause(
        "training-imbalance",
        "waiting: lengths in training",
        "rl-training-imbalance",
        Doing.TRAINING,
        "the rows that it always gets",
        change="balanced-rows",
    ),
    Cause("pipeline", "waiting between pipeline stages", doing=Doing.TRAINING),
    Cause("backpressure", "waiting for training", doing=Doing.TRAINING),
    Cause(
        "starvation",
        "waiting for trajectories",
        "rl-starvation",
        Doing.STARVATION,
        "too few processes generate for it",
        change="more-rollouts",
        own=True,
    ),
    Cause(
        "slow-hardware",
        "waiting: slow process",
        "rl-slow-hardware",
        Doing.GENERATION,
        "its machine",
        change="no-slow-process",
    ),
    Cause("other", "other, and waiting for it"),
)
"""All causes, as they are shown."""
