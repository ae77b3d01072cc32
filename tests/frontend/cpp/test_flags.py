"""Where flags come from, and who is asked for headers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scalana.frontend.cpp.build import Cpp, plan
from scalana.frontend.cpp.source import flags
from tests.frontend.cpp.programs import build, needs_libclang
from tests.frontend.outline import outline, write


def test_what_libclang_is_told(tmp_path: Path) -> None:
    words = "-c -O2 -Iinc -I ../x -DA=1 -D B -isystem sys -std=c++20 -march=native -o out.o -Wall -MF d -fopenmp a.cpp"
    kept, openmp = flags.understood(words.split(), "/src/here")
    assert openmp
    assert kept == ("-O2", "-I/src/here/inc", "-I/src/x", "-DA=1", "-DB", "-isystem", "/src/here/sys", "-std=c++20")


@pytest.mark.parametrize("word", ["-fopenmp", "-qopenmp", "-fiopenmp", "-mp", "-fopenmp=libgomp"])
def test_switches_of_openmp(word: str) -> None:
    assert flags.understood([word]) == ((), True)


@pytest.mark.parametrize(
    ("program", "is_one"),
    [
        ("gcc", True),
        ("/usr/bin/g++-12", True),
        ("x86_64-linux-gnu-g++", True),
        ("mpicxx", True),
        ("clang++-18", True),
        ("CC", True),
        ("rm", False),
        ("gcc-evil", False),
        ("sh", False),
    ],
)
def test_only_compilers_are_asked(program: str, is_one: bool) -> None:
    assert flags.is_compiler(program) is is_one


def wrapper(path: Path, script: str) -> str:
    """A compiler wrapper of MPI that says what it is told to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_wrappers_of_open_mpi_and_of_mpich_are_understood(tmp_path: Path) -> None:
    include = tmp_path / "include dir"
    plain = tmp_path / "inc"
    include.mkdir()
    plain.mkdir()
    ompi = wrapper(tmp_path / "a" / "mpicc", f'[ "$1" = --showme:incdirs ] && echo {plain} || exit 1')
    mpich = wrapper(tmp_path / "b" / "mpicc", f'[ "$1" = -show ] && echo \'gcc -I"{include}" -L/x -lmpi\' || exit 1')
    silent = wrapper(tmp_path / "c" / "mpicc", "exit 3")
    assert flags.wrapper_includes(ompi) == (str(plain),)
    assert flags.wrapper_includes(mpich) == (str(include),)
    assert flags.wrapper_includes(silent) == ()


def test_programs_that_are_no_wrappers_are_not_started(tmp_path: Path) -> None:
    other = wrapper(tmp_path / "build.sh", f"touch {tmp_path}/started")
    assert flags.wrapper_includes(other) == ()
    entry = {"directory": str(tmp_path), "file": "a.cpp", "command": f"{other} -c a.cpp"}
    write(tmp_path, {"compile_commands.json": json.dumps([entry]), "a.cpp": "int main() { }\n"})
    plan([tmp_path / "a.cpp"])
    assert not (tmp_path / "started").exists()


def named_by_database(folder: Path, compiler: str, drivers: tuple[str, ...] = ()) -> tuple[bool, list[str]]:
    """Whether a compiler that a database names was started, and what was said of it."""
    entry = {"directory": str(folder), "file": "a.cpp", "command": f"{compiler} -c a.cpp"}
    write(folder, {"compile_commands.json": json.dumps([entry]), "a.cpp": "int main() { }\n"})
    flags.wrapper_includes.cache_clear()
    made = plan([folder / "a.cpp"], drivers=drivers)
    flags.wrapper_includes.cache_clear()
    return (folder / "started").exists(), made.warnings


@pytest.mark.parametrize("named", ["{0}/evil/mpicc", "evil/mpicc", "./evil/mpicc", "{0}/evil/../evil/mpicc"])
def test_a_compiler_that_only_a_database_names_is_not_started(tmp_path: Path, named: str) -> None:
    wrapper(tmp_path / "evil" / "mpicc", f"touch {tmp_path}/started")
    started, warnings = named_by_database(tmp_path, named.format(tmp_path))
    assert not started
    assert len(warnings) == 1 and f"--query-driver {tmp_path}/evil/mpicc allows it" in warnings[0]


@pytest.mark.parametrize("pattern", ["{0}/evil/mpicc", "{0}/*/mpi*"])
def test_an_option_allows_compilers(tmp_path: Path, pattern: str) -> None:
    wrapper(tmp_path / "evil" / "mpicc", f"touch {tmp_path}/started")
    assert named_by_database(tmp_path, "evil/mpicc", (pattern.format(tmp_path),)) == (True, [])
    (tmp_path / "started").unlink()
    assert not named_by_database(tmp_path, "evil/mpicc", ("/usr/*",))[0]


