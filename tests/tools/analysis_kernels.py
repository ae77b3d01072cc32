"""Has numba compile the loops of the analysis: once, before several processes of tests need them at a time.

Run: ``python tests/tools/analysis_kernels.py FOLDER``, with a folder for a modelled run.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scalana import api  # noqa: E402
from scalana.detectors.pipeline.diagnosis.attribution import attribute  # noqa: E402
from scalana.detectors.pipeline.measured.replayable import read_rows  # noqa: E402
from scalana.detectors.pipeline.model.engines import ENGINES  # noqa: E402
from scalana.detectors.pipeline.model.schedules import BY_NAME  # noqa: E402
from scalana.detectors.pipeline.plans.assignment import StageCosts  # noqa: E402
from scalana.detectors.pipeline.plans.list_schedule import Policy, list_schedule  # noqa: E402
from scalana.workload.costs import Decode  # noqa: E402
from scalana.workload.fitting import fits_of  # noqa: E402
from scalana.workload.replay import Setting, replay  # noqa: E402
from tests.detectors.pipeline.examples import rows_of, uniform  # noqa: E402
from tests.tools.generate_run import write_run  # noqa: E402
from tests.tools.job_model import Model  # noqa: E402
from tests.workload.examples import workload  # noqa: E402

PIPELINES = (
    ("1F1B", "torch-1f1b"),
    ("Interleaved1F1B", "megatron-interleaved"),
    ("Interleaved1F1B", "megatron-overlap"),
    ("ZBV", "torch"),
)
"""Schedules and engines that take different ways."""
RANKS, MICROBATCHES, LENGTHS = 4, 8, 40


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    write_run(folder, Model(64, 8))
    api.analyze(folder)
    for name, engine in PIPELINES:
        program = BY_NAME[name].program(RANKS, MICROBATCHES, 2)
        costs = uniform(program.stages)
        costs[:, 0] *= 2
        attribute(read_rows(rows_of(program, costs, engine), ENGINES[engine]))
    none, one = np.zeros(RANKS), np.ones(RANKS)
    stages = StageCosts(np.arange(RANKS), uniform(RANKS), activation=one, static=none, down_s=none, up_s=none)
    list_schedule(stages, MICROBATCHES, np.full(RANKS, np.inf), Policy())
    lengths = np.arange(1.0, 1.0 + LENGTHS)
    replay(workload([lengths.tolist()]), Setting("fifo", 2, Decode(1.0)))
    fits_of(lengths)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
