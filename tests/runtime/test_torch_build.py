"""Compiling the kernels that recorded jobs ask for: what is tried, what is remembered, and when nothing is done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalana.runtime import user_cache
from scalana.runtime.torch import build as torch_build
from scalana.runtime.torch import native as torch_native


def ask(cache: Path) -> str:
    """As a job does whose torch has no kernels yet."""
    torch = cache.parent / f"{cache.name}-torch"
    (torch / "lib").mkdir(parents=True, exist_ok=True)
    if not (library := torch / "lib" / "libtorch_cpu.so").exists():
        library.touch()
    folder = user_cache.folder_of(user_cache.TORCH, {"SCALANA_CACHE": str(cache)})
    path = torch_native.library_path(folder, str(torch), "1.0", 1)
    user_cache.want(path, str(torch))
    return path


def compiler(folder: Path, script: str) -> dict[str, str]:
    """An environment whose only C++ compiler is a shell script."""
    folder.mkdir()
    (folder / "g++").write_text("#!/bin/sh\n" + script)
    (folder / "g++").chmod(0o755)
    return {"PATH": str(folder)}


def test_what_is_wanted_is_compiled_once(tmp_path: Path) -> None:
    environment = {"SCALANA_CACHE": str(tmp_path)}
    path = ask(tmp_path)
    ask(tmp_path)
    assert torch_build.wanted(environment) == [path]
    script = 'while [ "$1" != -o ]; do shift; done; echo compiled > "$2"\n'
    assert torch_build.build(path, compiler(tmp_path / "bin", script)) == ""
    assert Path(path).read_text() == "compiled\n"
    assert torch_build.wanted(environment) == [] and os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_compiler_that_refuses_is_not_asked_again(tmp_path: Path) -> None:
    environment = {"SCALANA_CACHE": str(tmp_path)}
    path = ask(tmp_path)
    asked = tmp_path / "asked"
    trouble = torch_build.build(
        path, compiler(tmp_path / "bin", f"echo once >> {asked}; echo no such header >&2; exit 1")
    )
    assert "no such header" in trouble and len(asked.read_text().split()) == len(torch_build._STANDARDS)
    assert not os.path.exists(path) and torch_build.wanted(environment) == []
    ask(tmp_path)
    assert torch_build.wanted(environment) == [] and not torch_build.start(environment)


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_without_a_compiler_nothing_happens(tmp_path: Path, path: str) -> None:
    environment = {"SCALANA_CACHE": str(tmp_path), "PATH": path}
    wanted = ask(tmp_path)
    assert not torch_build.start(environment)
    assert torch_build.build(wanted, environment).startswith("no C++ compiler")
    assert torch_build.wanted(environment) == [wanted]  # there may be one another day


def test_nothing_is_started_when_nothing_is_wanted(tmp_path: Path) -> None:
    assert torch_build.wanted({"SCALANA_CACHE": str(tmp_path)}) == []
    assert not torch_build.start({"SCALANA_CACHE": str(tmp_path), "PATH": os.environ["PATH"]})


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ask(tmp_path / "file")
    assert torch_build.wanted({"SCALANA_CACHE": str(tmp_path / "file")}) == []


def test_two_jobs_do_not_compile_the_same_at_once(tmp_path: Path) -> None:
    environment = {"SCALANA_CACHE": str(tmp_path)}
    path = ask(tmp_path)
    with torch_build._locked(path):
        assert torch_build.wanted(environment) == []
        assert torch_build.build(path, compiler(tmp_path / "bin", "exit 1")) == "" and not os.path.exists(
            path + ".failed"
        )
    assert torch_build.wanted(environment) == [path]


@pytest.mark.parametrize("change", ["torch", "sources"])
def test_what_an_earlier_torch_or_scalana_asked_for_is_not_compiled(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ask(tmp_path)
    if change == "torch":
        Path(torch_build._torch_folder(path), "lib", "libtorch_cpu.so").write_text("another")
    else:
        source = tmp_path / "kernels.cpp"
        source.write_text("")
        monkeypatch.setattr(torch_native, "SOURCES", (str(source),))
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path))
    monkeypatch.setattr(torch_build, "_step_back", lambda: None)
    assert torch_build.wanted(os.environ) == []
    assert torch_build.main() == 0 and not os.path.exists(path + ".wanted")
