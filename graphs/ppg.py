"""The Program Performance Graph: the structure of a program, once, and what every rank did in it.

:func:`build_ppg` goes from a run folder to a :class:`PPG` in steps that each have their module: choose the ranks'
records (:mod:`~scalana.graphs.readers.processes.rank_selection`), bring them onto one set of columns and one time axis
(:mod:`~scalana.graphs.readers.columns.gather`, :mod:`~scalana.graphs.readers.columns.clocks`), find the vertices of
call paths (:mod:`~scalana.graphs.attribution.callpaths`), make calls of events (:mod:`~scalana.graphs.calls.calls`),
match them (:mod:`~scalana.graphs.dependences.matching`), divide the time between them
(:mod:`~scalana.graphs.bursts.own_work`), and add up (:mod:`~scalana.graphs.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scalana.graphs.adjust.gil_contention import shorten_gil_contention
from scalana.graphs.adjust.polling import begin_with_polling, with_callees
from scalana.graphs.adjust.unknown_cpu import assume_running, assume_work, told, without_cpu
from scalana.graphs.arrays.columns import emptied, forget, narrowed, take, to_ns, to_seconds, widened
from scalana.graphs.arrays.shards import Shard, each, shards
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray
from scalana.graphs.attribution.callpaths import Placer
from scalana.graphs.attribution.places import Places
from scalana.graphs.attribution.placing import FrontEnds, MakePlacer, Placed, no_front_end, place_paths
from scalana.graphs.bursts.extents import Extents, add_extents, extents_of, helper_extents
from scalana.graphs.bursts.helper_waits import HeldUp, add_held_up
from scalana.graphs.bursts.helpers import Sampled
from scalana.graphs.bursts.imputation import common_profiles
from scalana.graphs.bursts.own_work import Catalogue, inferred_work, numbered, sampled_work
from scalana.graphs.bursts.work_rows import Rows
from scalana.graphs.calls.bursts import Bursts
from scalana.graphs.calls.located import Located, bursts_of, locate, outside_communication, samples_of
from scalana.graphs.calls.portions import begins_of, calls_of, locations_of, vertices_of
from scalana.graphs.calls.thinning import Sums, ThinnedCalls, add_unwritten, put_into_bursts, weights
from scalana.graphs.calls.totals import add_totals, by_rank, plain_totals, stood_for, total_vertices
from scalana.graphs.dependences import SIGNALLING, add_progress, add_signals
from scalana.graphs.dependences.matching import Matching, match
from scalana.graphs.dependences.remote import untaken
from scalana.graphs.dependences.servers import ServerWaits, server_waits, unanswered
from scalana.graphs.dependences.unmatched import OpenCall, open_calls
from scalana.graphs.metrics import add_timeline, add_to, no_metrics
from scalana.graphs.progress.attempt_times import Attempt, attempts_of_ranks
from scalana.graphs.progress.member_attempts import attempts_of_members
from scalana.graphs.readers.columns.gather import Communicator, Gathered, gather
from scalana.graphs.readers.folder.models import RecordedModels, read_models
from scalana.graphs.readers.folder.native_frames import Symbols, no_symbols, resolve_native
from scalana.graphs.readers.folder.reading import read_records
from scalana.graphs.readers.folder.records import Events, Samples, Threads
from scalana.graphs.readers.processes.chains import choose_of_chain
from scalana.graphs.readers.processes.rank_selection import RankRecords
from scalana.graphs.run_info import RunInfo, course_of_run, describe_run, rate_hz, with_ended, without_record
from scalana.graphs.samples.between import active_s
from scalana.graphs.samples.collected import collector_path, move_collected
from scalana.graphs.samples.computing_threads import ComputingThreads, computing_threads
from scalana.graphs.samples.in_calls import core_waits_in_calls, that_move_data
from scalana.graphs.samples.kernels import KernelTime, kernel_time
from scalana.graphs.samples.last_places import LastPlace, last_places
from scalana.graphs.samples.serialised import move_serialised
from scalana.graphs.samples.unseen import Unseen, notes_of, unseen_ways
from scalana.graphs.spans.host import HostActivity, host_activity
from scalana.graphs.spans.marks import marked_steps
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.spans.span_places import add_spans, place_spans
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Activities, Calls, Instances, Locations, OwnWork, Timeline, Unwritten
from scalana.runtime.record.format import SPAN_TYPE, SPAN_TYPES

if TYPE_CHECKING:
    import networkx
    import pandas

    from scalana.graphs.readers.folder.run_folder import RunFolder

_NS = 1e-9
_REGIONS = tuple(SPAN_TYPE[name] for name in ("region", "step", "phase"))


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of time that the user named, a step or a phase."""

    type: str
    name: str
    rank: int
    start_s: float
    end_s: float
    cpu_s: float
    """NaN where it is not known."""
    vertex: int


