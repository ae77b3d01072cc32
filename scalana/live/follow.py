"""Follows a run to its end, and prints a line where its user has to know something: a verdict, a change, a hang.

As long as nothing is to be found out, only what is appended to the records is read, by code that needs no more than the
standard library; what explains a hang is loaded ahead only where the user gives a limit. All that is
done with the lowest priority, as the job needs the processor; but where the job comes no further, its ranks may wait in
loops on all cores, and the lowest priority would get next to nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from scalana.errors import RunDataError
from scalana.job.follower import ABORT
from scalana.live.aside import Aside
from scalana.live.movement import Movement
from scalana.live.quiet import Quiet
from scalana.live.run_tail import RunTail
from scalana.live.view import View
from scalana.runtime.record import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.live.look import Looker
    from scalana.live.view import Analysed

_EVERY_S = 2.0
_VERDICT_EVERY_S = 30.0
_SHARE = 0.008
"""Of a core, that verdicts may take: after a long analysis, the next one comes later. The first, which loads
what it needs, is not counted: a change would be said many minutes late."""
_UNMARKED_AFTER_S = 20.0
"""A job that marks no step by then is taken for one that marks none: its steps are those that communication shows."""
_KEPT_S = 20.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What somebody wants to be told."""

    verdict_after: int | None = None
    """Steps after which the first verdict is given; None for no verdicts."""
    hangs: bool = True
    hang_after_s: float | None = None
    """Seconds without progress that are a hang; None to go by the job's own pauses."""
    aborts: bool = False
    """Whether a hang is to end the job."""


