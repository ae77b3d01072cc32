"""The loop as it was recorded: of every process its steps, what it did when, and its trajectories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalana.detectors.rl.handling import handled, place_of
from scalana.detectors.rl.phases import Doing, doing_of
from scalana.detectors.rl.recorded.named_phases import NamedPhases, named_phases
from scalana.detectors.rl.recorded.pieces import Pieces, marked_pieces
from scalana.detectors.rl.requests import made_by
from scalana.detectors.rl.steps_in_part import part_of_loop
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.graphs.ppg import PPG
from scalana.graphs.spans.span_columns import Spans
from scalana.graphs.timeline import Timeline

DOINGS = len(Doing)
IN_WAIT, IN_CALL = DOINGS, DOINGS + 1
"""Columns behind those of :class:`Doing`: waiting in a call, and what a call takes by itself."""
COLUMNS = DOINGS + 2


@dataclass(slots=True)
class Trajectories(ColumnTable):
    """One row a trajectory, sorted by process and start."""

    span: IntArray
    """Row in the spans ``[trajectories]``."""
    rank: IntArray
    """``[trajectories]``"""
    step: IntArray
    """Step of the loop in which it began, -1 for none ``[trajectories]``."""
    start_s: FloatArray
    """``[trajectories]``"""
    end_s: FloatArray
    """``[trajectories]``"""
    tokens: FloatArray
    """Tokens generated, NaN where they are not known ``[trajectories]``."""
    prompt_tokens: FloatArray
    """Length of the prompt, 0 where it is not known ``[trajectories]``."""
    group: IntArray
    """Number of the prompt, -1 for none ``[trajectories]``."""
    batch: IntArray
    """Number of the batch that ends as a whole, -1 where each ends by itself ``[trajectories]``."""

    def with_tokens(self, ranks: int) -> TokenIndex:
        """Those in a step of which the tokens are known, to be found by step and process."""
        rows = np.flatnonzero((self.step >= 0) & ~np.isnan(self.tokens))
        key = self.step[rows] * ranks + self.rank[rows]
        order = np.argsort(key, kind="stable")
        return TokenIndex(ranks, rows[order], key[order])


@dataclass(slots=True)
class TokenIndex:
    """Trajectories of which the tokens are known, by step and process, of each in the order in which they began."""

    ranks: int
    row: IntArray
    """Row of the trajectories ``[trajectories with tokens]``."""
    key: IntArray
    """Step times :attr:`ranks` plus rank, ascending ``[trajectories with tokens]``."""

    def rows(self, rank: int | None, step: int) -> IntArray:
        """Trajectories of a process, or of all, in a step."""
        first = step * self.ranks + (rank or 0)
        end = first + 1 if rank is not None else first + self.ranks
        return self.row[slice(*np.searchsorted(self.key, [first, end]))]


@dataclass(slots=True)
class Process:
    """What the main thread of a process did, as seconds since the begin that grow with time."""

    location: int
    """Row in the timeline's locations."""
    bounds_s: FloatArray
    """When its steps begin, and the last one ends ``[steps + 1]``."""
    time_s: FloatArray
    """Times, ascending ``[times]``."""
    done_s: FloatArray
    """Seconds spent so far, by :class:`Doing`, ``IN_WAIT`` and ``IN_CALL`` ``[times, columns]``."""
    counted: bool = True
    """Whether its time is part of the whole: that of a driver without phases of its own is not."""
    aside: bool = False
    """Whether its phases are those of another thread, which works while the main thread waits for calls."""

    def spent_s(self, begin_s: FloatArray, end_s: FloatArray) -> FloatArray:
        """Seconds between some times, by what was done ``[intervals, columns]``."""
        parts = [np.interp(end_s, self.time_s, row) - np.interp(begin_s, self.time_s, row) for row in self.done_s.T]
        return np.maximum(np.stack(parts, axis=-1), 0.0)


