"""What a run's seconds are due to: every rank-second of work, of transfer, and of waiting by what caused it.

For one run that is a table with a row for every (vertex, line); several runs of one program become one table, by the
structure of the program. This is what runs of different sizes, or of changed code, are compared by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.targets import Numbering, TargetKind
from scalana.detectors.efficiency.run_efficiency import EFFICIENCY, RunEfficiency
from scalana.detectors.noise.contention import calls_without_core_s, turns_s
from scalana.detectors.noise.verdict import error_of_sums
from scalana.detectors.runs.advice import EXITED
from scalana.detectors.thresholds.differences import UNEXPLAINED_NOISE
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.metrics import burst_locations
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.graphs.structure.align import align
from scalana.graphs.structure.psg import PSG, Vertex, VertexKind
from scalana.graphs.timeline import Activities, Timeline

PARTIAL = ("record of rank", "damaged", "exit code")
"""What tells the warnings of a run of which something is missing from others."""
SETUP_OPERATIONS = ("init_process_group", "new_group", "store", "init", "finalize", "comm_create")
"""Operations that start and end a job, and are not part of its work."""
TEARDOWN = ("destroy_process_group(", "MPI_Finalize(")
"""The same of calls that are not communication."""


@dataclass(slots=True)
class RunCosts:
    """One run. All columns have one entry per target (see :class:`~scalana.detectors.delays.targets.Numbering`), waits
    left out; seconds are summed over ranks."""

    name: str
    ranks: int
    seconds: float
    """Wall-clock seconds of the job."""
    psg: PSG
    time: TimeSplit
    kind: IntArray
    """See :class:`~scalana.detectors.delays.targets.TargetKind` ``[targets]``."""
    vertex: IntArray
    """-1 where there is none ``[targets]``."""
    line: IntArray
    """-1 for a whole vertex ``[targets]``."""
    work_s: FloatArray
    """Own work, time without a core left out ``[targets]``."""
    caused_s: FloatArray
    """Waiting of other ranks that comes from here ``[targets]``."""
    transfer_s: FloatArray
    """Time in communication calls that is no waiting ``[targets]``."""
    core_wait_s: FloatArray
    """Time without a core, and waiting for those that are late for want of one ``[targets]``."""
    error_s: FloatArray
    """Standard error of the cost: of ``work_s`` or ``transfer_s`` from the repetitions within the run, 0 where there
    are too few, and of ``caused_s`` where ranks took turns on cores ``[targets]``."""
    setup: npt.NDArray[np.bool_]
    """Whether it belongs to the start of the job: imports, and setting up communication ``[targets]``."""
    cwd: str = ""
    """Working directory of the job."""
    oversubscribed: bool = False
    """Whether a host had more ranks than cores: communication then takes as long as it takes to get a core."""
    warnings: list[str] = field(default_factory=list)
    """What a reader should know of the run."""
    names: ProcessNames = field(default_factory=ProcessNames)
    efficiency: RunEfficiency | None = None
    """None where nothing was recorded outside communication."""

    @property
    def lacks(self) -> list[str]:
        """What is missing from the run, so that its seconds say less, in sentences."""
        return [f"{self.name}: {text}" for text in self.warnings if any(word in text for word in PARTIAL)]

    @property
    def mean_s(self) -> float:
        """What was recorded of an average rank, in seconds."""
        return float(self.cost_s.sum() + self.core_wait_s.sum()) / max(self.ranks, 1)

    @property
    def cost_s(self) -> FloatArray:
        """Rank-seconds that each target costs: its work, its transfer, and the waiting that it causes ``[targets]``."""
        return np.asarray(self.work_s + self.caused_s + self.transfer_s)


def run_costs(analysis: Analysis, name: str) -> RunCosts:
    """Add up what an analysed run's seconds are due to. O(calls + rows of own work)."""
    timeline, psg, table = analysis.ppg.timeline, analysis.ppg.psg, analysis.blame
    numbering = table.numbering
    size, activities = numbering.wait, numbering.activities
    kind, vertex, line = _targets(numbering, timeline.activities, len(psg))
    work, transfer, core_wait, error = (np.zeros(size) for _ in range(4))
    own = timeline.own
    main = timeline.locations.is_main[burst_locations(timeline)[own.burst]]
    on_main = own.activity[main]
    core_wait[:activities] = weighted_count(on_main, own.core_wait_s[main], activities)
    seconds = (own.seconds - own.core_wait_s)[main]
    work[:activities] = weighted_count(on_main, seconds, activities)
    error[:activities] = _work_error(timeline, activities)
    calls = timeline.calls
    main = timeline.locations.is_main[calls.location]
    is_setup = setup_vertices(psg, analysis.ppg.run.cwd)
    inside = np.maximum(timeline.call_s() - analysis.waits.all_s(timeline), 0.0)
    starved = np.where(is_setup[calls.vertex], 0.0, calls_without_core_s(inside, timeline))
    of_call = slice(activities, numbering.unresolved)

    def by_vertex(seconds: FloatArray) -> FloatArray:
        return weighted_count(calls.vertex[main], seconds[main], numbering.vertices)

    transfer[of_call], core_wait[of_call] = by_vertex(inside - starved), by_vertex(starved)
    error[of_call] = error_of_sums(
        calls.vertex[main], calls.location[main], (inside - starved)[main], numbering.vertices
    )
    resting = table.target < size
    caused = weighted_count(table.target[resting], table.seconds[resting], size)
    turns = turns_s(analysis.blamed)
    # Who waits for what a call brings waits for a core as much as the call does.
    turns[of_call] = caused[of_call] * core_wait[of_call] / np.maximum(by_vertex(inside), 1e-300)
    caused -= turns
    core_wait += turns
    turns[of_call] += by_vertex(starved)
    error = np.hypot(error, UNEXPLAINED_NOISE * turns)
    setup = np.where(vertex >= 0, is_setup[np.maximum(vertex, 0)], kind == TargetKind.CARRIED_IN)
    _add_work_before_setup(setup, psg, is_setup, np.where(kind == TargetKind.OWN, vertex, -1), line)
    run = analysis.ppg.run
    # Ranks without a record are taken for average ones.
    recorded = len(np.unique(timeline.locations.rank[timeline.locations.is_main]))
    whole = run.ranks / recorded if recorded else 1.0
    warnings = [*run.warnings, *analysis.warnings]
    if run.exit_code:
        warnings.append(EXITED.format(code=run.exit_code))
    return RunCosts(
        name, run.ranks, run.seconds, psg, analysis.time, kind, vertex, line, whole * work, whole * caused,
        whole * transfer, whole * core_wait, whole * error, np.asarray(setup, dtype=bool), run.cwd,
        bool(run.cores.sharing()), warnings, run.names, analysis.section(EFFICIENCY),
    )  # fmt: skip


