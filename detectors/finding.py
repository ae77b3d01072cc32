"""What a detector returns: findings, the path from symptom to cause, and where the rank-seconds went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalana.detectors.delays.blame import BlameTable
    from scalana.detectors.delays.wait_states import WaitStates
    from scalana.detectors.rollup.candidates import Spot
    from scalana.graphs.ppg import PPG
    from scalana.graphs.structure.psg import PSG


@dataclass(slots=True)
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


@dataclass(slots=True)
class Finding:
    """One root cause."""

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
    evidence: dict[str, object] = field(default_factory=dict)
    advice: str = ""


def finding_at(spot: Spot, ranks: list[int], lost_s: float, psg: PSG, kind: str = "") -> Finding:
    """A finding that says where, who and how much, and nothing else yet."""
    vertex = spot.vertex if 0 <= spot.vertex < len(psg) else -1
    here = psg[max(vertex, 0)]
    line, end_line = spot.lines(here.place)
    function = psg.function_of(vertex) if vertex >= 0 else ""
    file = here.place.file
    return Finding(kind, vertex, file, line, end_line, function, here.kind.value, ranks, lost_s, 0.0, 0.0)


@dataclass(slots=True)
class TimeSplit:
    """Rank-seconds of the run; the parts add up to ranks times the job's seconds."""

    work_s: float = 0.0
    """On a CPU outside communication."""
    stall_s: float = 0.0
    """Outside communication, not on a CPU: sleeping, I/O, waiting for a core or for another thread."""
    wait_s: float = 0.0
    """Inside communication, for a rank that was not there yet."""
    transfer_s: float = 0.0
    """Inside communication, the rest."""
    other_s: float = 0.0
    """Not recorded: before a rank's record begins and after it ends, launcher included."""

    @property
    def total_s(self) -> float:
        """All of it."""
        return self.work_s + self.stall_s + self.wait_s + self.transfer_s + self.other_s


@dataclass(slots=True)
class Analysis:
    """Everything that a report needs."""

    ppg: PPG
    findings: list[Finding]
    time: TimeSplit
    waits: WaitStates
    blame: BlameTable
    warnings: list[str] = field(default_factory=list)
