"""What was measured of a pipeline, as the program that it was: rows of actions in, one long replayable order out.

All steps of a rank are put one behind the other, the microbatches numbered on: so it does not matter that the ranks
enter and leave a step at different times. What lies between two actions is a wait for a message or time of the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.detectors.pipeline.advice import SENDS_FREE
from scalana.detectors.pipeline.model.actions import Kind, OrderError, Program
from scalana.detectors.pipeline.model.engines import ENGINES, Engine
from scalana.detectors.pipeline.model.lowering import Code, Operations, lower
from scalana.detectors.pipeline.model.simulate import Deadlock, Links, Setting, replay
from scalana.detectors.thresholds.limits import ACTIONS_REPLAYED
from scalana.detectors.thresholds.seconds import SAME_TIME_S
from scalana.detectors.thresholds.shares import MISREAD
from scalana.graphs.arrays.columns import ColumnTable
from scalana.graphs.arrays.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class ActionRows(ColumnTable):
    """Measured actions, in any order; seconds on one clock for all ranks, ``[rows]`` all."""

    step: IntArray
    rank: IntArray
    """Numbered from 0 within the pipeline."""
    kind: IntArray
    """A :class:`~scalana.detectors.pipeline.model.actions.Kind` each."""
    stage: IntArray
    microbatch: IntArray
    begin_s: FloatArray
    """When computing began, after the wait for input."""
    end_s: FloatArray
    wait_begin_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """When the rank began to wait for the input; NaN where no wait was seen, empty for nowhere."""
    wait_end_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """NaN where no wait was seen, empty for nowhere."""
    joined: BoolArray = field(default_factory=lambda: np.zeros(0, bool))
    """Whether the next action of the rank belongs to this one; empty for nowhere."""
    send_wait_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Seconds between the end of the action before and the begin of this one in which the rank waited for its own
    messages to be taken; 0 where it did not or it is part of the wait for input, empty for nowhere."""
    sent_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """When what the action made was handed over to be sent, NaN where that was not seen; empty for nowhere."""
    data_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Seconds between the end of the action before and the begin of this one in which the rank waited for input data,
    besides what :class:`Between` has; empty for none."""
    gradients_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Seconds right after the end in which gradients were reduced over replicas, besides what :class:`Between` has;
    empty for none."""
    returned: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of a forward of the first stage, how many microbatches before was the one of which it needs what the last stage
    made (a token); 0 for none, empty for nowhere."""
    host_most_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """The most of the seconds between the end of the action before and the begin of this one that can be the host's:
    what else is no wait and nothing of the above is nobody's. Infinite where all can be, empty for everywhere."""

    def __post_init__(self) -> None:
        absent = {
            "wait_begin_s": np.nan,
            "wait_end_s": np.nan,
            "joined": False,
            "send_wait_s": 0.0,
            "sent_s": np.nan,
            "data_s": 0.0,
            "gradients_s": 0.0,
            "returned": 0,
            "host_most_s": np.inf,
        }
        for name, missing in absent.items():
            if len(getattr(self, name)) != len(self.step):
                object.__setattr__(self, name, np.full(len(self.step), missing))


@dataclass(frozen=True)
class Between:
    """What every rank does before and after the actions of a step, seconds each ``[steps, ranks]``."""

    enter_s: FloatArray
    """When the rank entered the step (a moment); NaN where it is not known: then its first action begins it."""
    data_s: FloatArray
    """Waiting for input data before the step."""
    gradients_s: FloatArray
    """Reducing gradients over replicas after the actions."""
    optimizer_s: FloatArray
    """The optimizer's step after that."""

    @classmethod
    def nothing(cls, steps: int, ranks: int) -> Between:
        """Where none of it was recorded."""
        zero = np.zeros((steps, ranks))
        return cls(np.full((steps, ranks), np.nan), zero, zero.copy(), zero.copy())


