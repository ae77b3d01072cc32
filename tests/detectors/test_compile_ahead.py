"""Loops that another process compiles ahead are compiled for the types that an analysis calls them with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scalana import api
from scalana.detectors import compile_ahead as kernels
from scalana.graphs.arrays import hashing
from tests.tools.generate_run import write_run
from tests.tools.job_model import Model


@pytest.mark.slow
def test_the_types_are_those_of_an_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_SMALL", 0)  # what is done with many rows
    write_run(tmp_path / "run", Model(4, 20))
    assert api.analyze(tmp_path / "run").findings
    for kernel, types in kernels.LATE:
        assert types in kernel.overloads, kernel
        assert kernels.is_compiled(kernel)


@pytest.mark.slow
def test_another_process_compiles_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    monkeypatch.setattr(kernels.os, "sched_getaffinity", lambda _: {0, 1})
    with kernels.compiling_ahead():
        pass
    assert not started
    monkeypatch.setattr(kernels, "is_compiled", lambda _: False)
    with kernels.compiling_ahead():
        assert started[0].wait(timeout=300) == 0
    with kernels.compiling_ahead():
        pass
    assert started[1].returncode  # it does not outlive what it was started for
    monkeypatch.setattr(kernels.os, "sched_getaffinity", lambda _: {0})
    with kernels.compiling_ahead():
        pass
    assert len(started) == 2


def test_older_code_than_the_source_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernels.LATE[0][0]
    code = kernel.py_func.__code__
    monkeypatch.setattr(kernel._cache, "_cache_path", str(tmp_path))
    assert not kernels.is_compiled(kernel)
    index = tmp_path / f"replay.{code.co_name}-{code.co_firstlineno}.py311.nbi"
    index.touch()
    assert kernels.is_compiled(kernel)
    before_s = Path(code.co_filename).stat().st_mtime - 1
    os.utime(index, (before_s, before_s))
    assert not kernels.is_compiled(kernel)