@pytest.mark.parametrize("named", ["mpicc", "{0}/bin/mpicc", "{0}/link/mpicc"])
def test_a_compiler_on_the_search_path_is_asked(tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper(tmp_path / "bin" / "mpicc", f"touch {tmp_path}/started")
    (tmp_path / "link").symlink_to("bin")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    assert named_by_database(tmp_path, named.format(tmp_path)) == (True, [])


def test_another_program_of_that_name_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper(tmp_path / "bin" / "mpicc", "exit 1")
    wrapper(tmp_path / "evil" / "mpicc", f"touch {tmp_path}/started")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    assert not named_by_database(tmp_path, f"{tmp_path}/evil/mpicc")[0]
    monkeypatch.chdir(tmp_path / "evil")
    monkeypatch.setenv("PATH", ".")
    assert not named_by_database(tmp_path, "mpicc")[0]


def test_the_mpi_on_the_search_path_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include = tmp_path / "include"
    include.mkdir()
    wrapper(tmp_path / "bin" / "mpicxx", f'[ "$1" = --showme:incdirs ] && echo {include} || exit 1')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    flags.mpi_includes.cache_clear()
    try:
        assert flags.mpi_includes() == (str(include),)
    finally:
        flags.mpi_includes.cache_clear()


SOURCE = "#ifdef LOOP\nint main() { for (;;) { } }\n#else\nint main() { while (1) { } }\n#endif\n"


def database(folder: Path, command: str = "g++ -DLOOP -c ../a.cpp -o a.o") -> Path:
    """A source, and a compilation database in a build folder beside it."""
    entry = {"directory": str(folder / "build"), "command": command, "file": "../a.cpp"}
    write(folder, {"a.cpp": SOURCE, "build/compile_commands.json": json.dumps([entry])})
    return folder / "a.cpp"


@needs_libclang
def test_flags_come_from_the_nearest_database(tmp_path: Path) -> None:
    assert outline(build([database(tmp_path)], None)) == "loop for (;;)"


@needs_libclang
def test_flags_that_are_passed_come_first(tmp_path: Path) -> None:
    assert outline(build([database(tmp_path)], [])) == "loop while (1)"


def test_a_database_may_list_arguments_or_a_command(tmp_path: Path) -> None:
    entry = {"directory": ".", "arguments": ["cc", "-DX", "-Iinc", "a.c"], "file": "a.c"}
    write(tmp_path, {"compile_commands.json": json.dumps([entry, {**entry, "arguments": ["cc", "-DY"]}])})
    found = flags.read_database(str(tmp_path / "compile_commands.json"))
    assert found[str(tmp_path / "a.c")].arguments == ("-DX", f"-I{tmp_path}/inc")


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"file": "a"}]', '{"a": 1}'])
def test_a_broken_database_is_a_warning_with_its_name(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"compile_commands.json": text, "a.cpp": SOURCE})
    made = plan([tmp_path / "a.cpp"])
    assert list(made.compilations) == [str(tmp_path / "a.cpp")]
    assert len(made.warnings) == 1 and f"{tmp_path}/compile_commands.json" in made.warnings[0]


def test_translation_units_of_a_folder(tmp_path: Path) -> None:
    names = ["b.cc", "a.c", "sub/c.cxx", "h.hpp", ".git/d.cpp", "CMakeFiles/e.cpp", "notes.txt"]
    write(tmp_path, dict.fromkeys(names, ""))
    assert list(plan([tmp_path]).compilations) == [str(tmp_path / name) for name in ("a.c", "b.cc", "sub/c.cxx")]
    takes = [path for path in (tmp_path, tmp_path / "h.hpp", tmp_path / "notes.txt") if Cpp().takes(str(path))]
    assert takes == [tmp_path, tmp_path / "h.hpp"]


def test_a_folder_without_sources_is_a_warning(tmp_path: Path) -> None:
    assert build([tmp_path]).warnings == [f"{tmp_path}: no C or C++ files in this folder"]


def test_flags_may_stand_in_files(tmp_path: Path) -> None:
    (tmp_path / "first.rsp").write_text("-Iinclude '-DNAME=a b' @second.rsp -O2\n")
    (tmp_path / "second.rsp").write_text('"-DMORE" -fopenmp @gone.rsp @second.rsp\n')
    kept, openmp = flags.understood(["-DFIRST", "@first.rsp"], str(tmp_path))
    assert openmp
    assert kept[:4] == ("-DFIRST", f"-I{tmp_path}/include", "-DNAME=a b", "-DMORE") and kept[-1] == "-O2"