@dataclass(slots=True)
class Loop:
    """A loop of reinforcement learning."""

    steps: int
    """Recorded by all processes."""
    processes: list[Process]
    """By rank."""
    own_s: FloatArray
    """Seconds by what was done ``[ranks, steps, columns]``; over the columns they are the length of the step."""
    call_s: FloatArray
    """What calls took by themselves, by the phase that they were made in ``[ranks, steps, doings]``."""
    tokens: FloatArray
    """What was trained on, NaN where it is not known ``[ranks, steps]``."""
    passed_tokens: FloatArray
    """What log-probabilities were of, as they say, NaN where they don't ``[ranks, steps]``."""
    trajectories: Trajectories
    index: TokenIndex
    """Of the trajectories."""
    vertex: IntArray
    """Where phases begin most often, by what they are; -1 for none ``[doings]``."""
    line: IntArray
    """Line of the program at which they do, 0 for none ``[doings]``."""
    bytes: FloatArray
    """Bytes that phases say they move ``[doings]``."""
    first: int = 0
    """Number of the first step: another than 0 where only a part of a run is looked at."""
    timed: bool = False
    """Whether nobody marked it, and lengths are what calls took, in milliseconds."""

    @property
    def total_s(self) -> float:
        """Process time of all steps."""
        return float(sum(process.bounds_s[-1] - process.bounds_s[0] for process in self.processes if process.counted))

    def step_s(self) -> FloatArray:
        """Length of every step, of an average process ``[steps]``."""
        return np.mean([np.diff(process.bounds_s) for process in self.processes if process.counted], axis=0)

    def passed(self) -> FloatArray:
        """What log-probabilities were of: as they say, or else what the process trained on ``[ranks, steps]``."""
        return np.where(np.isnan(self.passed_tokens), self.tokens, self.passed_tokens)

    def that_do(self, doing: Doing) -> IntArray:
        """Processes that ever do something ``[some ranks]``."""
        return np.flatnonzero(self.own_s[:, :, doing].sum(axis=1) > 0.0)

    def that_generate(self) -> IntArray:
        """Processes with trajectories whose length is known: not those that wait for others in a phase of that name.
        Where there are none, all that generate ``[some ranks]``."""
        made = np.unique(self.trajectories.rank[self.index.row])
        return made if len(made) else self.that_do(Doing.GENERATION)

    def that_train(self) -> IntArray:
        """Processes that train on some tokens, likewise ``[some ranks]``."""
        train = self.that_do(Doing.TRAINING)
        told = train[np.nansum(self.tokens[train], axis=1) > 0.0]
        return told if len(told) else train


