"""What slow parts that are planted in a model look like beside what the machine can do.

    python tests/benchmarks/roofline.py [double] [strided] [heads] [experts] [residual]

Records ``slow_parts.py`` on two ranks with each, measures the machine once, and prints that part of the reports, with
``named`` where the module that is planted stands first. The last two are models of ``sound_models.py``, in which none
is: for these it prints what the module that comes nearest reaches, each way, of those that take 1 ms or more.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from scalana.detectors.when.roofline import ROOFLINE

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import scalana  # noqa: E402
from scalana.detectors.when.module_work import WAYS  # noqa: E402
from scalana.detectors.when.roofline import Roofline  # noqa: E402
from scalana.report.text.paint import Paint  # noqa: E402
from scalana.report.text.sections import section_lines  # noqa: E402
from scalana.report.topics import roofline  # noqa: E402

PLANTED = {"double": "layers.2.mlp.down", "strided": "layers.2.mlp", "heads": "layers.2.attention"}
SOUND = ("experts", "residual")
PROGRAMS = Path(__file__).resolve().parent
SHORT_S = 1e-3
"""Modules that take less are not told of: what they reach is not measured well."""


def command(*arguments: str | Path, plant: str = "") -> None:
    """Run a command of scalana."""
    environment = {**os.environ, "PLANT": plant, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "scalana", *map(str, arguments)], env=environment, check=True)


def nearest(found: Roofline) -> str:
    """The module that reaches most, each way."""
    work, told = found.work, []
    reached = np.divide(found.least_s, work.seconds, out=np.zeros_like(work.seconds), where=work.seconds >= SHORT_S)
    for way, name in enumerate(WAYS):
        of_module = reached[:, way].max(axis=1)
        best = int(of_module.argmax())
        told.append(f"{name} {of_module[best]:.0%} {work.modules[best].name} ({work.modules[best].kind})")
    return ", ".join(told)


def main() -> None:
    """Print the parts of the reports."""
    plants = sys.argv[1:] or [*PLANTED, *SOUND]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with tempfile.TemporaryDirectory() as work:
        folders = {plant: Path(work) / plant for plant in plants}
        for plant, folder in folders.items():
            program = PROGRAMS / ("sound_models.py" if plant in SOUND else "slow_parts.py")
            command("run", "--no-report", "-o", folder, "--", *torchrun, program, plant=plant)
        command("calibrate", folders[plants[0]])
        for plant, folder in folders.items():
            analysis = scalana.analyze(folder).analysis
            if analysis.section(ROOFLINE) is None:
                print(f"{plant}: operators were not counted; run this again, now that what counts them is compiled")
                continue
            if plant in SOUND:
                print(f"{plant}: {nearest(analysis.section(ROOFLINE))}")
                continue
            most = roofline.gains(analysis.section(ROOFLINE))[0]
            print(f"{plant}: {most.name}{', named' if most.name == PLANTED[plant] else ''}")
            for section in roofline.sections(analysis):
                print("\n".join(section_lines(section, 100, Paint(False))))


if __name__ == "__main__":
    main()
