"""Lays out what ``make wheel-test`` runs: the tests, and an environment with the wheels that a release publishes.

``python -m tests.tools.wheel_copy FOLDER`` makes ``FOLDER/checkout``, which is this checkout without the sources of the
package, and ``FOLDER/venv``, which has these from the wheels and sees all other packages that are installed here.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from tests.benchmarks.installation import ROOT, build_wheel, checked, environment, published, tracked

SOURCES = ("detectors", "frontend", "graphs", "runtime", "scalana")


def with_command(path: Path, module: str) -> None:
    """A command for a module of a package that the environment only sees."""
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(str(path.parent / "python"))} -m {module} "$@"\n')
    path.chmod(0o755)


def main(folder: Path) -> None:
    """Make both."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment(folder / "venv", published(build_wheel(folder), folder))
    with_command(folder / "venv" / "bin" / "torchrun", "torch.distributed.run")
    for name in tracked():
        if name.partition("/")[0] not in SOURCES:
            (folder / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / "checkout" / name)
    for name in ("mpi", "pipeline", "ray", "rl"):  # what tests use where it is installed
        if (ROOT / "build" / name).exists():
            (folder / "checkout" / "build").mkdir(exist_ok=True)
            (folder / "checkout" / "build" / name).symlink_to(ROOT / "build" / name)
    where = checked([folder / "venv" / "bin" / "python", "-c", "import scalana; print(scalana.__file__)"], folder)
    assert Path(where.strip()).is_relative_to(folder / "venv"), where


if __name__ == "__main__":
    main(Path(sys.argv[1]))