def find_loop(ppg: PPG, wait_s: FloatArray) -> Loop | None:
    """The loop of a run, None where not all ranks have phases of one.

    Args:
        ppg: of the run.
        wait_s: waiting in every call ``[calls]``.
    """
    spans, timeline = ppg.spans, ppg.timeline
    rows, main = spans.rows("phase"), np.flatnonzero(timeline.locations.is_main)
    meaning = np.array([doing_of(name) for name in spans.names] or [Doing.OTHER])
    named = named_phases(timeline, ppg.psg, spans) if not len(rows) else None
    if named is not None:
        pieces, of_phases, first, bounds = named.pieces, named.location, 0, named.bounds()
    elif len(rows):
        pieces, of_phases = marked_pieces(spans, meaning, timeline)
        first, bounds = _iterations(spans, pieces)
        bounds = bounds or _bounds(pieces)
    else:
        return None
    steps = min((len(each) for each in bounds.values()), default=1) - 1
    if steps < 1 or len(np.unique(timeline.locations.rank[main])) < timeline.ranks:
        return None
    locations = np.array([int(main[timeline.locations.rank[main] == rank][0]) for rank in pieces])
    kept = part_of_loop(
        np.array([bounds[rank][: steps + 1] for rank in pieces]),
        timeline.locations.start_s[locations],
        timeline.locations.end_s[locations],
    )
    steps = kept.bounds_s.shape[1] - 1
    processes = [
        _process(timeline, int(locations[rank]), int(of_phases[rank]), wait_s, part, kept.bounds_s[rank])
        for rank, part in pieces.items()
    ]
    own = np.stack([process.spent_s(process.bounds_s[:-1], process.bounds_s[1:]) for process in processes])
    counted = np.array([process.counted for process in processes])
    own[~counted] = 0.0
    trajectories = _trajectories(spans, processes) if named is None else _called(named, processes)
    phase_tokens, passed = (
        _phase_tokens(spans, rows[meaning[spans.table.name[rows]] == doing], processes, steps)
        for doing in (Doing.TRAINING, Doing.LOG_PROB)
    )
    index = trajectories.with_tokens(len(processes))
    tokens = np.where(np.isnan(phase_tokens), _trained_tokens(trajectories, index, steps), phase_tokens)
    tokens[own[:, :, Doing.TRAINING].sum(axis=1) == 0.0] = 0.0  # who trains on nothing
    if not (untold := np.isnan(phase_tokens).all(axis=1)).all():
        tokens[untold] = np.nan_to_num(tokens[untold])  # who has such a phase while others train
    called = _calls_by_phase(timeline, processes, pieces, of_phases, wait_s, steps)
    called[~counted] = 0.0
    vertex, line, moved = _places(spans, rows, meaning)
    if named is not None:
        vertex = named.vertex
    handed = np.concatenate([_handed(timeline, int(locations[rank]), part) for rank, part in pieces.items()])
    of_driver, line_of_driver, seconds = place_of(timeline, _in_steps(handed, timeline, processes))
    if of_driver >= 0 and seconds > own[:, :, Doing.DATA].sum() / 2:
        vertex[Doing.DATA], line[Doing.DATA] = of_driver, line_of_driver
    return Loop(
        steps, processes, own, called, tokens, passed, trajectories, index, vertex, line, moved, first + kept.first,
        named is not None,
    )  # fmt: skip


