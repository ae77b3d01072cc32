"""Where workloads come from: a recorded run, a file of a workload, or what another tool wrote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from scalana.runtime.record import layout
from scalana.workload.errors import WorkloadError
from scalana.workload.formats.entries import paths_below, read_file
from scalana.workload.formats.table import read_files
from scalana.workload.trajectories import Workload


def is_run(path: str) -> bool:
    """Whether a path is a run folder."""
    return os.path.isdir(path) and (os.path.exists(layout.info_file(path)) or bool(layout.record_files(path)))


def read_workload(paths: Sequence[str]) -> Workload:
    """The workload of a run folder, or of some files and folders.

    Raises:
        WorkloadError: there is none; the message names the path.
        RunDataError: a run folder cannot be analysed.
    """
    runs = [path for path in paths if is_run(path)]
    if not runs:
        return read_files([read_file(one) for path in paths for one in paths_below(path)])
    if len(paths) > 1:
        raise WorkloadError(f"{runs[0]}: a run folder stands alone; give one run, or files")
    return _of_run(runs[0])


def _of_run(folder: str) -> Workload:
    from scalana import api
    from scalana.detectors.rl.account import RLAccount
    from scalana.detectors.rl.detector import SECTION
    from scalana.workload.from_run import workload_of

    account = api.analyze(folder).analysis.sections.get(SECTION)
    if not isinstance(account, RLAccount):
        raise WorkloadError(
            f"{folder}: no reinforcement learning phases were recorded on all ranks; name them with "
            "scalana.rl.phase (docs/rl-recording.md)"
        )
    return replace(workload_of(account, folder), source=folder)
