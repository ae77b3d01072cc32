"""What slow parts that are planted in a model look like beside what the machine can do.

    python tests/benchmarks/roofline.py [double] [strided] [heads]

Records ``slow_parts.py`` on two ranks with each, measures the machine once, and prints that part of the reports, with
``named`` where the module that is planted stands first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import scalana  # noqa: E402
from scalana.report import roofline  # noqa: E402
from scalana.report.paint import Paint  # noqa: E402

PLANTED = {"double": "layers.2.mlp.down", "strided": "layers.2.mlp", "heads": "layers.2.attention"}
PROGRAM = Path(__file__).resolve().parent / "slow_parts.py"


def command(*arguments: str | Path, plant: str = "") -> None:
    """Run a command of scalana."""
    environment = {**os.environ, "PLANT": plant, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "scalana", *map(str, arguments)], env=environment, check=True)


def main() -> None:
    """Print the parts of the reports."""
    plants = sys.argv[1:] or list(PLANTED)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(PROGRAM)]
    with tempfile.TemporaryDirectory() as work:
        folders = {plant: Path(work) / plant for plant in plants}
        for plant, folder in folders.items():
            command("run", "--no-report", "-o", folder, "--", *torchrun, plant=plant)
        command("calibrate", folders[plants[0]])
        for plant, folder in folders.items():
            analysis = scalana.analyze(folder).analysis
            if analysis.roofline is None:
                print(f"{plant}: operators were not counted; run this again, now that what counts them is compiled")
                continue
            most = roofline.gains(analysis.roofline)[0]
            print(f"{plant}: {most.name}{', named' if most.name == PLANTED[plant] else ''}")
            print("\n".join(roofline.block(analysis, 100, Paint(False))))


if __name__ == "__main__":
    main()