def _places(spans: Spans, rows: IntArray, meaning: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Vertex and line at which phases begin most often, and the bytes that they move, by what they are ``[doings]``."""
    vertex, line, moved = np.full(DOINGS, -1), np.zeros(DOINGS, np.int64), np.zeros(DOINGS)
    for doing in Doing:
        those = rows[meaning[spans.table.name[rows]] == doing]
        moved[doing] = np.nansum(spans.numbers("bytes")[those])
        if doing == Doing.GENERATION and not len(those):
            those = spans.rows("trajectory")
        places = spans.vertex[those]
        if len(places):
            vertex[doing] = np.bincount(places.astype(np.int64)).argmax()
            lines = spans.line[those][places == vertex[doing]]
            line[doing] = np.bincount(lines.astype(np.int64)).argmax()
    return vertex, line, moved


def _in_steps(calls: IntArray, timeline: Timeline, processes: list[Process]) -> IntArray:
    """Those of some calls that lie in the steps of their processes."""
    begin_s, end_s = (np.array([process.bounds_s[at] for process in processes]) for at in (0, -1))
    who = timeline.locations.rank[timeline.calls.location[calls]].astype(np.int64)
    at_s = timeline.calls.enter_s[calls]
    return calls[(at_s > begin_s[who]) & (at_s <= end_s[who])]


def _iterations(spans: Spans, pieces: dict[int, Pieces]) -> tuple[int, dict[int, list[float]]]:
    """The iterations that the trainer itself marks, and the number of the first one: when they begin, and the last one
    ends, of all processes; nothing where none or several processes mark them, or there are no phases in them."""
    rows = spans.rows("step")
    rows = rows[spans.texts("source")[rows] == spans.number("trainer")] if spans.number("trainer") >= 0 else rows[:0]
    rows = rows[np.argsort(spans.table.start_ns[rows], kind="stable")]
    starts, ends = spans.start_s(rows), spans.end_s(rows)
    if not len(rows) or len(np.unique(spans.rank[rows])) > 1 or (starts[1:] < ends[:-1] - 1e-6).any():
        return 0, {}
    done = {doing for part in pieces.values() for doing in part.doing}
    if not {Doing.GENERATION, Doing.TRAINING} <= done:
        return 0, {}
    return max(int(spans.table.step[rows[0]]), 0), dict.fromkeys(pieces, [*starts.tolist(), float(ends[-1])])


def _bounds(pieces: dict[int, Pieces]) -> dict[int, list[float]]:
    """When the steps of every process begin, and the last one ends; nothing where there are none.

    Where all processes do everything, each has steps of its own. Where some generate and others train, the steps of
    one that knows both, or else of the first that trains, are those of all, by the clock.
    """
    own = {rank: _steps_of(part) for rank, part in pieces.items()}
    known = [part for part in pieces.values() if part.doing]
    end_s = max((part.end_s[-1] for part in known), default=0.0)
    if all(own.values()) and all(Doing.TRAINING in part.doing for part in pieces.values()):
        return {rank: [*each, end_s] for rank, each in own.items()}
    whole = next((own[rank] for rank, part in pieces.items() if own[rank] and Doing.TRAINING in part.doing), None)
    if whole is not None:
        return dict.fromkeys(pieces, [*whole, end_s])
    begins = [part.start_s[part.doing.index(Doing.GENERATION)] for part in known if Doing.GENERATION in part.doing]
    trainer = next((part for part in known if Doing.TRAINING in part.doing), None)
    if trainer is None or not begins:
        return {}
    ends = _steps_trained(trainer)
    begin_s = min(min(begins), ends[0])
    return dict.fromkeys(pieces, [begin_s, *(each for each in ends if each > begin_s)])


def _steps_trained(pieces: Pieces) -> list[float]:
    """When the steps of a process end that trains and does not generate: when its new weights are away or, where it has
    no such phase, with its training."""
    last = Doing.WEIGHT_SYNC if Doing.WEIGHT_SYNC in pieces.doing else Doing.TRAINING
    ends: list[float] = []
    trained = False
    for number, doing in enumerate(pieces.doing):
        trained = trained or doing == Doing.TRAINING
        following = pieces.doing[number + 1] if number + 1 < len(pieces.doing) else None
        if trained and doing == last and (last == Doing.TRAINING or following != last):
            ends.append(pieces.end_s[number])
            trained = False
    return ends or [pieces.end_s[-1]]


def _steps_of(pieces: Pieces) -> list[float]:
    """When the steps of a process that generates begin: with the generation after training, or what comes right before
    of data and of waiting for trajectories."""
    if Doing.GENERATION not in pieces.doing:
        return []
    bounds = [pieces.start_s[0]]
    generated = trained = False
    for number, doing in enumerate(pieces.doing):
        if doing == Doing.GENERATION:
            if generated and trained:
                first = number
                while first and pieces.doing[first - 1] in (Doing.DATA, Doing.STARVATION, Doing.OTHER):
                    first -= 1
                bounds.append(pieces.start_s[first])
                trained = False
            generated = True
        elif doing == Doing.TRAINING:
            trained = trained or generated
    return bounds


def _process(
    timeline: Timeline, location: int, of_phases: int, wait_s: FloatArray, pieces: Pieces, bounds_s: FloatArray
) -> Process:
    """What a process did, over time. ``of_phases`` is the location of the thread that its phases are of, -1 for one
    that does not communicate."""
    at, enter, released, leave = _calls_of(timeline, location, wait_s)
    aside = bool(pieces.doing) and of_phases != location
    of_other = [np.zeros(0)] * 3
    if aside and of_phases >= 0:
        _, *of_other = _calls_of(timeline, of_phases, wait_s)
    edges = np.concatenate((pieces.start_s, pieces.end_s, enter, released, leave, *of_other, bounds_s))
    time = np.unique(edges)
    middle = (time[1:] + time[:-1]) / 2
    column = np.full(len(middle), int(Doing.OTHER))
    piece = np.searchsorted(pieces.start_s, middle, side="right") - 1
    inside = np.zeros(len(middle), np.bool_)
    if pieces.doing:
        inside = (piece >= 0) & (middle < np.array(pieces.end_s)[np.maximum(piece, 0)])
        column[inside] = np.array(pieces.doing, np.int64)[piece[inside]]
    if len(enter):
        call = np.searchsorted(enter, middle, side="right") - 1
        # Own work between phases with what was got, and is handed out.
        before_handed = np.isin(at.start + call + 1, _handed(timeline, location, pieces))
        column[before_handed & (column == int(Doing.OTHER))] = int(Doing.DATA)
        there = (call >= 0) & (middle < leave[np.maximum(call, 0)])
        if aside:
            there &= ~inside
        column[there] = np.where(middle[there] < released[call[there]], IN_WAIT, IN_CALL)
    if len(of_other[0]):
        call = np.searchsorted(of_other[0], middle, side="right") - 1
        there = inside & (call >= 0) & (middle < of_other[2][np.maximum(call, 0)])
        column[there] = np.where(middle[there] < of_other[1][call[there]], IN_WAIT, IN_CALL)
    spent = np.zeros((len(time), COLUMNS))
    spent[np.arange(len(middle)) + 1, column] = np.diff(time)
    counted = any(doing != Doing.OTHER for doing in pieces.doing)
    return Process(location, bounds_s, time, np.cumsum(spent, axis=0), counted, aside)


def _calls_of(
    timeline: Timeline, location: int, wait_s: FloatArray
) -> tuple[slice, FloatArray, FloatArray, FloatArray]:
    """The calls of a location: which they are, and when they begin, have waited and end ``[calls of the location]``."""
    calls = timeline.calls
    at = slice(int(calls.first[location]), int(calls.first[location + 1]))
    return at, calls.enter_s[at], np.minimum(calls.enter_s[at] + wait_s[at], calls.exit_s[at]), calls.exit_s[at]


def _handed(timeline: Timeline, location: int, pieces: Pieces) -> IntArray:
    """Calls of a process with phases by which it hands out what it got, outside of these ``[some calls]``."""
    calls = timeline.calls
    enter = calls.enter_s[int(calls.first[location]) : int(calls.first[location + 1])]
    known = [number for number, doing in enumerate(pieces.doing) if doing != Doing.OTHER]
    if not known:
        return np.zeros(0, np.int64)
    begins, ends = np.array(pieces.start_s)[known], np.array(pieces.end_s)[known]
    piece = np.searchsorted(begins, enter, side="right") - 1
    return handled(timeline, location, (piece < 0) | (enter >= ends[np.maximum(piece, 0)]))


def _calls_by_phase(
    timeline: Timeline,
    processes: list[Process],
    pieces: dict[int, Pieces],
    of_phases: IntArray,
    wait_s: FloatArray,
    steps: int,
) -> FloatArray:
    """What calls take by themselves, by the phase that they are made in ``[ranks, steps, doings]``. Where phases are of
    another thread, those of the main thread count outside of them, and those of that thread inside."""
    result = np.zeros((len(processes), steps, DOINGS))
    for rank, process in enumerate(processes):
        part = pieces[rank]
        if not part.doing:
            continue
        edges = np.stack((part.start_s, part.end_s), axis=1).ravel()
        covered = np.cumsum(
            np.stack((np.zeros(len(part.doing)), np.subtract(part.end_s, part.start_s)), axis=1).ravel()
        )
        locations = [process.location, int(of_phases[rank])] if process.aside else [process.location]
        for number, location in enumerate(each for each in locations if each >= 0):
            _, enter, released, leave = _calls_of(timeline, location, wait_s)
            piece = np.searchsorted(part.start_s, enter, side="right") - 1
            inside = (piece >= 0) & (enter < np.array(part.end_s)[np.maximum(piece, 0)])
            doing = np.where(inside, np.array(part.doing, np.int64)[np.maximum(piece, 0)], int(Doing.OTHER))
            for step in range(steps):
                begin_s, end_s = process.bounds_s[step : step + 2]
                begins, ends = np.maximum(released, begin_s), np.minimum(leave, end_s)
                part_s = np.maximum(ends - begins, 0.0)
                if process.aside:
                    in_phases = np.interp(ends, edges, covered) - np.interp(begins, edges, covered)
                    part_s = np.where(part_s > 0.0, in_phases if number else part_s - in_phases, 0.0)
                result[rank, step] += np.bincount(doing, part_s, DOINGS)
    return result


def _trajectories(spans: Spans, processes: list[Process]) -> Trajectories:
    """All trajectories of the run."""
    rows = spans.rows("trajectory")
    rank, start, end = made_by(spans, rows)
    order = np.lexsort((start, rank))
    rows, rank, start, end = rows[order], rank[order], start[order], end[order]
    step = _steps_at(rank, start, processes)
    return Trajectories(
        span=rows,
        rank=rank,
        step=step,
        start_s=start,
        end_s=end,
        tokens=spans.numbers("tokens")[rows],
        prompt_tokens=np.nan_to_num(spans.numbers("prompt_tokens")[rows]),
        group=_numbered(spans, "group")[rows],
        batch=_numbered(spans, "batch")[rows],
    )


def _steps_at(rank: IntArray, at_s: FloatArray, processes: list[Process]) -> IntArray:
    """In which step of a process something begins, -1 for none ``[things]``."""
    step = np.full(len(rank), -1)
    for number, process in enumerate(processes):
        mine = rank == number
        within = np.searchsorted(process.bounds_s, at_s[mine], side="right") - 1
        step[mine] = np.where(within < len(process.bounds_s) - 1, within, -1)
    return step


def _called(named: NamedPhases, processes: list[Process]) -> Trajectories:
    """What calls generate in a loop that nobody marked: a trajectory each, as long as it took."""
    made = named.answers
    rank, start, end = made.rank, made.start_s, made.end_s
    none = np.full(len(rank), -1)
    return Trajectories(
        none, rank, _steps_at(rank, start, processes), start, end, named.lengths(), np.zeros(len(rank)), none, none
    )


def _numbered(spans: Spans, key: str) -> IntArray:
    """An attribute that is a whole number or a text, as a number; -1 for none ``[spans]``."""
    text = spans.texts(key)
    return np.where(text >= 0, text + (1 << 40), spans.integers(key))


def _phase_tokens(spans: Spans, rows: IntArray, processes: list[Process], steps: int) -> FloatArray:
    """Tokens that some phases say, NaN where they don't ``[ranks, steps]``."""
    result = np.full((len(processes), steps), np.nan)
    tokens, rank, start = spans.numbers("tokens")[rows], spans.rank[rows], spans.start_s(rows)
    for number in np.flatnonzero(~np.isnan(tokens)).tolist():
        process = int(rank[number])
        step = int(np.searchsorted(processes[process].bounds_s, start[number], side="right")) - 1
        if 0 <= step < steps:
            result[process, step] = np.nansum([result[process, step], tokens[number]])
    return result


def _trained_tokens(trajectories: Trajectories, index: TokenIndex, steps: int) -> FloatArray:
    """Tokens of the trajectories of each process, NaN where they are not known ``[ranks, steps]``."""
    all_tokens = trajectories.tokens + trajectories.prompt_tokens
    sums = np.bincount(index.key, all_tokens[index.row], index.ranks * steps)[: index.ranks * steps]
    there = np.bincount(index.key, minlength=index.ranks * steps)[: index.ranks * steps] > 0
    return np.where(there, sums, np.nan).reshape(steps, index.ranks).T
