"""Attempts of a job: each start of all of its ranks, how far it came, and which of its steps had been done before.

Steps are numbered from 0 in each process, so that their numbers say nothing across attempts. What does is a checkpoint:
where an attempt reads a file that an earlier one wrote, it goes on from the step at which that was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scalana.graphs.arrays.intervals import joined
from scalana.graphs.arrays.types import FloatArray
from scalana.graphs.progress.rank_times import CheckpointFile, HostClocks, RankTimes, rank_times
from scalana.runtime.record.format import ProcessRecord

_MOST_RANKS = 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of all ranks. Times are seconds since 1970."""

    start_s: float
    end_s: float
    """The latest moment that any rank recorded."""
    first_step_s: float
    """When its first step began, or ended where only that is known; NaN where it came to none."""
    last_step_s: float
    """When its last one ended."""
    step_end_s: FloatArray
    """When the steps ended whose begin is known, in order ``[steps]``."""
    steps: int
    """Steps that it made; 0 where none are marked."""
    is_marked: bool
    """Whether steps are marked: else the first and the last call of communication stand for the first and last step."""
    checkpoints: FloatArray
    """When any rank wrote a checkpoint, apart ``[stretches, 2]``."""
    evaluations: FloatArray
    """When any rank evaluated, apart ``[stretches, 2]``."""
    files: tuple[CheckpointFile, ...]
    """In the order of their ends."""
    failure: str
    """Which ranks failed, and how: "rank 3: exit code 1; 7 ranks killed"; "" for none. The first to exit with a code
    stands first; which of others were killed by its launcher, no record says."""

    def steps_until(self, moment_s: float) -> int:
        """How many of its steps were done at a moment."""
        return self.steps - int((self.step_end_s > moment_s).sum())


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where an attempt went on."""

    from_step: int | None
    """The step of the whole run, from 0 on, with which it began; None where that is not known."""
    again: int | None
    """So many of its steps had been done before; None where that is not known."""


def attempts_of_ranks(starts: Iterable[Sequence[ProcessRecord]]) -> list[Attempt]:
    """The attempts of a job, of the records of each, in order; of many ranks some, the first among them."""
    clocks = HostClocks()
    return [
        attempt_of([rank_times(record, clocks.offset_ns(record)) for record in some_ranks(records)])
        for records in starts
    ]


def some_ranks(records: Sequence[ProcessRecord]) -> list[ProcessRecord]:
    """Those of the ranks that are looked at."""
    looked_at = ranks_to_look_at(max((record.rank for record in records), default=0) + 1)
    found = [record for record in records if record.rank in looked_at]
    return sorted(found or records[:1], key=lambda record: record.rank)


def ranks_to_look_at(count: int) -> frozenset[int]:
    """Of many ranks some that are enough to say how far the job came, the first and the last among them."""
    if count <= _MOST_RANKS:
        return frozenset(range(count))
    return frozenset(round(row * (count - 1) / (_MOST_RANKS - 1)) for row in range(_MOST_RANKS))


def attempt_of(ranks: Sequence[RankTimes]) -> Attempt:
    """An attempt, of its ranks."""
    marked = [rank for rank in ranks if len(rank.step_end_s)]
    known = [rank for rank in ranks if np.isfinite(rank.first_call_s)]
    main = max(marked, key=lambda rank: (int(rank.step_number[-1]), -rank.rank)) if marked else None
    first_s = last_s = float("nan")
    if main is not None:
        first_s, last_s = float(main.step_start_s[0]), float(main.step_end_s[-1])
    elif known:
        first_s, last_s = min(r.first_call_s for r in known), max(r.last_call_s for r in known)
    return Attempt(
        start_s=min(rank.start_s for rank in ranks),
        end_s=max(rank.end_s for rank in ranks),
        first_step_s=first_s,
        last_step_s=last_s,
        step_end_s=main.step_end_s if main is not None else np.zeros(0),
        steps=int(main.step_number[-1]) + 1 if main is not None else 0,
        is_marked=main is not None,
        checkpoints=_together(rank.checkpoints for rank in ranks),
        evaluations=_together(rank.evaluations for rank in ranks),
        files=tuple(sorted((file for rank in ranks for file in rank.files), key=lambda file: file.end_s)),
        failure=_failure(ranks),
    )


def _failure(ranks: Sequence[RankTimes]) -> str:
    exits = [rank for rank in ranks if rank.status > 0]
    killed = [rank for rank in ranks if not rank.has_end]
    said = []
    if exits:
        first = min(exits, key=lambda rank: rank.end_s)
        said.append(f"rank {first.rank}: exit code {first.status}")
    if killed:
        said.append(f"rank {killed[0].rank} killed" if len(killed) == 1 else f"{len(killed)} ranks killed")
    return "; ".join(said)


def _together(intervals: Iterable[FloatArray]) -> FloatArray:
    return joined(np.concatenate([np.zeros((0, 2)), *intervals]))


def resumed(attempts: Sequence[Attempt]) -> list[Resumed]:
    """Where each attempt went on, by the checkpoints that it read; attempts are in order."""
    found: list[Resumed] = []
    furthest: int | None = 0
    for number, attempt in enumerate(attempts):
        base = _base(attempts[:number], found, attempt) if number else 0
        again = None
        if not any(one.steps for one in attempts[:number]):
            base, again = 0, 0
        elif not attempt.steps:
            again = 0
        elif base is not None and furthest is not None:
            again = min(max(furthest - base, 0), attempt.steps)
        found.append(Resumed(base, again))
        if furthest is not None and attempt.steps:
            furthest = max(furthest, base + attempt.steps) if base is not None else None
    return found


def _base(before: Sequence[Attempt], resumed_at: Sequence[Resumed], attempt: Attempt) -> int | None:
    """The step of the checkpoint that an attempt read first; None where it read none that an earlier one wrote."""
    saves = [
        (file, at) for earlier, at in zip(before, resumed_at, strict=True) for file in earlier.files if not file.is_load
    ]
    owner = {id(file): number for number, earlier in enumerate(before) for file in earlier.files}
    for load in attempt.files:
        if not load.is_load:
            continue
        same = [pair for pair in saves if _is_same(pair[0], load)]
        if not same:
            continue
        file, at = max(same, key=lambda pair: pair[0].end_s)
        done = before[owner[id(file)]].steps_until(file.end_s)
        return None if at.from_step is None else at.from_step + done
    return None


def _is_same(save: CheckpointFile, load: CheckpointFile) -> bool:
    if save.end_s > load.start_s:
        return False
    return save.inode == load.inode if save.inode and load.inode else save.file == load.file