@dataclass(slots=True)
class PPG:
    """Structure, timeline and per-vertex numbers of one run."""

    psg: PSG
    timeline: Timeline
    metrics: dict[str, FloatArray]
    """Each ``[vertices, ranks]``, see :data:`~scalana.graphs.metrics.METRICS`. Exclusive: a vertex's own. The
    ``time_s`` of a rank add up to the time that was recorded of it."""
    run: RunInfo
    spans: Spans = field(default_factory=Spans)
    """Everything with a begin, an end and a name."""
    models: RecordedModels = field(default_factory=RecordedModels)
    """What is known of the models of PyTorch in it."""
    host: HostActivity = field(default_factory=HostActivity)
    """What threads did meanwhile, of a run with devices whose hosts no trace tells of."""
    compiled: KernelTime = field(default_factory=KernelTime)
    """When ranks ran the kernels of compiled code."""
    servers: ServerWaits = field(default_factory=ServerWaits)
    """When ranks waited for servers that left no record."""
    threads: ComputingThreads = field(default_factory=ComputingThreads)
    """What computes next to the locations of the timeline."""

    @property
    def regions(self) -> list[Region]:
        """The spans that are regions, steps or phases, one object each; of millions, take :attr:`spans`."""
        spans, table = self.spans, self.spans.table
        rows = np.flatnonzero(np.isin(table.type, _REGIONS))
        columns = (
            [SPAN_TYPES[kind] for kind in table.type[rows].tolist()],
            [spans.names[name] for name in table.name[rows].tolist()],
            spans.lanes.rank[table.lane[rows]].tolist(),
            spans.start_s(rows).tolist(),
            spans.end_s(rows).tolist(),
            spans.cpu_s(rows).tolist(),
            spans.vertex[rows].tolist(),
        )
        return [Region(*row) for row in zip(*columns, strict=True)]

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The structure for networkx, with every metric as a node attribute: a list with one number per rank."""
        graph = self.psg.to_networkx()
        for name, values in self.metrics.items():
            for vertex, row in enumerate(values.tolist()):
                graph.nodes[vertex][name] = row
        return graph

    def frame(self) -> pandas.DataFrame:
        """One row per (vertex, rank) at which anything was measured, with the vertex' place and all metrics."""
        import pandas

        seen = np.zeros((len(self.psg.vertices), self.timeline.ranks), np.bool_)
        for values in self.metrics.values():
            seen |= values != 0
        vertex, rank = np.nonzero(seen)
        places = [self.psg.vertices[v] for v in vertex.tolist()]
        columns: dict[str, Any] = {
            "vertex": vertex,
            "rank": rank,
            "kind": [v.kind.value for v in places],
            "function": [self.psg.function_of(v.index) for v in places],
            "name": [v.place.name for v in places],
            "file": [v.place.file for v in places],
            "line": [v.place.line for v in places],
            "end_line": [v.place.end_line for v in places],
        }
        columns.update({name: values[vertex, rank] for name, values in self.metrics.items()})
        return pandas.DataFrame(columns)

    def inclusive(self, metric: str) -> FloatArray:
        """A metric ``[vertices, ranks]`` with every vertex' descendants added to it."""
        values = self.metrics[metric].copy()
        # Vertices are appended below existing ones, so that a parent's index is smaller than its children's.
        for vertex in reversed(self.psg.vertices):
            if vertex.parent >= 0:
                values[vertex.parent] += values[vertex.index]
        return values


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the bursts of a run beside its samples."""

    thinned_calls: ThinnedCalls
    """In calls that were not written."""
    no_cpu: npt.NDArray[np.bool_]
    """Processes whose CPU time nobody read ``[processes]``."""


Reader = Callable[["RunFolder", Symbols, Callable[[str], None]], tuple[RankRecords, Gathered, list[Attempt]]]
"""Reads a run folder: which records stand for which rank, what they hold, and each attempt of the job. Native frames
are found by the symbols; the last argument is told what is being done."""


def read_here(
    folder: RunFolder, symbols: Symbols, done: Callable[[str], None]
) -> tuple[RankRecords, Gathered, list[Attempt]]:
    """Read all records in this process.

    Raises:
        RecordError: not one can be read, or there is no such launch.
    """
    done("reading records")
    chosen = choose_of_chain(resolve_native(read_records(folder), symbols), folder.chain, folder.launch)
    attempts = attempts_of_ranks(chosen.starts) or attempts_of_members(chosen.members(), chosen.again, chosen.names)
    done("gathering")
    return chosen, gather(chosen), attempts


@dataclass(slots=True)
class _Talk:
    """What the events of a run come to: calls at locations, and which calls of different ranks are one operation."""

    shards: list[Shard]
    located: list[Located]
    """The calls of every portion, let go once the time between them is divided."""
    locations: Locations
    calls: Calls
    instances: Instances
    spans: Spans
    servers: ServerWaits
    open: list[OpenCall]
    last_places: dict[int, LastPlace]
    """Where ranks were last; known only where some calls never ended."""
    unseen: list[Unseen]
    """Libraries that communicate without a recorder."""
    total_vertex: IntArray
    """Vertices of the sums per call path."""
    counted: IntArray
    """Rows of the sums that count."""
    untaken: int
    """Calls whose results came from processes without a record."""
    mixed: int
    """How often ranks called different operations at the same position."""


def build_ppg(
    folder: RunFolder,
    *,
    reader: Reader = read_here,
    front_end: FrontEnds = no_front_end,
    symbols: Symbols = no_symbols,
    progress: Callable[[str, int, int], None] | None = None,
    make_placer: MakePlacer = Placer,
) -> PPG:
    """Read a run folder and put everything together.

    ``reader`` reads the records, here or elsewhere. ``front_end`` reads the structure of the program from its source;
    without one there are functions and calls, but no loops. ``symbols`` finds the functions and lines of native code.
    ``progress`` is called with what is being done, how many steps are done, and how many there are. ``make_placer``
    gives what finds the vertices of call paths, for whoever keeps it from one time to the next.

    Raises:
        RecordError: the folder holds no record that can be read.
    """
    done = _Progress(progress)
    chosen, data, attempts = reader(folder, symbols, done)
    done("placing call paths")
    models = read_models(folder, {rank.rank: rank.record.file for rank in chosen.ranks})
    placed, no_cpu = _placed(data, front_end, models, make_placer)
    psg, places = placed.psg, placed.places
    period_ns = round(1e9 / rate_hz(folder, data))
    done("matching communication")
    talk = _talk(data, placed, frozenset(chosen.missing), period_ns)
    done("dividing own work")
    ranks = max(chosen.world_size, int(data.rank.max(initial=-1)) + 1)
    metrics = no_metrics(len(psg.vertices), ranks)
    moves = that_move_data(data.tree)

    def add_samples(shard: Shard) -> None:
        samples, threads = samples_of(data, shard), take(data.threads, shard.threads)
        _add_samples(metrics, samples, threads, places, period_ns)
        for at, waited_s in core_waits_in_calls(samples, threads, moves, talk.calls):
            rank = talk.locations.rank[talk.calls.location[at]]
            add_to(metrics["call_core_wait_s"], talk.calls.vertex[at], rank, waited_s)

    each(add_samples, talk.shards)
    host = HostActivity()
    if talk.spans.device_lanes().any() and not talk.spans.activity_lanes().any():
        host = host_activity(data.samples, data.threads, places, period_ns)
    compiled = kernel_time(models.kernels(), placed.kernel, data.samples, data.threads, places, period_ns)
    threads = computing_threads(data)
    known = Known(ThinnedCalls.of(data.unwritten), no_cpu)
    timeline, sums = _timeline(talk, data, placed, ranks, period_ns, known)
    done("adding up")
    talk.located.clear()
    _add_up(metrics, talk, timeline, data, places, sums)
    run = _run_info(folder, chosen, data, talk, timeline)
    run.course = course_of_run(folder, chosen, attempts, run.going_on)
    if run.course is None and chosen.again:
        run.warnings.append("no steps are marked: what starting again cost is not known (scalana.step() marks them)")
    run.warnings += told(no_cpu)
    run.calls_of_rank, run.comm_s_of_rank = by_rank(data, talk.counted, metrics)
    _warn(run, folder, chosen, data, talk)
    return PPG(psg, timeline, metrics, run, talk.spans, models, host, compiled, talk.servers, threads)


def _placed(
    data: Gathered, front_end: FrontEnds, models: RecordedModels, make_placer: MakePlacer
) -> tuple[Placed, BoolArray]:
    """Where call paths lie, and samples that others took the time of; and processes whose CPU time nobody read."""
    collector = collector_path(data)
    move_serialised(data)
    no_cpu = without_cpu(data)
    assume_running(data.samples)
    placed = place_paths(data, front_end, models, make_placer)
    move_collected(data, placed.places, placed.psg, collector)
    return placed, no_cpu


def _talk(data: Gathered, placed: Placed, missing: frozenset[int], period_ns: int) -> _Talk:
    """Make calls of events, and match them; the events are let go."""
    places, placer = placed.places, placed.placer
    data.unanswered = unanswered(data.events, data.open_events)
    servers = server_waits(data)
    shards_of_ranks = shards(data.is_own, data.rows, data.events.process[int(data.rows["events"].sum()) :])
    located = each(lambda shard: locate(data, shard), shards_of_ranks)
    forget(data.events, "identity", "nbytes", "cpu_enter_ns", "cpu_exit_ns", "done_ns", "done_cpu_ns")
    locations = locations_of(located, data)
    vertex = vertices_of(located, places, placer)
    matching, call_of_event = _matched(located, data, missing)
    stuck = open_calls(data, matching, places, placer)
    last = last_places(data, places) if stuck else {}
    unseen = unseen_ways(data)
    total_vertex = total_vertices(data, places, placer, located, vertex)
    counted = plain_totals(data, stood_for(data.events, located))
    spans = place_spans(data.spans, places, call_of_event)
    signalling = np.flatnonzero(np.isin(data.events.operation, SIGNALLING))
    signals, call_of_event = widened(take(data.events, signalling)), call_of_event[signalling].astype(np.int64)
    data.events = emptied(data.events)  # from here on the calls tell it all
    talk = _Talk(
        shards=shards_of_ranks,
        located=located,
        locations=locations,
        calls=calls_of(located, vertex, matching.of_event),
        instances=matching.instances,
        spans=spans,
        servers=servers,
        open=stuck,
        last_places=last,
        unseen=unseen,
        total_vertex=total_vertex,
        counted=counted,
        untaken=untaken(signals),
        mixed=matching.mixed,
    )
    del matching
    _depend(talk, signals, call_of_event, data, placed, period_ns)
    return talk


def _depend(
    talk: _Talk, signals: Events, call_of_event: IntArray, data: Gathered, placed: Placed, period_ns: int
) -> None:
    """Find which calls wait for which others, apart from all members of an operation for all, and when calls really
    began and ended that polling or the interpreter's lock hides."""
    rank, calls, places = talk.locations.rank, talk.calls, placed.places
    talk.instances = add_signals(calls, talk.instances, signals, call_of_event, rank, data.communicators)
    shorten_gil_contention(calls, talk.instances, data.samples, data.threads, places, period_ns)
    begin_with_polling(calls, talk.instances, talk.located, data, places, placed.psg, period_ns)
    talk.instances = add_progress(calls, talk.instances, rank, data.communicators)


