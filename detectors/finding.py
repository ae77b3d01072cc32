"""What a detector returns: findings, the path from symptom to cause, and where the rank-seconds went."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from scalana.detectors.evidence import Evidence

if TYPE_CHECKING:
    from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of the way from the symptom to the root cause; the first hop is where ranks are seen to wait."""

    rank: int
    """Rank that waits here; on the last hop the rank that works."""
    file: str
    line: int
    function: str
    vertex_kind: str
    operation: str
    """Name of the communication operation, empty on the last hop."""
    wait_s: float
    """Rank-seconds of the finding that passed through this hop, of all ranks that wait here; 0 on the last one."""
    ranks: int = 1
    """So many ranks wait here."""


@dataclass(frozen=True, slots=True)
class Series:
    """What a finding costs in every step that was looked at."""

    cost: str
    """What that is: ``work`` that others don't do, ``waiting`` for it, or ``idle`` time of a loop of reinforcement
    learning, in which growth may well be that of its answers."""
    number: IntArray
    """Of the steps, ascending ``[steps]``."""
    cost_s: FloatArray
    """``[steps]``"""
    stands_for: FloatArray
    """Steps of the run that each stands for ``[steps]``."""


@dataclass(frozen=True, slots=True)
class Where:
    """What a person would change, apart from file and line; None where a finding is not about that."""

    stage: int | None = None
    """Of a pipeline."""
    phase: str | None = None
    """Of a loop of reinforcement learning."""
    trajectories: list[str] | None = None
    """The longest ones."""
    module: str | None = None
    """Of a model, or layers of a pipeline's stage."""
    module_class: str | None = None
    direction: str | None = None
    """In which the module is gone through."""
    operator: str | None = None

    def as_dict(self) -> dict[str, object]:
        """What is known, by the keys of the JSON report."""
        known = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Finding:
    """One root cause. It does not change: ``dataclasses.replace`` makes another one."""

    kind: str
    """``late-ranks``, ``serial``, ``waiting-for-core``, ``carried-in``, ``unresolved``, ``hang`` ..."""
    vertex: int
    """Vertex of the structure graph, -1 where no place could be told."""
    file: str
    line: int
    end_line: int
    function: str
    vertex_kind: str
    ranks: list[int]
    lost_s: float
    """Rank-seconds of waiting that this causes."""
    lost_share: float
    """Of all waiting."""
    saving_s: float
    """Predicted reduction of the job's wall-clock seconds, if the excess vanished."""
    path: list[Hop] = field(default_factory=list)
    """Symptom first, root last."""
    evidence: Evidence = Evidence()
    advice: str = ""
    where: Where = Where()
    entries: IntArray | None = field(default=None, repr=False, compare=False)
    """Rows of the blame table that it is made of; None where it is not of waiting."""
    series: Series | None = field(default=None, repr=False, compare=False)
    """What it costs from step to step, where that is known and not of the blame table."""

    def advised(self, sentence: str) -> str:
        """Its advice with a sentence behind it."""
        return " ".join(filter(None, (self.advice, sentence)))