def _targets(numbering: Numbering, activities: Activities, vertices: int) -> tuple[IntArray, IntArray, IntArray]:
    """Kind, vertex and line of every target that is no wait, -1 where it has none ``[targets]``."""
    kind = np.full(numbering.wait, int(TargetKind.CARRIED_IN), dtype=np.int64)
    kind[: numbering.activities] = TargetKind.OWN
    kind[numbering.activities : numbering.unresolved] = TargetKind.TRANSFER
    kind[numbering.unresolved : numbering.carried_in] = TargetKind.UNRESOLVED
    each = np.arange(numbering.vertices)
    vertex = np.concatenate([activities.vertex, each, each, [-1]]).astype(np.int64)
    vertex[vertex >= vertices] = -1
    line = np.full(numbering.wait, -1, dtype=np.int64)
    line[: numbering.activities] = activities.line
    return kind, vertex, line


def _add_work_before_setup(
    setup: npt.NDArray[np.bool_], psg: PSG, is_setup: npt.NDArray[np.bool_], vertex: IntArray, line: IntArray
) -> None:
    """What a rank does in front of the call that sets up communication counts as work on that call's line. ``vertex``
    is -1 for what is no own work ``[targets]``."""
    places = [psg[v].place for v in np.flatnonzero(is_setup[: len(psg)]).tolist() if psg[v].kind is VertexKind.COMM]
    lines = {(place.file, place.line) for place in places if place.line > 0}
    for target in np.flatnonzero(vertex >= 0).tolist():
        setup[target] |= (psg[int(vertex[target])].place.file, int(line[target])) in lines


def setup_vertices(psg: PSG, cwd: str) -> npt.NDArray[np.bool_]:
    """Whether a vertex is, or lies in, what starts and ends a job ``[vertices]``: imports, calls that set up
    communication or end it, and what the interpreter does outside the program."""
    from scalana.runtime.operations import BY_NAME

    codes = {BY_NAME[name].code for name in SETUP_OPERATIONS}
    root = next((v.index for v in psg.vertices if v.parent < 0), 0)
    below = cwd.rstrip("/") + "/" if cwd else ""
    result = np.zeros(len(psg), dtype=bool)
    for vertex in psg.walk(root):
        place = vertex.place
        imports = vertex.kind is VertexKind.CALL and place.name == "import"
        sets_up = vertex.kind is VertexKind.COMM and vertex.operation in codes
        ends = vertex.kind is VertexKind.COMP and any(name in place.name for name in TEARDOWN)
        # Samples showed it, no source calls it, and it is not the user's: the interpreter, or a thread of a library.
        outside = vertex.parent == root and vertex.index in psg.added and bool(below) and not _of_user(vertex, below)
        inside = vertex.parent >= 0 and bool(result[vertex.parent])
        result[vertex.index] = imports or sets_up or ends or outside or inside
    return result


def _of_user(vertex: Vertex, below: str) -> bool:
    """Whether what stands below the root, without a caller, is the user's own: from the job's folder, a function with a
    source, or the start of a thread or process of such a function."""
    file, name = vertex.place.file, vertex.place.name
    if file.startswith(below):
        return True
    starts = vertex.kind is VertexKind.FUNCTION or name.startswith(("thread ", "process "))
    return starts and file.startswith("/")


