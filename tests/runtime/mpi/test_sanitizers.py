"""The C of the native recorder under the sanitizers of addresses and of undefined behaviour."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from scalana.runtime.mpi import build
from scalana.runtime.mpi.prepare import prepare

from .conftest import Mpi

pytestmark = pytest.mark.slow


SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-O0", "-fno-lto")
"""Optimising takes twice the time, all sources together four times, and hides what they get wrong."""


def sanitizer() -> str:
    compiler = shutil.which("gcc")
    path = compiler and subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout
    return str(Path(path.strip()).resolve()) if path and os.path.isabs(path) else ""


@pytest.mark.skipif(not sanitizer(), reason="no library of the address sanitizer")
@pytest.mark.parametrize(
    "words", [("every_kind",), ("short_way",), ("ways", "threads"), ("ways", "fork")], ids=" ".join
)
def test_nothing_is_found(mpi: Mpi, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_FLAGS", (*build._FLAGS, *SANITIZE))
    program = mpi.compile(f"{words[0]}.c", "-pthread")
    environ = mpi.environment(SCALANA_CACHE=str(mpi.work.parent / f"sanitized-{Path(mpi.folder).parent.name}"))
    prepared = prepare([f"{mpi.folder}/mpirun", str(program)], environ)
    assert not prepared.notes
    folder = mpi.work / "run"
    folder.mkdir()
    variables = {
        **environ,
        **prepared.environment,
        "SCALANA_RUN_DIR": str(folder),
        "SCALANA_CALLS_HZ": "1000",
        # Preloaded for the program alone: launchers have leaks and habits of their own.
        "ASAN_OPTIONS": f"detect_leaks=0:log_path={mpi.work}/found",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={mpi.work}/found",
    }
    preload = f"{sanitizer()}:{variables.pop('LD_PRELOAD')}"
    variables.pop("OMPI_MCA_mca_base_env_list", None)  # hands on what is no longer there
    launch = [f"{mpi.folder}/mpirun", *mpi.options, "-n", "2", "env", f"LD_PRELOAD={preload}", str(program), *words[1:]]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=120, cwd=mpi.work, env=variables)
    found = [path.read_text() for path in mpi.work.glob("found*")]
    assert not found, found[0]
    assert done.returncode == 0, done.stderr
    assert [record.rank for record in RunFolder(folder).processes()][:2] == [0, 1]
