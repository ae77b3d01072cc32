"""Loops that another process compiles ahead are compiled for the types that an analysis calls them with."""

from __future__ import annotations

import importlib.util
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


def test_code_counts_as_compiled_as_long_as_its_source_is_the_same(tmp_path: Path) -> None:
    source = tmp_path / "adding.py"
    source.write_text("import numba\n\n@numba.njit(cache=True)\ndef add(a, b):\n    return a + b\n")

    def loaded() -> Any:
        spec = importlib.util.spec_from_file_location("adding", source)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.add

    add = loaded()
    assert not kernels.is_compiled(add)
    assert add(1, 2) == 3
    assert kernels.is_compiled(add) and kernels.is_compiled(loaded())
    os.utime(source, (2e9, 2e9))  # as after a checkout
    assert kernels.is_compiled(loaded())
    source.write_text(source.read_text().replace("a + b", "b + a"))
    assert not kernels.is_compiled(loaded())


def test_code_that_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernels.LATE[0][0]
    index = tmp_path / "index.nbi"
    monkeypatch.setattr(kernel._cache._cache_file, "_index_path", str(index))
    assert not kernels.is_compiled(kernel)
    index.write_bytes(b"no pickle")
    assert not kernels.is_compiled(kernel)
    monkeypatch.setattr(kernel, "_cache", None)  # as where a loop keeps no machine code
    assert not kernels.is_compiled(kernel)