def _work_error(timeline: Timeline, activities: int) -> FloatArray:
    """Standard error of the seconds of every activity on main threads ``[activities]``."""
    own, locations = timeline.own, timeline.locations
    location = burst_locations(timeline)[own.burst]
    rows = np.flatnonzero(locations.is_main[location])
    rows = rows[np.lexsort((own.burst[rows], own.activity[rows], location[rows]))]
    seconds = (own.seconds - own.core_wait_s)[rows]
    return error_of_sums(own.activity[rows], location[rows], seconds, activities)


@dataclass(slots=True)
class CostTable:
    """Several runs, their targets matched. All arrays of seconds are rank-seconds ``[rows, runs]``."""

    runs: list[RunCosts]
    reference: int
    """The run whose structure gives the places."""
    kind: IntArray
    vertex: IntArray
    """In the reference's graph; -1 for what is not in it ``[rows]``."""
    line: IntArray
    """In the reference's file, -1 for a whole vertex ``[rows]``."""
    origin: list[tuple[int, int]]
    """Of every row, a run that has it and its target there."""
    work_s: FloatArray
    caused_s: FloatArray
    transfer_s: FloatArray
    core_wait_s: FloatArray
    error_s: FloatArray
    setup: npt.NDArray[np.bool_]

    @property
    def ranks(self) -> FloatArray:
        """Ranks of every run ``[runs]``."""
        return np.array([run.ranks for run in self.runs], dtype=np.float64)

    @property
    def cost_s(self) -> FloatArray:
        """Work, transfer, and waiting by its cause ``[rows, runs]``."""
        return np.asarray(self.work_s + self.caused_s + self.transfer_s)


def cost_table(runs: Sequence[RunCosts], reference: int) -> CostTable:
    """Match the targets of all runs with those of ``runs[reference]``."""
    rows: dict[tuple[int, int, int, int], int] = {}
    origin: list[tuple[int, int]] = []
    row_of: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(runs)
    order = [reference, *(number for number in range(len(runs)) if number != reference)]
    for number in order:
        row_of[number] = _match_targets(runs, reference, number, rows, origin)

    def gather(name: str) -> FloatArray:
        return np.stack(
            [np.bincount(row_of[n], weights=getattr(run, name), minlength=len(rows)) for n, run in enumerate(runs)],
            axis=1,
        )

    keys = np.array(list(rows), dtype=np.int64).reshape(-1, 4)
    error = np.stack(
        [np.sqrt(np.bincount(row_of[n], weights=run.error_s**2, minlength=len(rows))) for n, run in enumerate(runs)],
        axis=1,
    )
    return CostTable(
        runs=list(runs),
        reference=reference,
        kind=keys[:, 0],
        vertex=np.where(keys[:, 3] < 0, keys[:, 1], -1),
        line=keys[:, 2],
        origin=origin,
        work_s=gather("work_s"),
        caused_s=gather("caused_s"),
        transfer_s=gather("transfer_s"),
        core_wait_s=gather("core_wait_s"),
        error_s=error,
        setup=np.array([bool(runs[n].setup[target]) for n, target in origin], dtype=bool),
    )


def _match_targets(
    runs: Sequence[RunCosts],
    reference: int,
    number: int,
    rows: dict[tuple[int, int, int, int], int],
    origin: list[tuple[int, int]],
) -> IntArray:
    """The row of every target of one run; adds rows for what is new. A row's key is (kind, vertex, line, run that
    alone has it or -1)."""
    run, base = runs[number], runs[reference]
    vertex_of = np.arange(len(run.psg)) if number == reference else align(base.psg, run.psg)
    known: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    for key in rows:
        known.setdefault((key[0], key[1]), key)
    result = np.zeros(len(run.kind), dtype=np.int64)
    used = run.cost_s + run.core_wait_s > 0.0
    for target in range(len(run.kind)):
        kind, vertex, line = int(run.kind[target]), int(run.vertex[target]), int(run.line[target])
        matched = int(vertex_of[vertex]) if vertex >= 0 else -1
        if vertex < 0 or matched >= 0:
            if line > 0 and matched >= 0:
                line = _moved(line, run.psg, vertex, base.psg, matched)
            key = (kind, matched, line, -1)
        else:
            key = (kind, vertex, line, number)
        if key not in rows and not used[target]:
            key = known.get((kind, key[1]), key)  # it costs nothing: any row of the vertex will do
        if key not in rows:
            rows[key] = len(rows)
            origin.append((number, target))
        result[target] = rows[key]
    return result


def _moved(line: int, psg: PSG, vertex: int, reference: PSG, matched: int) -> int:
    """Where a line inside a vertex stands in the reference: as far from the vertex' first line as here."""
    here, there = psg[vertex].place, reference[matched].place
    if here.file != there.file and not (here.line <= line <= max(here.end_line, here.line)):
        return line
    if not here.line <= line <= max(here.end_line, here.line):
        return line
    return max(there.line, min(there.line + line - here.line, max(there.end_line, there.line)))
