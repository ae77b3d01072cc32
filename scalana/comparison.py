"""The library: several runs of one program, compared by size or before and after a change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalana import analysis_home
from scalana.api import Source, analyze, connected
from scalana.errors import RunDataError

if TYPE_CHECKING:
    from scalana.detectors.finding import Finding
    from scalana.detectors.runs.diff import Difference
    from scalana.detectors.runs.scaling import Scaling

RunPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class ScalingReport:
    """What runs at different numbers of ranks tell.

    >>> report = scalana.scaling(["run-2", "run-4", "run-8"], at=64)         # doctest: +SKIP
    >>> for finding in report.findings:                                      # doctest: +SKIP
    ...     print(finding.file, finding.line, finding.lost_s, finding.evidence.as_dict().get("model"))
    """

    scaling: Scaling

    @property
    def findings(self) -> list[Finding]:
        """Places that lose, largest loss first: at the size asked for, or else at the largest size."""
        return self.scaling.findings

    def to_json(self) -> str:
        """The comparison as JSON (schema ``scalana.scaling/1``)."""
        from scalana.report.compare import scaling_json

        return scaling_json.render(self.scaling)

    def to_text(self, *, width: int = 100, color: bool = False) -> str:
        """The comparison for people, in at most ``width`` columns."""
        from scalana.report.compare import scaling_text

        return scaling_text.render(self.scaling, width=width, color=color)

    def __str__(self) -> str:
        return self.to_text()


@dataclass(frozen=True, slots=True)
class DiffReport:
    """What changed between two runs."""

    difference: Difference

    def to_json(self) -> str:
        """The changes as JSON (schema ``scalana.diff/1``)."""
        from scalana.report.compare import diff_json

        return diff_json.render(self.difference)

    def to_text(self, *, width: int = 100, color: bool = False) -> str:
        """The changes for people, in at most ``width`` columns."""
        from scalana.report.compare import diff_text

        return diff_text.render(self.difference, width=width, color=color)

    def __str__(self) -> str:
        return self.to_text()


def scaling(
    runs: Sequence[RunPath],
    *,
    stated: str | None = None,
    at: int | None = None,
    source: Source = None,
    scheduler: str | None = None,
    progress: Callable[..., None] | None = None,
) -> ScalingReport:
    """Compare recorded runs of one program at different numbers of ranks.

    Args:
        runs: Run folders, in any order; several of one size tell the noise.
        stated: ``weak`` or ``strong``; None to tell by the work that was done.
        at: A number of ranks for which to predict; needs three sizes.
        source, scheduler, progress: As for :func:`scalana.analyze`.

    Raises:
        RunDataError: a folder cannot be used or is given twice, or all runs are of one size.
        ClusterError: the scheduler or its workers cannot be used.
        AnalysisMissing: this Python lacks packages that the analysis needs.
    """
    analysis_home.require()
    from scalana.detectors.runs.costs import run_costs
    from scalana.detectors.runs.scaling import ScalingError, detect

    known: set[str] = set()
    for path in runs:
        if os.path.realpath(path) in known:
            raise RunDataError(f"{os.fspath(path)}: given twice; to measure variation, record another run of that size")
        known.add(os.path.realpath(path))

    costs, reference, largest = [], -1, None
    with connected(scheduler) as cluster:
        for number, path in enumerate(runs):
            analysis = analyze(path, source=source, scheduler=cluster, progress=_named(progress, path)).analysis
            costs.append(run_costs(analysis, os.fspath(path)))
            # Only one analysis is kept: those of large runs are large.
            if largest is None or analysis.ppg.run.ranks > largest.ppg.run.ranks:
                reference, largest = number, analysis
    if largest is None:
        raise RunDataError("no run folders")
    try:
        return ScalingReport(detect(costs, reference, largest, stated=stated, at=at))
    except ScalingError as error:
        raise RunDataError(str(error)) from error


def diff(
    before: RunPath,
    after: RunPath,
    *,
    source: Source = None,
    scheduler: str | None = None,
    progress: Callable[..., None] | None = None,
) -> DiffReport:
    """Compare two recorded runs of one program, whose code may have been changed in between.

    ``source``, ``scheduler`` and ``progress`` are as for :func:`scalana.analyze`.

    Raises:
        RunDataError: a folder cannot be used.
        ClusterError: the scheduler or its workers cannot be used.
        AnalysisMissing: this Python lacks packages that the analysis needs.
    """
    analysis_home.require()
    from scalana.detectors.runs.costs import run_costs
    from scalana.detectors.runs.diff import compare

    with connected(scheduler) as cluster:
        first, second = (
            analyze(path, source=source, scheduler=cluster, progress=_named(progress, path)).analysis
            for path in (before, after)
        )
    return DiffReport(
        compare(run_costs(first, os.fspath(before)), run_costs(second, os.fspath(after)), (first, second))
    )


def _named(progress: Callable[..., None] | None, path: RunPath) -> Callable[..., None] | None:
    """``progress``, with the name of the run in front of what is being done."""
    if progress is None:
        return None
    name = os.path.basename(os.path.normpath(os.fspath(path)))
    return lambda what, *numbers: progress(f"{name}: {what}", *numbers)
