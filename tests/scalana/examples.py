"""A run with one late rank, as the detectors would hand it over, for the reports to write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from scalana.detectors.account import TimeSplit
from scalana.detectors.analysis import Analysis
from scalana.detectors.delays.blame import BlameTable
from scalana.detectors.delays.wait_states import WaitStates
from scalana.detectors.evidence import Evidence, PlaceTime
from scalana.detectors.finding import Finding, Hop
from scalana.graphs.metrics import METRICS
from scalana.graphs.ppg import PPG
from scalana.graphs.run_info import RunInfo
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.timeline import Activities, Calls, Instances, Locations, OwnWork, Timeline
from scalana.runtime.operations import BY_NAME

SOURCE = """\
import torch.distributed as dist


def rotate(image):
    return image.rot90()


def augment(batch):
    for image in batch:
        out = rotate(image)
        out = out.flip(0)
    return out


def main():
    for batch in loader:
        augment(batch)
        dist.all_reduce(batch)
"""

LATE_LINE, LATE_END, SYMPTOM_LINE = 9, 11, 18


def structure(file: str) -> PSG:
    """The graph of :data:`SOURCE`: root, main, its loop, augment, its loop, all_reduce."""
    psg = PSG("train.py")
    main = psg.add(VertexKind.FUNCTION, Place(file, 15, 18, 0, "main"), 0)
    steps = psg.add(VertexKind.LOOP, Place(file, 16, 18, 4, "for batch in loader"), main)
    augment = psg.add(VertexKind.FUNCTION, Place(file, 8, 12, 0, "augment"), steps)
    psg.add(VertexKind.LOOP, Place(file, LATE_LINE, LATE_END, 4, "for image in batch"), augment)
    psg.add(VertexKind.COMM, Place(file, SYMPTOM_LINE, 18, 8, "dist.all_reduce"), steps, BY_NAME["allreduce"].code)
    return psg


def late_rank(folder: Path) -> Analysis:
    """Four ranks, ten seconds: rank 2 spends 9 s in augment, the others 3 s, and they wait 6 s each for it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "train.py"
    file.write_text(SOURCE)
    psg = structure(str(file))
    work = np.zeros((len(psg), 4))
    work[4] = [3.0, 3.0, 9.0, 3.0]
    comm = np.zeros_like(work)
    comm[5] = [6.5, 6.5, 0.5, 6.5]
    wait = np.zeros_like(work)
    wait[5] = [6.0, 6.0, 0.0, 6.0]
    stall = np.zeros_like(work)
    stall[4] = [0.0, 0.0, 1.0, 0.0]
    metrics = {name: np.zeros_like(work) for name in METRICS}
    metrics |= {"time_s": work + comm, "cpu_s": work - stall, "stall_s": stall, "comm_s": comm, "wait_s": wait}
    run = RunInfo(
        ranks=4,
        seconds=10.0,
        command=["torchrun", "--nproc-per-node", "4", "train.py"],
        exit_code=0,
        rate_hz=200.0,
        cwd=str(folder),
        calls_of_rank=[50, 50, 52, 50],
        comm_s_of_rank=[6.5, 6.5, 0.5, 6.5],
        warnings=["rank 3: a block of its record is damaged"],
    )
    finding = Finding(
        kind="late-ranks",
        vertex=4,
        file=str(file),
        line=LATE_LINE,
        end_line=LATE_END,
        function="augment",
        vertex_kind="loop",
        ranks=[2],
        lost_s=18.0,
        lost_share=1.0,
        saving_s=6.0,
        path=[
            Hop(0, str(file), SYMPTOM_LINE, "main", "comm", "allreduce", 18.0, 3),
            Hop(2, str(file), LATE_LINE, "augment", "loop", "", 0.0),
        ],
        evidence=Evidence(
            place=PlaceTime(seconds_here=np.float64(9.0), seconds_others=3.0, ratio=3.0),
            callers=[f"{file}:17 main", f"{folder}/bench.py:4 warm_up"],
            programs_share=float("nan"),
        ),
        advice="Rank 2 gets larger batches here than the others: balance what the loader hands out.",
    )
    return Analysis(
        ppg=PPG(psg, empty_timeline(4), metrics, run),
        findings=[finding],
        time=TimeSplit(work_s=17.0, stall_s=1.0, wait_s=18.0, transfer_s=2.0, other_s=2.0),
        waits=cast(WaitStates, None),  # reports look at neither of these two
        blame=cast(BlameTable, None),
        warnings=["clocks of 2 hosts were aligned from 118 collectives"],
    )


def empty_timeline(ranks: int) -> Timeline:
    """No calls and no work: the metrics say it all."""
    tables = [
        table(**{column: np.zeros(0) for column in table.__dataclass_fields__})
        for table in (Locations, Calls, Instances, OwnWork, Activities)
    ]
    return Timeline(ranks, *tables)


def balanced(folder: Path) -> Analysis:
    """The same without the late rank: nobody waits."""
    analysis = late_rank(folder)
    analysis.findings.clear()
    analysis = replace(analysis, time=TimeSplit(work_s=35.0, wait_s=0.2, transfer_s=2.0, other_s=2.8))
    for values in analysis.ppg.metrics.values():
        values[:] = values[:, :1]
    analysis.ppg.metrics["wait_s"][:] = 0
    analysis.ppg.metrics["comm_s"][5] = 0.5
    analysis.ppg.metrics["time_s"] = analysis.ppg.metrics["cpu_s"] + analysis.ppg.metrics["comm_s"]
    analysis.ppg.timeline.calls.location = np.zeros(4, dtype=np.int64)  # that there are calls is all that is asked
    return analysis