class Follower:
    """Follows one run.

    Args:
        folder: the run folder.
        orders: what is looked for.
        say: takes each line that is to be printed.
    """

    def __init__(self, folder: str, orders: Orders, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._orders = orders
        self._say = say
        self._quiet = Quiet(orders.hang_after_s)
        self._movement = Movement()
        self._aside = Aside()
        self._is_hanging = False
        self._hangs: list[dict[str, object]] = layout.hangs(folder)

    def run(self, is_over: Callable[[], bool]) -> int:
        """Follow until the run has ended, or ``is_over``. Returns the exit code."""
        return self._aside.run(lambda: self._follow(lambda: is_over() or self._aside.is_left()))

    def _follow(self, is_over: Callable[[], bool]) -> int:
        verdicts = _VerdictTimes(self._folder, self._orders, self._say) if self._orders.verdict_after else None
        if self._orders.hangs and self._orders.hang_after_s is not None:
            self._aside.urgently(_load)
        try:
            with RunTail(self._folder, _KEPT_S, keeps_progress=True) as tail:
                while not (is_over() or tail.is_over()):
                    tail.update()
                    if self._orders.hangs and self._hangs_now(tail):
                        return ABORT
                    if verdicts is not None:
                        verdicts.look()
                    self._aside.is_left(_EVERY_S)
        finally:
            if verdicts is not None:
                verdicts.close()
        return 0

    def _hangs_now(self, tail: RunTail) -> bool:
        """Look for a hang, and explain it when it is found. Whether the job is to be ended."""
        quiet_s, has_begun = tail.quiet()
        came_further = self._quiet.take(quiet_s, has_begun)
        if came_further and self._is_hanging:
            self._is_hanging = False
            self._hangs[-1]["until_unix_s"] = time.time() - quiet_s
            self._keep_hangs()
            self._say("the job goes on: ranks come further again")
        if not self._quiet.is_due():
            self._movement = Movement()
        if self._is_hanging or not self._quiet.is_due():
            return False
        return self._aside.urgently(lambda: self._looks_close(tail, quiet_s))

    def _looks_close(self, tail: RunTail, quiet_s: float) -> bool:
        """Look at what the ranks do, and explain it if that is a hang. Whether the job is to be ended."""
        from scalana.live.hang import explain
        from scalana.live.now import moment_of
        from scalana.runtime.record.format import RecordError

        try:
            part = tail.write()
            moment = moment_of(part)
        except RecordError:
            return False
        moves = self._movement.look(moment)
        if self._movement.is_debugged or not moment.going_on or not self._quiet.is_hang(moves):
            return False
        self._is_hanging = True
        self._hangs.append({"since_unix_s": time.time() - quiet_s})
        lines = explain(part, moment, quiet_s, self._quiet.limit_s)
        self._say("\n".join(lines))
        _keep(os.path.join(self._folder, f"hang-{len(self._hangs)}.txt"), lines)
        self._keep_hangs()
        return self._orders.aborts

    def _keep_hangs(self) -> None:
        """Keep when the job hung, for its report."""
        with contextlib.suppress(OSError):
            layout.write_json(layout.hangs_file(self._folder), {"hangs": self._hangs})


def _load() -> None:
    """Load what a hang is explained by: on cores that are busy, that takes seconds."""
    from scalana import analysis_home
    from scalana.errors import CommandError

    with contextlib.suppress(ImportError, CommandError):  # it is said where it is needed
        analysis_home.require()
        from scalana.detectors.hang import detector  # noqa: F401
        from scalana.detectors.late_ranks import detector as late_ranks  # noqa: F401
        from scalana.live import hang, now  # noqa: F401
        from scalana.report.findings import claims  # noqa: F401


class _VerdictTimes:
    """Looks for verdicts, as often as they are worth it."""

    def __init__(self, folder: str, orders: Orders, say: Callable[[str], None]) -> None:
        from scalana.live.verdicts import Verdicts

        self._folder = folder
        self._after = orders.verdict_after or 0
        self._say = say
        self._verdicts = Verdicts()
        self._looker: Looker | None = None
        self._next_s = 0.0
        self._next_step = 0
        self._first_step: int | None = None
        self._loaded: set[float] = set()

    def look(self) -> None:
        """Give a verdict if it is time for one."""
        if time.monotonic() < self._next_s:
            return
        begin = time.process_time()
        try:
            view = self._view()
        except RunDataError:
            return
        last = view.steps[-1][0] if view.steps else -1
        if self._first_step is None and view.steps:
            self._first_step = view.steps[0][0]
            self._next_step = self._first_step + self._after
        self._next_s = self._later_s(_EVERY_S, begin)
        if not self._is_due(view, last):
            return
        assert self._looker is not None
        analysed = self._looker.look().analysed
        is_enough = analysed is not None and (bool(view.steps) or analysed.steps >= self._after)
        if analysed is not None and is_enough and (line := self._take(analysed)):
            self._say(line)
        self._next_step = last + self._after
        self._next_s = self._later_s(_VERDICT_EVERY_S, begin)

    def _later_s(self, every_s: float, begin_s: float) -> float:
        """When to do again what is done so often at most, and began at a moment of our CPU time."""
        taken_s = time.process_time() - begin_s if every_s in self._loaded else 0.0
        self._loaded.add(every_s)
        return time.monotonic() + max(every_s, taken_s / _SHARE)

    def _take(self, analysed: Analysed) -> str:
        assert self._looker is not None
        return self._verdicts.take(analysed, time.time(), self._looker.history)

    def _is_due(self, view: View, last: int) -> bool:
        """Whether enough steps were made; where none are marked, whether it is worth to look for some."""
        if self._first_step is not None:
            return last >= self._next_step
        return view.seconds >= _UNMARKED_AFTER_S

    def _view(self) -> View:
        from scalana.live.look import Looker
        from scalana.runtime.record.format import RecordError

        if self._looker is None:
            self._looker = Looker(self._folder, self._after)
        try:
            return self._looker.look(analyse=False)
        except RecordError as error:  # there is none yet
            raise RunDataError(str(error)) from error

    def close(self) -> None:
        """Leave nothing behind."""
        if self._looker is not None:
            self._looker.__exit__()


def _keep(file: str, lines: list[str]) -> None:
    """Keep what was said of a hang in the run folder."""
    try:
        with open(file, "w", encoding="utf-8") as opened:
            opened.write("\n".join(lines) + "\n")
    except OSError:
        pass
