"""The library: analyse a recorded run, and look at what comes out."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scalana import analysis_home
from scalana.errors import ClusterError, RunDataError

if TYPE_CHECKING:
    import pandas

    from scalana.cluster import Cluster
    from scalana.detectors.account import TimeSplit
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.facts import Outside
    from scalana.detectors.finding import Finding
    from scalana.detectors.pipeline.plans.proposal import Proposal
    from scalana.graphs.ppg import PPG
    from scalana.graphs.readers.folder.run_folder import RunFolder

Source = str | os.PathLike[str] | Mapping[str, str] | None
"""Where the sources of a run are; see :func:`analyze`."""
STRICT = "SCALANA_STRICT"
"""Variable by which the analysis ends where a part of it fails, rather than go on without."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an analysis found.

    >>> report = scalana.analyze("run-dir")                          # doctest: +SKIP
    >>> for finding in report.findings:                              # doctest: +SKIP
    ...     print(finding.file, finding.line, finding.ranks, finding.saving_s)
    """

    analysis: Analysis

    @property
    def findings(self) -> list[Finding]:
        """Root causes, largest loss first."""
        from scalana.detectors.ranking import ranked

        return ranked(self.analysis.findings)

    @property
    def ppg(self) -> PPG:
        """The Program Performance Graph: structure, metrics ``[vertices, ranks]``, timeline."""
        return self.analysis.ppg

    @property
    def time(self) -> TimeSplit:
        """Where the rank-seconds went."""
        return self.analysis.time

    @property
    def warnings(self) -> list[str]:
        """What to know about the quality of the record."""
        from scalana.report.findings.order import warnings

        return warnings(self.analysis)

    def frame(self) -> pandas.DataFrame:
        """One row per vertex and rank at which anything was measured.

        Columns: ``vertex``, ``rank``, ``kind``, ``function``, ``name``, ``file``, ``line``, ``end_line``, and one for
        every metric of the PPG; those that end in ``_s`` are seconds.
        """
        return self.ppg.frame()

    def findings_frame(self) -> pandas.DataFrame:
        """One row per finding, largest loss first: kind, place, ``ranks``, ``lost_s``, ``lost_share``, ``saving_s``."""
        import pandas

        columns = "kind file line end_line function vertex vertex_kind ranks lost_s lost_share saving_s advice".split()
        rows = [[getattr(finding, column) for column in columns] for finding in self.findings]
        return pandas.DataFrame(rows, columns=columns)

    def to_json(self) -> str:
        """The report as JSON (schema ``scalana.report/1``)."""
        from scalana.report import json

        return json.render(self.analysis)

    def to_sarif(self) -> str:
        """The findings as SARIF 2.1.0, for editors and code review tools."""
        from scalana.report import sarif

        return sarif.render(self.analysis)

    def to_html(self) -> str:
        """The report as one page of HTML that needs no script and no network."""
        from scalana.report.html import page

        return page.render(self.analysis)

    def to_timeline(self) -> str | None:
        """A step of the run's pipeline as SVG; None where the run shows no pipeline."""
        from scalana.report.topics.pipelines.pipeline import timeline

        return timeline(self.analysis)

    def plan(self) -> Proposal | None:
        """A faster plan for the run's pipeline, found by a short search; None where nothing is predicted."""
        pipelines = self.analysis.sections.get("pipeline")
        return pipelines[0].proposal if isinstance(pipelines, list) and pipelines else None

    def to_text(self, *, width: int = 100, color: bool = False) -> str:
        """The report for people, in at most ``width`` columns, with ANSI colours if ``color``."""
        from scalana.report import text

        return text.render(self.analysis, width=width, color=color)

    def __str__(self) -> str:
        return self.to_text()