@dataclass(frozen=True)
class Measured:
    """Measured steps, ready to be replayed."""

    operations: Operations
    """All steps of all ranks, microbatches numbered through."""
    steps: IntArray
    """The steps, by number, that are in it ``[steps]``."""
    step: IntArray
    """The row in ``steps`` of an action ``[actions]``."""
    microbatches: IntArray
    """How many microbatches each step has ``[steps]``."""
    duration_s: FloatArray
    """``[actions]``"""
    links: Links
    host_s: FloatArray
    """What the host does before an operation, without the following ``[operations]``."""
    data_s: FloatArray
    """``[operations]``; at the first operation of an action"""
    gradients_s: FloatArray
    """``[operations]``; at the first operation of the step after, or where a message is sent"""
    optimizer_s: FloatArray
    """``[operations]``; at the first operation of the step after"""
    late_s: FloatArray
    """How much later than the rank that computes first each rank begins the first step ``[ranks]``."""
    tail_s: FloatArray
    """Gradients and optimizer of the last step ``[2, ranks]``."""
    begin_s: FloatArray
    """When computing began, from the begin of all ``[actions]``."""
    total_s: float
    """From when the rank that computes first begins, to the end of the last rank."""
    notes: tuple[str, ...] = field(default=())
    """What had to be left out, in words."""

    @property
    def program(self) -> Program:
        """The order of all actions."""
        return self.operations.program

    @property
    def step_s(self) -> float:
        """Seconds of a step, on average."""
        return self.total_s / len(self.steps)

    @property
    def goes_back(self) -> bool:
        """Whether forwards of the first stage wait for what the last one made."""
        stage, kind = self.program.stage, self.program.kind
        first = self.operations.receiver[kind[self.operations.receiver] == Kind.F]
        return bool((stage[first] == 0).any())

    def setting(self) -> Setting:
        """A replay of what was measured."""
        lead = self.host_s + self.data_s + self.gradients_s + self.optimizer_s
        return Setting(self.duration_s, self.links, lead, self.late_s, self.tail_s.sum(axis=0))

    def first_step(self) -> Program:
        """The order of the first step, by itself."""
        chosen = self.step == 0
        program = self.program
        ranks = np.bincount(program.rank[chosen], minlength=program.ranks)
        return Program(
            np.concatenate([[0], np.cumsum(ranks)]).astype(np.int64),
            program.kind[chosen],
            program.stage[chosen],
            program.microbatch[chosen],
            program.joined[chosen],
        )


def read_rows(rows: ActionRows, engine: Engine, between: Between | None = None) -> Measured:
    """The measured steps of one pipeline. ``between`` has a row for each step number in ascending order.

    Raises:
        OrderError: where no step is complete.
    """
    numbers = np.unique(rows.step)
    between = Between.nothing(len(numbers), int(rows.rank.max()) + 1) if between is None else between
    kept, notes = _complete_steps(rows, numbers)
    if not len(kept):
        raise OrderError("no step of the pipeline is recorded completely" + (f": {notes[0]}" if notes else ""))
    kept = _longest_run(rows, numbers, kept, notes)
    rows = rows.take(np.isin(rows.step, numbers[kept]))
    rows = rows.take(np.lexsort((rows.begin_s, rows.step, rows.rank)))
    step = np.searchsorted(numbers[kept], rows.step)
    size = np.array([rows.microbatch[step == k].max() + 1 for k in range(len(kept))])
    offset = np.concatenate([[0], np.cumsum(size)[:-1]])
    ranks = np.bincount(rows.rank, minlength=between.data_s.shape[1])
    program = Program(
        np.concatenate([[0], np.cumsum(ranks)]).astype(np.int64),
        rows.kind.astype(np.int64),
        rows.stage.astype(np.int64),
        (rows.microbatch + offset[step]).astype(np.int64),
        rows.joined.astype(bool),
    )
    program.check()
    meet = _meetings(rows, step, between.enter_s[kept])
    before = np.where(rows.returned > 0, program.microbatch - rows.returned, -1)
    returns = np.stack((before, np.arange(len(before))), axis=1)[before >= 0]
    operations = lower(program, engine, meet, returns)
    try:
        replay(operations, Setting.plain(operations, np.zeros(program.size)))
    except Deadlock:
        notes.append(SENDS_FREE)
        operations = lower(program, ENGINES["ideal"], meet, returns)
    return _Reading(rows, step, between, kept, operations).measured(numbers[kept], size, tuple(notes))


