"""What is told of a loop of reinforcement learning: the section ``rl`` of a report."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalana.detectors.rl.decode import Decoding
from scalana.detectors.rl.loop import Loop
from scalana.detectors.thresholds.differences import TRUSTED_REPLAY
from scalana.graphs.arrays.types import FloatArray, IntArray

NOBODY, SEVERAL = -1, -2
"""In place of a process."""
TOKEN = "token"
"""What trajectories are made of, if they say nothing else."""
MILLISECOND = "ms"
"""What lengths are counted in where nothing is known but how long calls took."""


@dataclass(slots=True)
class Prediction:
    """What a step would take with a change."""

    change: str
    """``balance``, ``expected-first``, ``spread-groups``, ``cap``, ``partial``, ``more-rollouts``, ``more-trainers``,
    ``faster-verifier``, ``overlapped-verifier``, ``sharded-sync``, ``balanced-rows`` or ``no-slow-process``;
    reports add ``one-step-off`` and ``trajectory-async``."""
    text: str
    """What is changed, in words."""
    step_s: float
    """Seconds of an average step, from a replay of the recorded ones."""
    error: float
    """How far off the model behind it is on the steps that were recorded, relative to a step, on average; and the
    replay of the run as it was, relative to the run."""

    @property
    def trusted(self) -> bool:
        """Whether advice may use it."""
        return self.error <= TRUSTED_REPLAY


@dataclass(slots=True)
class Slow:
    """A process that takes longer than others for the same work, whether they wait for it or not."""

    rank: int
    phase: str
    times: float
    """As long as usual."""


@dataclass(slots=True)
class Bar:
    """A stretch of time in the picture of a step."""

    rank: int
    begin_s: float
    """Since the step began."""
    end_s: float
    doing: str
    """What was done, or for waiting its cause."""
    waits: bool
    """Whether it is waiting."""


@dataclass(slots=True)
class TrajectoryBar:
    """A trajectory in the picture of a step."""

    rank: int
    name: str
    begin_s: float
    end_s: float
    tokens: float
    """NaN where it is not known."""


@dataclass(slots=True)
class StepPicture:
    """One step, for a picture of it."""

    step: int
    length_s: float
    bars: list[Bar] = field(default_factory=list)
    trajectories: list[TrajectoryBar] = field(default_factory=list)
    unit: str = TOKEN
    """What their lengths are counted in."""


@dataclass(slots=True)
class RLAccount:
    """Where the process time of a loop goes, and what would change it."""

    framework: str
    """Trainer that set the marks; empty for the program itself."""
    roles: dict[str, list[int]]
    """Processes by what they are."""
    step_s: FloatArray
    """Length of every step ``[steps]``."""
    keys: tuple[str, ...]
    """Of the causes ``[causes]``."""
    texts: tuple[str, ...]
    """Of the causes, in words ``[causes]``."""
    seconds: FloatArray
    """Process time by cause; over the causes it adds up to all of it ``[causes, steps]``."""
    total_s: float
    """Process time of all steps."""
    worst: IntArray
    """Process that makes most of the waiting, or ``NOBODY`` or ``SEVERAL``, by cause ``[causes]``."""
    floor_s: float
    """Seconds of a token in generation, whatever the batch; NaN where tokens are not known."""
    sequence_s: float
    """What each active trajectory adds to it, likewise."""
    tail: float
    """lambda: how long the longest trajectory of a step takes by itself, over how long generation takes, likewise."""
    slow: list[Slow] = field(default_factory=list)
    """By process."""
    what_if: list[Prediction] = field(default_factory=list)
    picture: StepPicture | None = None
    """The step in which most was waited."""
    first_step: int = 0
    """Number of the first step."""
    unit: str = TOKEN
    """What trajectories are made of, and their lengths are counted in."""
    loop: Loop | None = None
    """As it was recorded: what a workload is made of. No report shows it."""
    decoding: Decoding | None = None
    """The model of generation; None where it was not fitted."""

    @property
    def shares(self) -> dict[str, float]:
        """By cause; they add up to 1."""
        return {
            key: float(row.sum()) / max(self.total_s, 1e-300) for key, row in zip(self.keys, self.seconds, strict=True)
        }
