"""Runs of schedules in this process: the one that is under way, their numbers, and the steps that they mark."""

from __future__ import annotations

import weakref

from scalana.runtime import session, steps
from scalana.runtime.pipeline.spans import kind_of, rank_list
from scalana.runtime.spans import span
from scalana.runtime.steps import SCHEDULE
from scalana.runtime.typed import Any, Sequence

LONGEST_ORDER = 1 << 15
"""Characters of a planned order that are written, once for a pipeline."""


class Marks(dict[tuple[str, int], span]):
    """Spans that are entered again and again: of a name and a stage. The microbatch is told at their ends."""

    def __init__(self, chunk: dict[int, int], kind: str = "") -> None:
        super().__init__()
        self.chunk, self.kind = chunk, kind

    def __missing__(self, key: tuple[str, int]) -> span:
        name, stage = key
        kind = self.kind or kind_of(name)
        chunk = self.chunk.get(stage, 0) if kind == "action" else None
        made = self[key] = span(name, kind, None, stage=stage, chunk=chunk)
        return made


class Plan:
    """What does not change from one run of a schedule to the next."""

    __slots__ = ("attributes", "marks", "order", "pairs", "posts", "ranks", "stages")

    def __init__(self, stages: Sequence[Any], chunk: dict[int, int], ranks: list[int]) -> None:
        self.stages = stages
        """Objects of this rank's stages."""
        self.marks = Marks(chunk)
        """Of actions and waits. ``chunk`` is the place on this rank of each of its stages, by number."""
        self.posts = Marks(chunk, "transfer")
        """Of the posting of messages."""
        self.ranks = ranks
        """Of the job, in the order of the pipeline; empty where they are not known."""
        self.attributes: dict[str, Any] = {}
        self.order = ""
        """What is planned for this rank, in the words of torch: ``0F0 0F1 0B0``."""
        self.pairs: frozenset[tuple[int, int]] = frozenset()
        """Stages and microbatches of forwards that run overlapped with the backward after them."""


class Run:
    """A run of a schedule that is under way, or what stands for none."""

    __slots__ = ("infers", "marks", "number", "pairs", "plan", "posts", "schedule", "span", "timed", "trains")

    def __init__(self, schedule: Any, plan: Plan, number: int, mark: Any) -> None:
        self.schedule, self.plan, self.number, self.span = schedule, plan, number, mark
        self.marks, self.posts, self.pairs = plan.marks, plan.posts, plan.pairs
        self.trains = True
        """Whether it has backward passes."""
        self.infers = False
        """Whether shapes were found out in it."""
        self.timed: Any = None
        """The timing of layers, where they are timed."""


class Runs:
    """All runs of this process."""

    def __init__(self) -> None:
        self.none = Run(None, Plan((), {}, []), -1, None)
        self.current = self.none
        self._outer: list[Run] = []
        self._plans: weakref.WeakKeyDictionary[Any, Plan] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._pipelines: dict[str, int] = {}
        self._told: weakref.WeakSet[Any] = weakref.WeakSet()
        self._marker: weakref.ref[Any] | None = None
        session.when_started(self.new_record)

    def new_record(self) -> None:
        """What was told or marked was so in another record."""
        self._told.clear()
        self._marker = None

    def inside(self, schedule: Any) -> bool:
        """Whether this run of the schedule is being recorded already."""
        return self.current.schedule is schedule

    def any_known(self) -> bool:
        """Whether there are schedules in this process."""
        return len(self._plans) > 0

    def plan(self, schedule: Any) -> Plan | None:
        """What was learned of a schedule."""
        return self._plans.get(schedule)

    def learn(self, schedule: Any, plan: Plan) -> None:
        """Remember what a schedule is; the pipelines of a set of ranks are numbered in the order of this."""
        ranks = rank_list(plan.ranks)
        number = self._pipelines[ranks] = self._pipelines.get(ranks, -1) + 1
        plan.attributes.update(ranks=ranks or None, pipeline=number)
        self._plans[schedule] = plan

    def enter(self, schedule: Any, plan: Plan, trains: bool) -> Run:
        """A run begins. One that trains ends the step before, unless something else tells of steps."""
        if trains:
            self._mark(schedule)
        number = self._numbers[schedule] = self._numbers.get(schedule, -1) + 1
        mark = span.begin("RUN", "action", None, number=number, trains=int(trains), **plan.attributes)
        run = Run(schedule, plan, number, mark)
        run.trains = trains
        self._outer.append(self.current)
        self.current = run
        return run

    def leave(self, run: Run) -> None:
        """A run is over."""
        self.current = self._outer.pop() if self._outer else self.none
        told: dict[str, Any] = {}
        if run.infers:
            told["infers"] = 1
        if run.timed is not None:
            told["layers"] = 1
        if run.plan.order and run.schedule not in self._told:
            self._told.add(run.schedule)
            told["order"] = run.plan.order
        run.span.end(**told)

    def _mark(self, schedule: Any) -> None:
        """The beginning of a run is where the step before ends: the optimizer comes after the run that it is for.

        Of several schedules in one program the first that trains marks.
        """
        marker = self._marker() if self._marker is not None else None
        if marker is None:
            self._marker = weakref.ref(schedule)  # when the step began that it is in, nobody knows
        elif marker is schedule:
            steps.mark(SCHEDULE)


runs = Runs()
