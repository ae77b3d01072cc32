"""A step for a picture: which process did what when, and what it waited for."""

from __future__ import annotations

import numpy as np

from scalana.detectors.rl.account import Bar, StepPicture, TrajectoryBar
from scalana.detectors.rl.cause_table import CAUSES
from scalana.detectors.rl.causes import Split
from scalana.detectors.rl.charges import Charges
from scalana.detectors.rl.loop import DOINGS, IN_WAIT, Loop
from scalana.detectors.rl.phases import TEXT, Doing
from scalana.detectors.thresholds.shares import TOO_SMALL
from scalana.graphs.spans.span_columns import Spans


def picture_of(loop: Loop, charges: Charges, parts: Split, spans: Spans) -> StepPicture:
    """The step in which processes waited most."""
    step = int(loop.own_s[:, :, IN_WAIT].sum(axis=0).argmax())
    zero_s = min(float(process.bounds_s[step]) for process in loop.processes)
    end_s = max(float(process.bounds_s[step + 1]) for process in loop.processes)
    picture = StepPicture(loop.first + step, end_s - zero_s)
    for rank, process in enumerate(loop.processes):
        bounds = process.bounds_s[step : step + 2]
        at = np.flatnonzero((process.time_s[1:] > bounds[0]) & (process.time_s[:-1] < bounds[1]))
        done = np.diff(process.done_s, axis=0)[at].argmax(axis=1)
        for piece, column in zip(at.tolist(), done.tolist(), strict=True):
            begin, end = (float(each) for each in np.clip(process.time_s[piece : piece + 2], *bounds))
            if column == IN_WAIT:
                text, waits = _cause_at(rank, begin, end, step, charges, parts), True
            else:
                text, waits = ("communication" if column >= DOINGS else TEXT[Doing(column)]), False
            last = picture.bars[-1] if picture.bars else None
            if last and (last.rank, last.doing, last.waits) == (rank, text, waits) and last.end_s == begin - zero_s:
                last.end_s = end - zero_s
            else:
                picture.bars.append(Bar(rank, begin - zero_s, end - zero_s, text, waits))
    least = TOO_SMALL * picture.length_s
    picture.bars = [bar for bar in picture.bars if bar.end_s - bar.begin_s >= least]
    made = loop.trajectories
    for row in np.flatnonzero(made.step == step).tolist():
        begin, end = float(made.start_s[row]) - zero_s, float(made.end_s[row]) - zero_s
        picture.trajectories.append(
            TrajectoryBar(int(made.rank[row]), name_of(spans, int(made.span[row])), begin, end, float(made.tokens[row]))
        )
    return picture


def _cause_at(rank: int, begin_s: float, end_s: float, step: int, charges: Charges, parts: Split) -> str:
    """Of what cause a process waits, most of it."""
    mine = np.flatnonzero((charges.waiter == rank) & (charges.step == step) & (np.abs(charges.end_s - end_s) < 1e-6))
    if not len(mine):
        mine = np.flatnonzero((charges.waiter == rank) & (charges.step == step) & (charges.end_s > begin_s))
        if not len(mine):
            return CAUSES[-1].key
        mine = mine[charges.end_s[mine] == charges.end_s[mine].min()]
    amount = (charges.seconds[mine, None] * parts.part[mine]).sum(axis=0)
    return CAUSES[int(amount.argmax())].key


def name_of(spans: Spans, span: int) -> str:
    """What a trajectory is called."""
    return str(spans.attributes(span).get("id", span))