def _timeline(
    talk: _Talk, data: Gathered, placed: Placed, ranks: int, period_ns: int, known: Known
) -> tuple[Timeline, Sums | None]:
    """What every rank did, as columns; and the sums of calls that were not written, None where all were."""
    psg, spans, calls, instances = placed.psg, talk.spans, talk.calls, talk.instances
    own, activities, unwritten_s = _own_work(talk.located, calls, data, placed.places, psg, period_ns, known)
    of_thread = np.append(data.threads.location, -1)
    spans.lanes.location = of_thread[np.maximum(spans.lanes.thread, -1)]
    steps, numbers = marked_steps(spans, data.threads)
    timeline = Timeline(ranks, talk.locations, calls, instances, own, activities, period_ns * _NS, steps, numbers)
    if not data.thinned[data.is_own].any() or not len(known.thinned_calls):
        return timeline, None
    sums = Sums.of(data, talk.counted, talk.total_vertex[talk.counted], len(psg.vertices), ranks)
    timeline.unwritten = Unwritten(unwritten_s, weights(talk.located, calls, instances, talk.locations.rank, sums))
    return timeline, sums


def _add_up(
    metrics: dict[str, FloatArray],
    talk: _Talk,
    timeline: Timeline,
    data: Gathered,
    places: Places,
    sums: Sums | None,
) -> None:
    """Add to the numbers of vertices what ranks did."""
    add_timeline(metrics, timeline)
    if data.thinned[data.is_own].any():
        add_totals(metrics, data, talk.counted, talk.total_vertex)
    if sums is not None:
        add_unwritten(metrics, timeline, sums)
    add_spans(metrics, talk.spans, data, places)


