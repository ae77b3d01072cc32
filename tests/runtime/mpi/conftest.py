"""The MPIs to test with: folders with mpicc and mpirun in ``SCALANA_TEST_MPI``, else the one in PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).resolve().parents[3]
NO_MPI = "no MPI: put mpicc in PATH or name folders in SCALANA_TEST_MPI"


@cache
def _is_open_mpi(folder: str) -> bool:
    version = subprocess.run([f"{folder}/mpirun", "--version"], capture_output=True, text=True).stdout
    return "Open MPI" in version or "prrte" in version


@dataclass
class Mpi:
    """One MPI."""

    folder: str
    """Of its commands."""
    work: Path
    """Where a test may write."""
    output: str = ""
    """What the latest recorded job has said."""

    @property
    def options(self) -> list[str]:
        """What its launcher needs to start more ranks than there are cores, as whoever runs the tests."""
        return ["--allow-run-as-root", "--oversubscribe"] if _is_open_mpi(self.folder) else []

    def compile(self, source: str | Path, *flags: str, name: str = "program") -> Path:
        """Compile a program (or, with ``-shared``, a library) with debug information."""
        target = self.work / name
        compiler = "mpicxx" if str(source).endswith(".cpp") else "mpicc"
        words = [f"{self.folder}/{compiler}", "-g", "-O1", *flags, str(PROGRAMS / source), "-o", str(target)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.work)
        assert done.returncode == 0, done.stderr
        return target

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_")}
        path = os.pathsep.join((self.folder, os.environ["PATH"]))
        python = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        cache = os.environ.get("SCALANA_CACHE", str(self.work.parent / "cache"))
        return {**kept, "PATH": path, "PYTHONPATH": python, "SCALANA_CACHE": cache, **more}

    def run(self, ranks: int, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a job without recording it."""
        words = [f"{self.folder}/mpirun", *self.options, "-n", str(ranks), *map(str, command)]
        return self._to_its_end(words, 120, variables)

    def record(self, ranks: int, *command: str | Path, name: str = "run", **variables: str) -> Path:
        """Record a job; the run folder."""
        folder = self.work / name
        words: Sequence[str] = [
            *(sys.executable, "-m", "scalana", "run", "-o", str(folder), "--no-report", "--"),
            *("mpirun", *self.options, "-n", str(ranks), *map(str, command)),
        ]
        done = self._to_its_end(words, 180, variables)
        assert done.returncode == 0, done.stderr + done.stdout
        self.output = done.stdout
        return folder

    def _to_its_end(
        self, words: Sequence[str], limit_s: float, variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """In a session of its own, as jobs have that somebody starts."""
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=limit_s,
            cwd=self.work,
            env=self.environment(**variables),
            start_new_session=True,
        )


def _folders() -> list[str]:
    told = os.environ.get("SCALANA_TEST_MPI", "")
    if told:
        return told.split(os.pathsep)
    found = shutil.which("mpicc")
    return [os.path.dirname(found)] if found else []


def one_mpi(work: Path) -> Mpi:
    """For what does not depend on the MPI: one that yields where ranks outnumber cores (Open MPI), if there is any."""
    found = [Mpi(folder, work) for folder in _folders()]
    if not found:
        pytest.skip(NO_MPI)
    return max(found, key=lambda mpi: bool(mpi.options))


MPIS = _folders() or [None]
"""What the fixture may be given."""
ANY = "any"
"""Likewise: the MPI of :func:`one_mpi`."""


def named(folder: object) -> str | None:
    """The name of an MPI among those."""
    return Path(folder).parent.name if isinstance(folder, str) and os.sep in folder else None


under_one_mpi = pytest.mark.parametrize("mpi", [ANY], indirect=True)
"""Of tests of what does not look at the MPI: samples, stacks and clocks of threads, and the analysis."""


@pytest.fixture(params=MPIS, ids=lambda folder: named(folder) or "none")
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> Mpi:
    if request.param is None:
        pytest.skip(NO_MPI)
    return one_mpi(tmp_path) if request.param == ANY else Mpi(request.param, tmp_path)


UNDER_EACH = ("test_launchers.py", "test_prebuilt.py")
"""Where each MPI is a case of its own; other tests that start jobs run under one, which of them depends on the test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as long what runs under another MPI already."""
    versions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        callspec = getattr(item, "callspec", None)
        here = item.path.parent == Path(__file__).parent and item.path.name not in UNDER_EACH
        if here and callspec is not None and named(callspec.params.get("mpi")) and item.get_closest_marker("slow"):
            versions[item.nodeid.replace(named(callspec.params["mpi"]) or "", "")].append(item)
    for name, alike in versions.items():
        for number, item in enumerate(alike):
            if number != crc32(name.encode()) % len(alike):
                item.add_marker("long")