def _longest_run(rows: ActionRows, numbers: IntArray, kept: IntArray, notes: list[str]) -> IntArray:
    """The last of the longest runs of steps that follow each other, and of it the last ones that are not too many."""
    apart = (np.diff(kept) > 1) | (np.diff(numbers[kept]) > 1)
    runs = np.split(kept, np.flatnonzero(apart) + 1)
    longest = max(reversed(runs), key=len)
    sizes = np.array([(rows.step == numbers[k]).sum() for k in longest])
    fits = max(int((np.cumsum(sizes[::-1]) <= ACTIONS_REPLAYED).sum()), 1)
    if fits < len(kept):
        last = longest[-fits:]
        notes.append(f"of {len(kept)} complete steps, {numbers[last[0]]} to {numbers[last[-1]]} are analysed")
    return longest[-fits:]


def _meetings(rows: ActionRows, step: IntArray, enter_s: FloatArray) -> IntArray:
    """The number of the meeting before an action ``[actions]``, -1 where there is none.

    Where no rank enters a step before all have done the one before, they meet in between (the norm of gradients, a
    metric): a rank that was done early waited there, and would be there later if it had more to do.
    """
    steps = int(step.max()) + 1
    begin, end = np.full((steps, enter_s.shape[1]), np.inf), np.full((steps, enter_s.shape[1]), -np.inf)
    own = np.where(np.isnan(rows.wait_begin_s), rows.begin_s, rows.wait_begin_s)
    np.minimum.at(begin, (step, rows.rank), own)
    np.maximum.at(end, (step, rows.rank), rows.end_s)
    begin = np.fmin(begin, enter_s)
    met = np.concatenate([[False], begin[1:].min(axis=1) >= end[:-1].max(axis=1)])
    starts = np.ones(len(step), bool)
    starts[1:] = (step[1:] != step[:-1]) | (rows.rank[1:] != rows.rank[:-1])
    number = np.where(met, np.cumsum(met) - 1, -1)
    return np.where(starts, number[step], -1).astype(np.int64)


def _complete_steps(rows: ActionRows, numbers: IntArray) -> tuple[IntArray, list[str]]:
    """Rows of ``numbers`` that make a program by themselves, and why the others do not."""
    kept, notes = [], []
    stages = int(rows.stage.max()) + 1
    for k, number in enumerate(numbers):
        part = rows.take(rows.step == number)
        part = part.take(np.lexsort((part.begin_s, part.rank)))
        first = np.searchsorted(part.rank, np.arange(int(rows.rank.max()) + 2)).astype(np.int64)
        program = Program(first, part.kind, part.stage, part.microbatch, part.joined.astype(bool))
        try:
            program.check()
            if program.stages < stages:
                raise OrderError(f"only {program.stages} of {stages} stages were found")
        except OrderError as error:
            notes.append(f"step {number} is excluded: {error}")
            continue
        kept.append(k)
    return np.array(kept, np.int64), notes