def analyze(
    run: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    launch: int | None = None,
    steps: tuple[int, int] | int | None = None,
    source: Source = None,
    scheduler: str | Cluster | None = None,
    progress: Callable[..., None] | None = None,
) -> Report:
    """Analyse a run folder. Of a run that is still going on, it is what there is so far.

    Args:
        run: The folder that ``scalana run`` or :func:`scalana.profile` made; several with the parts of one job.
        launch: Which launch, from 1 on, where the job started its ranks several times (a script with several
            ``mpirun``); None for the longest.
        steps: First and last step (both included) to which the analysis is restricted, or how many of the last ones
            (the first of all, which holds the start-up, is never among these); None for the whole run.
        source: A folder with the sources, if they are not where the job ran: it stands for the working directory of the
            job. A mapping names other folders of the job, and where each is now.
        scheduler: Address of a Dask scheduler whose workers read the records (``pip install 'scalana[dask]'``), or a
            connection to one; None to read them here.
        progress: Called now and then with what is being done, how much of it is done, and how much there is.

    Raises:
        RunDataError: the folder is no run, its records cannot be read, or it has no such launch or steps.
        ClusterError: the scheduler or its workers cannot be used.
        AnalysisMissing: this Python lacks packages that the analysis needs.
    """
    analysis_home.require()
    paths: list[str | os.PathLike[str]] = [run] if isinstance(run, (str, os.PathLike)) else list(run)
    path, *more = [os.fspath(one) for one in paths]
    if source is not None and scheduler is not None:
        raise ClusterError("sources in another place cannot be used with a scheduler: leave out one of the two")
    for one in (path, *more):
        if not os.path.isdir(one):
            reason = "not a folder" if os.path.exists(one) else "no such folder"
            raise RunDataError(f"{one}: {reason}")
    from scalana import detectors
    from scalana.detectors.compile_ahead import compiling_ahead
    from scalana.frontend.build import structure_of_run
    from scalana.graphs.ppg import build_ppg, read_here
    from scalana.kept_frames import KeptFrames, symbols

    changed: list[str] = []
    lacking: list[str] = []
    structure = functools.partial(structure_of_run, lacking)
    with compiling_ahead(), no_collections(), data_errors(path):
        folder = _run_folder(path, launch, source, more)
        kept = KeptFrames(path)
        lookup = functools.partial(symbols, changed, kept, folder.moved)
        with connected(scheduler) as cluster:
            reader = cluster.read if cluster is not None else read_here
            ppg = build_ppg(folder, reader=reader, front_end=structure, symbols=lookup, progress=progress)
        kept.write()
        gone = [
            f"{path} changed after the run (rebuilt or removed): its recorded code has no lines" for path in changed
        ]
        ppg = replace(ppg, run=replace(ppg.run, warnings=[*ppg.run.warnings, *lacking, *gone]))
        if isinstance(steps, tuple):
            return Report(_analyze_part(path, ppg, steps))
        if steps is not None:
            return Report(analyze_last(ppg, steps, _outside()))
        return Report(detectors.analyze(ppg, outside=_outside()))


@contextmanager
def data_errors(path: str) -> Iterator[None]:
    """What is wrong with the records of a run folder, or its files, as the error for users."""
    from scalana.runtime.record.format import RecordError

    try:
        yield
    except RecordError as error:
        raise RunDataError(str(error)) from error
    except OSError as error:
        raise RunDataError(f"{error.filename or path}: {error.strerror or error}") from error


def _run_folder(path: str, launch: int | None, source: Source, more: Sequence[str]) -> RunFolder:
    from scalana.graphs.readers.folder.run_folder import RunFolder

    folders = {} if source is None or isinstance(source, (str, os.PathLike)) else dict(source)
    own = None if source is None or folders else os.fspath(source)  # type: ignore[arg-type]
    for folder in (*folders.values(), *([own] if own is not None else [])):
        if not os.path.isdir(folder):
            raise RunDataError(f"source {folder}: no such folder")
    return RunFolder(path, launch, folders.pop("", own), folders, more)


def _analyze_part(path: str, ppg: PPG, window: tuple[int, int]) -> Analysis:
    """The analysis of some steps alone."""
    from scalana import detectors
    from scalana.detectors.when.step_marks import steps_of
    from scalana.detectors.when.step_range import StepError, part_of

    try:
        part, steps = part_of(ppg, steps_of(ppg), *window)
    except StepError as error:
        raise RunDataError(f"{path}: {error}") from error
    return detectors.analyze(part, steps, _outside(), window)


def analyze_last(ppg: PPG, count: int, outside: Outside | None = None, causes_only: bool = False) -> Analysis:
    """The analysis of the last steps alone, without the first of all; of everything where there are no others. With
    ``causes_only`` it says no more than a view of a run that goes on shows."""
    from scalana import detectors
    from scalana.detectors.when.step_marks import steps_of
    from scalana.detectors.when.step_range import part_of

    steps = steps_of(ppg)
    if steps is None or len(steps) < 2:
        return detectors.analyze(ppg, outside=outside, causes_only=causes_only)
    window = int(steps.number[max(len(steps) - count, 1)]), int(steps.number[-1])
    part, chosen = part_of(ppg, steps, *window)
    return detectors.analyze(part, chosen, outside, window, causes_only)


def _outside() -> Outside:
    """Models by the front end, and what machines can do where that was measured."""
    from scalana.calibration.ceilings import ceilings_of
    from scalana.detectors.facts import Outside
    from scalana.frontend.models.recorded import with_models

    strict = os.environ.get(STRICT) == "1"
    return Outside(with_models, lambda ppg: ceilings_of(ppg, os.environ), strict=strict)


@contextmanager
def no_collections() -> Iterator[None]:
    """Leave out the search for garbage in cycles, of which an analysis leaves little: it would look at the many objects
    of a large run's records over and over."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def connected(scheduler: str | Cluster | None) -> Iterator[Cluster | None]:
    """A connection to a scheduler, made here and closed in the end if an address is given."""
    if not isinstance(scheduler, str):
        yield scheduler
        return
    from scalana.cluster import Cluster

    with Cluster(scheduler) as cluster:
        yield cluster