def _run_info(folder: RunFolder, chosen: RankRecords, data: Gathered, talk: _Talk, timeline: Timeline) -> RunInfo:
    """What is known of the run as a whole."""
    run = describe_run(folder, chosen, data, talk.open, timeline, timeline.ranks)
    timeline.role = np.array(run.names.role_numbers(), np.int64)
    run.last_places = talk.last_places
    run.unseen = talk.unseen
    run.notes = [*notes_of(run.unseen), *run.notes]
    return run


def _warn(run: RunInfo, folder: RunFolder, chosen: RankRecords, data: Gathered, talk: _Talk) -> None:
    """Add warnings of results from nowhere, and of operations that do not fit together."""
    if talk.untaken and not run.thinned_ranks:
        hosts = {record.meta.get("host", "") for record in data.records}
        run.unrecorded_results = 0 if chosen.again else talk.untaken
        run.warnings.append(
            with_ended(talk.untaken) if chosen.again else without_record(talk.untaken, run, folder, hosts)
        )
    if talk.mixed:
        run.warnings.append(f"ranks called different operations at the same position {talk.mixed} times")


class _Progress:
    """Counts the steps of an analysis for whoever wants to know."""

    steps = 6

    def __init__(self, report: Callable[[str, int, int], None] | None) -> None:
        self._report = report
        self._done = 0

    def __call__(self, what: str) -> None:
        if self._report is not None:
            self._report(what, self._done, self.steps)
        self._done += 1


