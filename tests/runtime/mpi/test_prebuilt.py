"""The recorder that a wheel brings is fitted to the MPI at hand without a compiler."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalana.runtime.mpi import build, prebuilt
from scalana.runtime.mpi.elf import SharedLibrary
from scalana.runtime.mpi.job import library_folders
from scalana.runtime.mpi.kept import Kept, libraries_in, mpi_libraries, version
from scalana.runtime.mpi.prepare import prepare
from scalana.runtime.mpi.slots import names
from scalana.runtime.record.format import ProcessRecord
from scalana.runtime.record.layout import record_files

from .conftest import Mpi, under_one_mpi

NEW = ("MPI_Session_init", "MPI_Allreduce_init", "MPI_Isendrecv")
"""Functions that older libraries lack."""


def compiled(folder: Path, source: str, name: str, *flags: str) -> Path:
    """A shared library of a few lines of C."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "source.c").write_text(source)
    words = [compiler, "-shared", "-fPIC", "source.c", "-o", name, *flags]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return folder / name


def test_names_are_hidden_from_the_loader_and_others_stay(tmp_path: Path) -> None:
    path = compiled(tmp_path, "int one(void) { return 1; }\nint two(void) { return 2; }\n", "both.so")
    library = SharedLibrary(path.read_bytes())
    assert {"one", "two"} <= library.defined()
    library.hide({"two", "three"})
    path.write_bytes(library.data)
    program = f"import ctypes; both = ctypes.CDLL({str(path)!r}); print(both.one(), hasattr(both, 'two'))"
    done = subprocess.run(["python3", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"


def test_a_library_is_bound_to_another_and_does_without_what_that_lacks(tmp_path: Path) -> None:
    compiled(tmp_path, "", "library-in-its-place.so", "-Wl,-soname,library-in-its-place.so")
    compiled(tmp_path, "int there(void) { return 7; }\n", "short.so", "-Wl,-soname,short.so")
    asks = "int ask(void) { return there(); }\nint more(void) { return lacking(); }\n"
    source = f"int there(void);\nint lacking(void);\n{asks}"
    path = compiled(
        tmp_path, source, "user.so", "-Wl,--no-as-needed", "library-in-its-place.so", f"-Wl,-rpath,{tmp_path}"
    )
    library = SharedLibrary(path.read_bytes())
    assert "library-in-its-place.so" in library.needed and {"there", "lacking"} <= library.undefined()
    with pytest.raises(ValueError, match="instead of"):
        library.ask_for("a-name-that-is-longer-than-the-one.so", "library-in-its-place.so")
    with pytest.raises(ValueError, match="cannot ask for"):
        library.ask_for("short.so", "another.so")
    library.ask_for("short.so", "library-in-its-place.so")
    library.weaken({"lacking"})
    path.write_bytes(library.data)
    program = f"import ctypes; print(ctypes.CDLL({str(path)!r}).ask())"
    at_once = {**os.environ, "LD_BIND_NOW": "1"}
    done = subprocess.run(["python3", "-c", program], capture_output=True, text=True, env=at_once)
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_what_is_no_library_or_half_of_one_is_refused(tmp_path: Path) -> None:
    whole = compiled(tmp_path, "int one(void) { return 1; }\n", "one.so").read_bytes()
    for data in (
        b"",
        b"INPUT(libmpi.so.40)\n",
        b"\x7fELF\x01\x01" + whole[6:],
        *(whole[:size] for size in (6, 63, 900)),
    ):
        with pytest.raises(ValueError, match=r"."):
            SharedLibrary(data)
    for at in range(0, len(whole), 97):  # nothing but an answer, or that error
        changed = whole[:at] + b"\xff" * 8 + whole[at + 8 :]
        try:
            library = SharedLibrary(changed)
            library.defined(), library.undefined(), library.soname
        except ValueError:
            pass


@pytest.fixture
def brought(mpi: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What a wheel brings, compiled for this MPI: once for all tests."""
    environ = mpi.environment()
    cache = Path(environ["SCALANA_CACHE"], "prebuilt", f"{version(environ)}-{Path(mpi.folder).parent.name}")
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (cache / prebuilt.SOURCES).exists():
            build.prebuild([f"{mpi.folder}/mpicc"], str(cache))
    monkeypatch.setattr(prebuilt, "FOLDER", str(cache))
    yield cache


def fitted(kept: Kept) -> tuple[SharedLibrary, SharedLibrary]:
    """The wrappers and the preloaded library of a recorder."""
    return SharedLibrary(Path(kept.wrappers[0]).read_bytes()), SharedLibrary(Path(kept.preloaded).read_bytes())


@pytest.mark.slow
def test_an_older_library_has_no_name_that_it_lacks(mpi: Mpi, brought: Path, tmp_path: Path) -> None:
    environ = mpi.environment()
    for file in mpi_libraries(f"{mpi.folder}/mpicc", environ):
        whole = Path(file).read_bytes()
        if whole.startswith(b"\x7fELF"):
            break
    library = SharedLibrary(whole)
    library.hide({*NEW, *(f"P{name}" for name in NEW)})
    (tmp_path / "libmpi.so.1").write_bytes(library.data)
    kept = Kept("", [str(tmp_path / "libmpi.so.1")], str(tmp_path))
    assert prebuilt.place(kept, environ) and not kept.missing
    wrappers, preload = fitted(kept)
    had = set(names()) & SharedLibrary(whole).defined()
    assert preload.defined() & set(names()) == had - set(NEW)
    assert library.soname in wrappers.needed and prebuilt.STAND_IN not in wrappers.needed


@pytest.mark.slow
def test_a_library_with_more_than_the_wheel_knows_is_left_to_the_compiler(
    mpi: Mpi, brought: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = mpi.environment()
    libraries = mpi_libraries(f"{mpi.folder}/mpicc", environ)
    monkeypatch.setattr(prebuilt, "names", lambda: [*names(), "MPI_Get_version"])
    assert not prebuilt.place(Kept("", libraries, str(tmp_path)), environ)
    assert not list(tmp_path.glob("*.so"))
    monkeypatch.undo()
    older = tmp_path / "older"
    shutil.copytree(brought, older)
    (older / prebuilt.SOURCES).write_text("of other sources")
    monkeypatch.setattr(prebuilt, "FOLDER", str(older))
    assert not prebuilt.place(Kept("", libraries, str(tmp_path)), environ)


@pytest.mark.slow
def test_a_job_is_recorded_where_no_compiler_is(mpi: Mpi, brought: Path, tmp_path: Path) -> None:
    program = mpi.compile("slow_rank.c")
    (tmp_path / "bin").mkdir()
    for name in ("mpicc", "cc", "gcc", "clang", "as", "ld"):
        (tmp_path / "bin" / name).symlink_to("/bin/false")
    variables = {
        "SCALANA_CACHE": str(tmp_path / "own"),
        "PATH": f"{tmp_path / 'bin'}:{mpi.folder}:{os.environ['PATH']}",
    }
    said: list[str] = []
    prepared = prepare([f"{mpi.folder}/mpirun", str(program)], mpi.environment(**variables), said.append)
    assert prepared.environment["LD_PRELOAD"].startswith(str(tmp_path / "own")) and not said and not prepared.notes
    folder = mpi.record(2, program, **variables)
    records = [ProcessRecord.read(file) for file in record_files(str(folder))]
    assert [sum(record.totals.calls) for record in records if record.rank >= 0] == [62, 62]


@under_one_mpi
@pytest.mark.slow
def test_an_mpi_without_mpicc_is_found_by_its_launcher_and_its_programs(
    mpi: Mpi, brought: Path, tmp_path: Path
) -> None:
    above = tmp_path / "mpi"
    (above / "bin").mkdir(parents=True)
    (above / "lib").symlink_to(Path(mpi.folder).parent / "lib")
    (above / "bin" / "mpirun").write_text("#!/bin/sh\n")
    (above / "bin" / "mpirun").chmod(0o755)
    environ = {"PATH": str(above / "bin"), "SCALANA_CACHE": str(tmp_path / "own"), "HOME": str(tmp_path)}
    assert libraries_in(library_folders(["mpirun", "app"], environ))
    prepared = prepare(["mpirun", "app"], environ)
    assert not prepared.notes and os.path.exists(prepared.environment["LD_PRELOAD"])
