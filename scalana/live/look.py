"""Looks at a run that goes on, again and again: what it was told before is not read again."""

from __future__ import annotations

import socket
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from scalana.errors import RunDataError
from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.live.now import Moment, moment_of
from scalana.live.productive import LiveCourse
from scalana.live.run_tail import RunTail
from scalana.live.step_history import RankHistory, StepHistory
from scalana.live.view import Analysed, Cause, View

if TYPE_CHECKING:
    from scalana.api import Report
    from scalana.detectors.finding import Finding
    from scalana.live.last_steps import LastSteps

_FIRST_S = 30.0
"""Seconds that are looked at, as long as it is not known how long steps take."""
_LEAST_S, _MOST_S = 2.0, 600.0
_AIM_S = 0.3
"""CPU seconds of an analysis."""
_STEPS_SHOWN = 480
_CAUSES = 5
_OF_LATE_RANKS = ("late-ranks", "serial")


class Looker:
    """Looks at one run.

    Args:
        folder: the run folder.
        steps: how many of the last steps are analysed.
    """

    def __init__(self, folder: str, steps: int) -> None:
        self.folder = folder
        self.steps = steps
        self._run = RunFolder(folder)
        self._tail = RunTail(folder, _FIRST_S)
        self._shown: deque[tuple[int, float]] = deque(maxlen=_STEPS_SHOWN)
        self.history = StepHistory()
        """All steps that were seen."""
        self._known: dict[tuple[str, str, int, tuple[int, ...]], Cause] = {}
        self._analysed: Analysed | None = None
        self._last_steps: LastSteps | None = None
        self._ranks = RankHistory()
        self._course = LiveCourse(folder)

    def __enter__(self) -> Looker:
        return self

    def __exit__(self, *_: object) -> None:
        self._tail.__exit__()

    def look(self, *, analyse: bool = True) -> View:
        """The run as it is now; with ``analyse``, the causes are those of the last steps, else those of last time.

        Raises:
            RunDataError: it has no record that can be read.
        """
        self._tail.update()
        part = self._tail.write()
        moment = moment_of(part)
        info, behind_s = self._run.info, _behind_s(moment)
        self._take_steps(moment)
        if analyse:
            begin_s = time.process_time()
            self._analysed = self._analyse(part, moment)
            if not moment.step_s:
                self._fit(time.process_time() - begin_s)
        start = info.get("start_unix_s")
        now, exit_code = time.time(), info.get("exit_code")
        ran = info.get("seconds") if exit_code is not None else None
        return View(
            folder=self.folder,
            command=tuple(map(str, info.get("command") or ())),
            going_on=moment.going_on,
            exit_code=exit_code,
            seconds=float(ran) if ran is not None else now - start if start else 0.0,
            behind_s=behind_s,
            unix_s=now,
            steps=tuple(self._shown),
            analysed=self._analysed,
            moment=replace(moment, records=()),
            course=self._course.look(moment.records, moment.going_on),
        )

    def _take_steps(self, moment: Moment) -> None:
        """Add the steps that are new."""
        last = self._shown[-1][0] if self._shown else -1
        self._shown.extend((step, seconds) for step, seconds in moment.step_s.items() if step > last)
        self.history.add(moment.step_s, time.time() - _behind_s(moment))
        if moment.step_s:
            self._keep(sorted(moment.step_s.values())[len(moment.step_s) // 2])

    def _keep(self, step_s: float) -> None:
        """Have as much at hand as the last steps take."""
        self._tail.keep_s = min(max(step_s * (self.steps + 2), _LEAST_S), _MOST_S)

    def _fit(self, spent_s: float) -> None:
        """Have as much at hand as the last steps take that communication shows; without any, what can be analysed in
        little time."""
        if self._analysed is not None and self._analysed.step_s:
            self._keep(self._analysed.step_s)
        elif spent_s > _AIM_S:
            self._tail.keep_s = max(self._tail.keep_s * _AIM_S / spent_s, _LEAST_S)

    def _analyse(self, part: str, moment: Moment) -> Analysed | None:
        from scalana.live.last_steps import LastSteps  # a job that is only listened to needs none of it

        if self._last_steps is None:
            self._last_steps = LastSteps()
        try:
            report = self._last_steps.analyze(part, self.steps, self._ranks.work)
        except RunDataError:
            return None
        steps = report.analysis.steps
        is_numbered = steps is not None and bool(moment.step_s)
        if is_numbered:
            self._ranks.add(report.analysis)
        return Analysed(
            first_step=int(steps.number[0]) if steps is not None and is_numbered else None,
            last_step=int(steps.number[-1]) if steps is not None and is_numbered else None,
            step_s=float(steps.length_s().mean()) if steps is not None else 0.0,
            parts=_parts(report),
            causes=tuple(self._causes(report, moment)),
            steps=len(steps) if steps is not None else 0,
        )

    def _causes(self, report: Report, moment: Moment) -> list[Cause]:
        """The largest faults, each with since when it is known; those that are gone are forgotten."""
        from scalana.report.findings.order import faults_of

        first, found = self._analysed is None, []
        for finding in faults_of(report.analysis)[:_CAUSES]:
            cause = self._since(_cause(report, finding, moment), finding)
            known = self._known.get(cause.key, replace(cause, is_older=cause.is_older and first))
            known = cause if cause.begins and not known.begins else known
            since = {name: getattr(known, name) for name in ("since_step", "since_unix_s", "is_older", "begins")}
            found.append(replace(cause, **since))
        self._known = {cause.key: cause for cause in found}
        return found

    def _since(self, cause: Cause, finding: Finding) -> Cause:
        """A cause with the step from which on it is there, where earlier steps show that."""
        slow, began = finding.evidence.slow_rank, None
        if slow is not None:
            began = slow.slow_since
        elif finding.kind in _OF_LATE_RANKS:
            began = self._ranks.since(finding.ranks)
        if began is None or cause.begins or cause.since_step is None:
            return cause
        since_unix_s = self.history.begin_unix_s(began) or cause.since_unix_s
        return replace(cause, since_step=began, since_unix_s=since_unix_s, is_older=False, begins=True)


def _cause(report: Report, finding: Finding, moment: Moment) -> Cause:
    """A finding in short. It is there since the step from which on it costs more, or else since the first one that was
    looked at."""
    from scalana.report import names
    from scalana.report.findings.claims import claim

    run, steps, trend = report.analysis.ppg.run, report.analysis.steps, finding.evidence.over_steps
    since = None if steps is None else int(steps.number[0])
    if trend is not None and trend.from_step is not None:
        since = trend.from_step
    ago_s = 0.0
    if steps is not None and since is not None:
        start, end = steps.on_all_ranks()
        row = int(abs(steps.number - since).argmin())
        ago_s = float(end[-1].max() - start[row].min())
    return Cause(
        kind=finding.kind,
        what=claim(finding, run.ranks, run.names),
        file=names.relative(finding.file, run.cwd),
        line=finding.line,
        function=finding.function,
        ranks=tuple(sorted(finding.ranks)),
        who=moment.names.many(finding.ranks, run.ranks),
        lost_share=finding.lost_share,
        saving_share=max(finding.saving_s or 0.0, 0.0) / run.seconds if run.seconds else 0.0,
        since_step=since if moment.step_s else None,
        since_unix_s=time.time() - ago_s,
        is_older=trend is None or trend.from_step is None,
        begins=trend is not None and trend.from_step is not None,
        is_whole=finding.evidence.slow_rank is not None,
    )


def _parts(report: Report) -> tuple[tuple[str, float], ...]:
    """Where the time of the ranks goes."""
    from scalana.report.topics.time import PARTS, shown_time

    time_split = shown_time(report.analysis)
    total = time_split.total_s
    if total <= 0:
        return ()
    return tuple((name, getattr(time_split, field) / total) for field, name in PARTS.items())


def _behind_s(moment: Moment) -> float:
    """How long ago the latest recorded moment is; 0 where only another host's clock tells."""
    if socket.gethostname() not in moment.hosts:
        return 0.0
    return max(time.monotonic() - moment.latest_ns * 1e-9, 0.0)