def _matched(located: list[Located], data: Gathered, missing: frozenset[int]) -> tuple[Matching, npt.NDArray[Any]]:
    """What the events have to do with each other, and the call by which each arrives, -1 for none ``[events]``.

    Members without a record (``missing``) are not expected: nobody leaves before the last recorded arrival, so that
    waits up to it are certain.
    """
    call_of_event: npt.NDArray[Any] = np.full(len(data.events), -1, np.int32)
    for part, begin in zip(located, begins_of(located).tolist(), strict=False):
        posts = np.flatnonzero(part.spans.post >= 0)
        call_of_event[part.spans.post[posts]] = begin + posts
    rank: npt.NDArray[Any] = data.threads.rank.astype(np.int32)[data.events.thread]
    sizes = np.array([_recorded(communicator, missing) for communicator in data.communicators], np.int64)
    return match(data.events, rank, call_of_event, sizes), call_of_event


def _recorded(communicator: Communicator, missing: frozenset[int]) -> int:
    """How many members of a communicator have a record."""
    return len(communicator.ranks) - (sum(rank in missing for rank in communicator.ranks) if missing else 0)


def _own_work(
    located: list[Located], calls: Calls, data: Gathered, places: Places, psg: PSG, period_ns: int, known: Known
) -> tuple[OwnWork, Activities, FloatArray]:
    """What the locations of all portions did between their calls; and how long they were in unwritten ones, by
    burst."""
    thinned_calls, enclosing = known.thinned_calls, outside_communication(psg)
    catalogue = Catalogue(
        np.concatenate((places.vertex, enclosing[places.vertex], [0])),
        np.concatenate((places.line, places.line, [0])),
    )
    vertices = len(psg.vertices)
    numbers = range(len(located))
    first_call = begins_of(located).tolist()
    first_location = np.concatenate(([0], np.cumsum([len(part.rank) for part in located]))).tolist()
    in_calls = enclosing[places.vertex] != places.vertex
    in_calls[data.totals.path] = True
    in_calls[0] = False
    in_calls = with_callees(data.tree.parent, in_calls)  # of sources that were not found, the library's own functions
    unwritten_s = np.zeros(first_call[-1] + first_location[-1] if len(thinned_calls) else 0)
    place_of_path = catalogue.find(places.vertex, places.line)
    seen: dict[int, Extents] = {}
    held_up: list[HeldUp] = []

    def bursts(number: int) -> Bursts:
        part, at = located[number], slice(first_call[number], first_call[number + 1])
        made = bursts_of(part, to_ns(calls.enter_s[at]), to_ns(calls.exit_s[at]), calls.vertex[at], places, enclosing)
        if known.no_cpu.any():
            assume_work(made, part, known.no_cpu)
        if len(thinned_calls):
            put_into_bursts(made, part, thinned_calls)
        return made

    def sampled(number: int) -> tuple[Rows, Rows]:
        part, here = located[number], bursts(number)
        samples = samples_of(data, part.shard)
        source = Sampled(samples, part.threads, places, period_ns)
        held: list[HeldUp] = []
        rows, told = sampled_work(here, source, catalogue, vertices, in_calls, held)
        held_up.extend(replace(one, seen=None) for one in held)
        behind = first_call[-1] + first_location[number] - len(part)
        to = here.number + np.where(here.number < len(part), first_call[number], behind)
        if here.unwritten_ns is not None:
            unwritten_s[to] = to_seconds(here.unwritten_ns)
        own_places = extents_of(here, to, samples, part.threads, place_of_path, period_ns)
        waited = [helper_extents(here, to, one.seen, period_ns) for one in held if one.seen is not None]
        seen[number] = Extents.joined([own_places, *waited])
        return narrowed(rows), told

    rows, told = zip(*each(sampled, numbers), strict=True) if located else ((), ())
    data.samples = emptied(data.samples)
    common = common_profiles(told)
    portions = list(rows)

    def inferred(number: int) -> tuple[Rows, Rows]:
        """The rows of bursts before calls, and of those behind the last call of a location."""
        work = inferred_work(bursts(number), widened(portions[number]), common, catalogue, vertices, period_ns)
        portions[number] = None
        here = len(located[number])
        cut = int(np.searchsorted(work.burst, here))
        before, behind = take(work, slice(0, cut)), take(work, slice(cut, None))
        before.burst = before.burst + first_call[number]
        behind.burst = behind.burst - here + first_call[-1] + first_location[number]
        return narrowed(before), narrowed(behind)

    del rows
    before, behind = zip(*each(inferred, numbers), strict=True) if located else ((), ())
    own, activities = numbered([*before, *behind], catalogue)
    add_extents(own, activities, catalogue, list(seen.values()))
    add_held_up(activities, catalogue.vertex, catalogue.line, held_up)
    return own, activities, unwritten_s


def _add_samples(
    metrics: dict[str, FloatArray], samples: Samples, threads: Threads, places: Places, period_ns: int
) -> None:
    """Count samples of locations, and the active seconds of all other threads of the ranks."""
    if len(samples) == 0:
        return
    vertex, rank = places.vertex[samples.path], threads.rank[samples.thread]
    located = threads.location[samples.thread] >= 0
    add_to(metrics["samples"], vertex[located], rank[located], np.ones(int(located.sum())))
    active = active_s(samples, places, period_ns)
    add_to(metrics["helper_s"], vertex[~located], rank[~located], active[~located])
    on_cpu = np.minimum(to_seconds(samples.cpu_ns), active)
    add_to(metrics["helper_cpu_s"], vertex[~located], rank[~located], on_cpu[~located])