class _Reading:
    """Tells host time, waits and transfers apart, action by action."""

    def __init__(
        self, rows: ActionRows, step: IntArray, between: Between, kept: IntArray, operations: Operations
    ) -> None:
        self.rows, self.step, self.between, self.kept, self.operations = rows, step, between, kept, operations
        program = operations.program
        count = len(rows.step)
        self.starts = np.ones(count, bool)  # the first action of a rank in a step
        self.starts[1:] = (step[1:] != step[:-1]) | (rows.rank[1:] != rows.rank[:-1])
        self.opens = np.zeros(count, bool)  # the first of a rank at all
        self.opens[program.first[:-1]] = True
        self.before = np.concatenate([[0.0], rows.end_s[:-1]])
        entered = between.enter_s[kept][step, rows.rank]
        self.enters = ~np.isnan(entered)
        # A rank's first action: from where it entered the step, or from its wait, or from itself.
        own = np.where(np.isnan(rows.wait_begin_s), rows.begin_s, rows.wait_begin_s)
        entered = np.where(np.isnan(entered) | ~self.starts, own, np.minimum(entered, own))
        self.entered = entered
        self.before = np.where(self.opens, entered, np.minimum(self.before, rows.begin_s))
        # After a meeting, from when the last rank came to it.
        meets = np.flatnonzero(operations.code == Code.MEET)
        ends = np.full(operations.meetings, -np.inf)
        at = np.searchsorted(operations.enter, meets, side="right")
        sent_gradients = np.where(operations.outgoing >= 0, rows.gradients_s, 0.0)
        done = np.fmax(rows.end_s + sent_gradients, rows.sent_s)  # with handing over what it made
        np.maximum.at(ends, operations.argument[meets], done[at - 1])
        self.before[at] = ends[operations.argument[meets]]
        self.follows = ~self.opens  # what a rank does before an action begins where the one before ended
        self.follows[at] = False
        self.there = np.where(np.isnan(rows.wait_end_s), rows.begin_s, rows.wait_end_s)
        self.held_back = self._held_back()

    def _held_back(self) -> IntArray:
        """The action before which, once its own input is there, a message is sent; -1 for one that is sent right after
        what made it ``[messages]``."""
        operations = self.operations
        sends = np.flatnonzero(operations.code == Code.SEND)
        following = np.searchsorted(operations.run, sends)
        inside = np.append(operations.enter, operations.size)[following] <= sends
        action = np.full(len(operations.sender), -1, np.int64)
        action[operations.argument[sends]] = np.where(inside, following, -1)
        return action

    def measured(self, steps: IntArray, size: IntArray, notes: tuple[str, ...]) -> Measured:
        """All of it."""
        rows, operations = self.rows, self.operations
        data, gradients, optimizer = self._boundaries()
        # All begins with the rank that computes first: ranks that came before it waited for the end of an earlier step.
        opened = np.flatnonzero(self.opens)
        started = (self.before - data)[opened]
        origin = float(started[rows.begin_s[opened].argmin()])
        self.before[opened] = np.maximum(self.before[opened], origin)
        data[opened] = np.minimum(data[opened], self.before[opened] - origin)
        outside = data + gradients + optimizer
        late = np.isin(np.arange(len(rows.step)), self.held_back)
        send_late, send_early = np.where(late, rows.send_wait_s, 0.0), np.where(late, 0.0, rows.send_wait_s)
        host, reducing = np.zeros(operations.size), np.zeros(operations.size)
        handing, handing_late = self._handing_over(host, reducing)
        wait_begin = self.before + send_early + outside + handing
        wait_begin = np.where(np.isnan(rows.wait_begin_s), wait_begin, rows.wait_begin_s)
        wait_begin = np.clip(np.minimum(wait_begin, rows.begin_s), self.before, None)
        arrival, latency = self._arrivals(wait_begin)
        ready = np.maximum(wait_begin, arrival)
        lead = np.maximum(wait_begin - self.before - send_early - outside - handing, 0.0)
        after = np.maximum(rows.begin_s - np.maximum(ready, wait_begin) - send_late - handing_late, 0.0)
        lead = np.minimum(lead, rows.host_most_s)
        after = np.minimum(after, rows.host_most_s - lead)
        # What was loaded when the wait for another rank was over.
        loaded = np.minimum(self.loaded_late, after)
        np.add.at(host, operations.enter, lead)
        np.add.at(host, operations.run, after - loaded)
        begins = np.zeros(operations.program.ranks)
        begins[rows.rank[opened]] = np.minimum((self.before - data)[opened] - origin, rows.host_most_s[opened])
        last = len(steps) - 1
        tail = np.stack([self.between.gradients_s[self.kept[last]], self.between.optimizer_s[self.kept[last]]])
        closes = operations.program.first[1:] - 1
        tail[0, rows.rank[closes]] += self._unsent_gradients()[closes]
        ends = np.zeros(operations.program.ranks)
        np.maximum.at(ends, rows.rank, rows.end_s)
        spread = [np.zeros(operations.size), reducing, np.zeros(operations.size)]
        for into, seconds in zip(spread, (data, gradients, optimizer), strict=True):
            np.add.at(into, operations.enter, seconds)
        np.add.at(spread[0], operations.run, loaded)
        return Measured(
            operations=operations,
            steps=steps,
            step=self.step,
            microbatches=size,
            duration_s=rows.end_s - rows.begin_s,
            links=Links(latency, np.zeros_like(latency)),
            host_s=host,
            data_s=spread[0],
            gradients_s=spread[1],
            optimizer_s=spread[2],
            late_s=begins,
            tail_s=tail,
            begin_s=rows.begin_s - origin,
            total_s=float((ends + tail.sum(axis=0)).max()) - origin,
            notes=notes,
        )

    def _boundaries(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Data before an action, gradients and optimizer of the step before one that starts a step ``[actions]`` each.

        What does not fit between the two steps (it ran beside them) is cut.
        """
        data, gradients, optimizer = (np.zeros(len(self.step)) for _ in range(3))
        at = np.flatnonzero(self.starts)
        row, rank = self.kept[self.step[at]], self.rows.rank[at]
        data[at] = self.between.data_s[row, rank]
        # Where it is known when the first step was entered, its first input was loaded after that.
        within = np.where(self.opens & self.enters, 0.0, self.rows.data_s)
        data += within
        inner = at[~self.opens[at]]
        earlier = self.kept[self.step[inner] - 1]
        gradients[inner] = self.between.gradients_s[earlier, self.rows.rank[inner]]
        gradients[inner] += self._unsent_gradients()[inner - 1]
        optimizer[inner] = self.between.optimizer_s[earlier, self.rows.rank[inner]]
        room = np.maximum(self.entered - self.before, 0.0)
        # A reduction in which all ranks meet is as long as the others are late: what is left of it counts.
        room_left = np.maximum(room - data - optimizer, 0.0)
        gradients[inner] = np.minimum(gradients[inner], room_left[inner])
        asked = data + gradients + optimizer
        fits = np.where(self.opens | (asked <= room), 1.0, room / np.where(asked > 0, asked, 1.0))
        self.loaded_late = self.rows.data_s - within * fits
        return data * fits, gradients * fits, optimizer * fits

    def _sent(self) -> tuple[IntArray, FloatArray]:
        """The action after which a message is sent, and when it was, ``[messages]`` each."""
        operations, rows = self.operations, self.rows
        sends = np.flatnonzero(operations.code == Code.SEND)
        sent_by = np.empty(len(operations.sender), np.int64)  # an overlapped pair sends after its second action
        sent_by[operations.argument[sends]] = np.searchsorted(operations.run, sends) - 1
        end = rows.end_s[sent_by] + rows.gradients_s[sent_by]
        sent = np.fmax(rows.sent_s[operations.sender], end)
        return sent_by, np.where(self.held_back >= 0, np.maximum(sent, self.there[self.held_back]), sent)

    def _unsent_gradients(self) -> FloatArray:
        """Reducing gradients after an action that sends nothing ``[actions]``."""
        return np.where(self.operations.outgoing < 0, self.rows.gradients_s, 0.0)

    def _handing_over(self, host: FloatArray, gradients: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Count what lies between an action and the sending of what it made: reducing in ``gradients``, what the host
        does in ``host``; of a message that is held back, from when the input of the next action is there.

        Returns how much of that lies before an action: before the wait for its input, and after it ``[actions]`` each.
        """
        operations, rows = self.operations, self.rows
        sent_by, sent = self._sent()
        sends = np.flatnonzero(operations.code == Code.SEND)
        message = operations.argument[sends]
        # Where a rank goes on to its next action at once, it is in nobody's way; two messages go one after the other.
        room = np.full(len(rows.step), np.inf)
        room[:-1] = np.where(self.starts[1:], np.inf, rows.begin_s[1:] - rows.end_s[:-1])
        held_back = self.held_back[message]
        late = held_back >= 0
        took = sent[message] - np.where(late, self.there[held_back], rows.end_s[sent_by[message]])
        took = np.where(np.isfinite(took), np.maximum(took, 0.0), 0.0)
        before, after = np.zeros(len(rows.step)), np.zeros(len(rows.step))
        host[sends[late]] += took[late]
        after[held_back[late]] += took[late]
        sends, message, took = sends[~late], message[~late], took[~late]
        action = sent_by[message]
        reduced = rows.gradients_s[action]
        # Sends stand in the order of actions; only an overlapped pair has two after one of them.
        again = np.concatenate(([False], action[1:] == action[:-1]))[: len(action)]
        took[again] = np.maximum(took[again] - took[np.flatnonzero(again) - 1], 0.0)  # the second goes after the first
        for at in (np.flatnonzero(~again), np.flatnonzero(again)):
            counted = np.minimum(took[at], room[action[at]])
            room[action[at]] -= counted
            reducing = np.where(again[at], 0.0, np.minimum(reduced[at], counted))
            host[sends[at]] += counted - reducing
            gradients[sends[at]] += reducing
            following = np.minimum(action[at] + 1, len(before) - 1)
            follows = (following > action[at]) & self.follows[following]
            before[following[follows]] += counted[follows]
        return before, after

    def _arrivals(self, wait_begin: FloatArray) -> tuple[FloatArray, FloatArray]:
        """When the message of an action came ``[actions]``, and the latency of every message ``[messages]``.

        A wait that began before the message was sent shows the latency; for another it is that of its link, the median
        (of all links, where nobody ever waited for this one), if it could be that long.
        Where a message travels only once its receive is posted, it is counted from there.
        """
        operations = self.operations
        _, sent = self._sent()
        there = self.there[operations.receiver]
        # Before which action there was the wait: that of a pair is before its first.
        before = np.searchsorted(operations.run, operations.receive[operations.receiver])
        asked = wait_begin[before]
        start = sent
        posted_early = operations.engine.early or operations.engine.ahead
        if operations.engine.rendezvous:
            start = np.maximum(sent, self._posted() if posted_early else asked)
        seen = np.maximum(there - start, 0.0)
        shown = asked <= start
        if operations.engine.batched:
            arrives = start + self._least(seen)
            shown &= arrives >= self._last_of_batch(start, arrives, before) - SAME_TIME_S
        usual = np.zeros(operations.program.ranks**2)
        elsewhere = float(np.median(seen[shown])) if shown.any() else 0.0
        for link in np.unique(operations.link):
            of_link = operations.link == link
            known = seen[of_link & shown]
            usual[link] = np.median(known) if len(known) else elsewhere
        latency = np.where(shown, seen, np.minimum(usual[operations.link], seen))
        arrival = np.full(operations.program.size, -np.inf)
        # What is left until the end of the wait for a batch was for one's own messages.
        np.maximum.at(arrival, before, there if operations.engine.batched else start + latency)
        return arrival, latency

    def _least(self, seen_s: FloatArray) -> FloatArray:
        """About the least that a message took on the link of each, whatever else was in its batch ``[messages]``."""
        least = np.zeros_like(seen_s)
        for link in np.unique(self.operations.link):
            of_link = self.operations.link == link
            least[of_link] = np.quantile(seen_s[of_link], MISREAD, method="lower")
        return least

    def _last_of_batch(self, start_s: FloatArray, arrives_s: FloatArray, before: IntArray) -> FloatArray:
        """When the last message of the batch of each should be there, own ones that are taken among them; it is what
        the batch was waited for ``[messages]``."""
        operations = self.operations
        last = np.full(operations.program.size + 1, -np.inf)
        np.maximum.at(last, before, arrives_s)
        completes = np.flatnonzero(operations.code == Code.COMPLETE)
        owner = np.searchsorted(operations.run, completes)
        inside = np.append(operations.enter, operations.size)[owner] <= completes
        np.maximum.at(last, owner[inside], start_s[operations.argument[completes[inside]]])
        return np.asarray(last[before])

    def _posted(self) -> FloatArray:
        """About when the receive of a message was posted: at the end of the action before that ``[messages]``."""
        operations = self.operations
        posts = np.flatnonzero(operations.code == Code.POST)
        following = np.searchsorted(operations.run, posts)  # the first action that runs after it
        posted = np.full(len(operations.sender), -np.inf)
        posted[operations.argument[posts]] = self.before[following]
        return posted
