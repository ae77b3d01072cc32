"""Programs instead of sources: their debug information says what to read and how, or stands in for what is gone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.frontend.build import structure_of_run
from scalana.frontend.cpp import build as cpp_build
from scalana.frontend.cpp.binary import elf
from scalana.frontend.cpp.binary.debug_files import debug_file
from scalana.frontend.cpp.binary.elf import Binary, BinaryError
from scalana.frontend.cpp.binary.skeleton import skeleton
from scalana.frontend.cpp.binary.symbols import Symbols
from scalana.frontend.cpp.build import Cpp, plan
from scalana.frontend.cpp.cache import Cache
from scalana.frontend.cpp.source import worker
from scalana.graphs.structure.psg import VertexKind
from scalana.runtime.operations import BY_NAME
from tests.frontend.cpp.programs import build, needs_libclang
from tests.frontend.cpp.test_symbols import addresses
from tests.frontend.outline import expect, outline, write

ELFFile = pytest.importorskip("elftools.elf.elffile", reason="pyelftools is not installed").ELFFile
COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no compiler")

SOURCES = {
    "src/main.cpp": """
        #include "util/solve.h"
        int main(int argc, char **) {
        #if USE_SOLVER
            for (int i = 0; i < argc; i++) solve(i);
        #else
            while (argc--) { }
        #endif
            return 0;
        }
    """,
    "src/util/solve.h": "void solve(int);\n",
    "src/util/solve.cpp": """
        #include <solve.h>
        volatile int sink;
        void solve(int n) {
            do { sink = n; } while (n--);
        }
    """,
}


def compiled(folder: Path, *flags: str, sources: dict[str, str] | None = None, standard: str = "-g") -> Path:
    """A program of the sources; written with two compilations, in folders of their own."""
    write(folder, SOURCES if sources is None else sources)
    program = folder / "app"
    files = [name for name in (SOURCES if sources is None else sources) if name.endswith((".cpp", ".c"))]
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, standard, *flags, "-Isrc", "-Isrc/util", "-o", str(program), *files],
        cwd=folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return program


@needs_libclang
@pytest.mark.parametrize("standard", ["-g", "-gdwarf-4", "-gdwarf-3"])
def test_a_program_is_enough(tmp_path: Path, standard: str) -> None:
    program = compiled(tmp_path, "-DUSE_SOLVER=1", standard=standard)
    assert Cpp().takes(str(program))
    psg = build([program], None)
    assert psg.warnings == []
    assert outline(psg) == expect("""
        loop for (int i = 0; i < argc; i++)
          function solve
            loop do
        """)
    assert {v.place.file for v in psg.walk() if v.kind is VertexKind.FUNCTION} == {
        str(tmp_path / "src/main.cpp"),
        str(tmp_path / "src/util/solve.cpp"),
    }


@needs_libclang
def test_macros_that_were_not_defined_stay_so(tmp_path: Path) -> None:
    assert outline(build([compiled(tmp_path)], None)) == "loop while (argc--)"


@needs_libclang
def test_a_database_beside_the_sources_comes_before_the_program(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-DUSE_SOLVER=1")
    entry = '{"directory": "%s", "file": "src/main.cpp", "command": "g++ -DUSE_SOLVER=0 -Isrc -c src/main.cpp"}'
    write(tmp_path, {"compile_commands.json": f"[{entry % tmp_path}]"})
    assert outline(build([program], None)) == "loop while (argc--)"


def test_flags_of_the_producer(tmp_path: Path) -> None:
    if "clang" in str(COMPILER):
        pytest.skip("clang does not note its flags")
    made = plan([compiled(tmp_path, "-std=c++14", "-fopenmp")])
    compilation = made.compilations[str(tmp_path / "src/main.cpp")]
    assert compilation.openmp and "-std=c++14" in compilation.arguments
    assert compilation.directory == str(tmp_path)


def test_sources_that_are_gone_leave_functions_and_calls(tmp_path: Path) -> None:
    sources = {
        "a.cpp": """
            extern "C" int MPI_Barrier(void *);
            void *world;
            volatile int sink;
            namespace ns { struct S {
                __attribute__((noinline)) void step(int n) { while (n--) sink = n; MPI_Barrier(world); }
            }; }
            static inline __attribute__((always_inline)) void often(ns::S &s) {
                s.step(sink);
            }
            int main() {
                ns::S s;
                often(s);
                return sink;
            }
        """,
        "mpi.cpp": 'extern "C" int MPI_Barrier(void *p) { return p != 0; }\n',
    }
    program = compiled(tmp_path, "-O2", sources=sources)
    (tmp_path / "a.cpp").unlink()
    (tmp_path / "mpi.cpp").rename(tmp_path / "elsewhere.cpp")
    psg = build([program], None)
    assert len(psg.warnings) == 1
    assert "a.cpp and 1 more sources cannot be read" in psg.warnings[0]
    assert outline(psg) == expect("""
        function often
          function ns::S::step
            function MPI_Barrier
        """)
    (often,) = [vertex for vertex in psg.walk() if vertex.site is not None and vertex.place.name == "often"]
    assert often.site is not None
    assert (often.place.line, often.site.line) == (8, 13)


def test_communication_is_found_without_sources(tmp_path: Path) -> None:
    library = {"mpi.c": "int MPI_Allreduce(void) { return 0; }\n"}
    write(tmp_path, library)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-x", "c", "-c", "mpi.c"], cwd=tmp_path, check=True, timeout=60)  # without -g
    sources = {
        "main.cpp": """
            extern "C" int MPI_Allreduce();
            int main() {
                return MPI_Allreduce() + 1;
            }
        """
    }
    program = compiled(tmp_path, "-O2", "mpi.o", sources=sources)
    (tmp_path / "main.cpp").unlink()
    psg = build([program], None)
    (found,) = [vertex for vertex in psg.walk() if vertex.kind is VertexKind.COMM]
    assert (found.operation, found.place.line) == (BY_NAME["allreduce"].code, 4)


@needs_libclang
def test_what_is_gone_is_joined_with_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "main.c": "void gone(void);\nint main(void) { for (;;) gone(); }\n",
        "gone.c": "volatile int s;\nvoid gone(void) { s = 1; }\n",
    }
    write(tmp_path, sources)
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no compiler for C")
    subprocess.run([compiler, "-g", "-o", "app", *sources], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "gone.c").unlink()
    psg = build([tmp_path / "app"], None)
    assert outline(psg) == "loop for (;;)\n  function gone"
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path / "cache"))
    lacking: list[str] = []  # of which reports tell
    structure_of_run(lacking, [str(tmp_path / "app")], [], ())
    assert lacking == psg.warnings and "gone.c cannot be read" in lacking[0]


def test_of_what_is_gone_that_is_told_which_the_run_was_in(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-O0", sources=MANY)
    (tmp_path / "idle.cpp").unlink()
    assert plan([program], seen={str(tmp_path / name) for name in ("main.cpp", "run.cpp")}).warnings == []
    (warning,) = plan([program], seen={str(tmp_path / name) for name in ("main.cpp", "idle.cpp")}).warnings
    assert "idle.cpp cannot be read" in warning


MANY = {
    "main.cpp": "void run(int);\nint main(int n, char **) { run(n); }\n",
    "run.cpp": '#include "cell.h"\nvoid idle(int);\nvoid run(int n) { while (n--) cell(n); idle(n); }\n',
    "idle.cpp": "volatile int s;\nvoid idle(int n) { while (n--) s = n; }\n",
    "cell.h": "inline int cell(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }\n",
    "other.cpp": '#include "cell.h"\nint other(int n) { return cell(n); }\n',
}


@pytest.mark.parametrize(
    ("large", "seen", "read"),
    [
        (3, ("main.cpp", "run.cpp", "cell.h"), ["main.cpp", "run.cpp"]),
        (3, ("main.cpp", "cell.h"), ["main.cpp", "run.cpp"]),
        (3, ("idle.cpp", "<libc.so.6>"), ["idle.cpp"]),
        (4, ("main.cpp",), ["main.cpp", "run.cpp", "idle.cpp", "other.cpp"]),
        (3, None, ["main.cpp", "run.cpp", "idle.cpp", "other.cpp"]),
    ],
)
def test_of_a_large_program_what_was_seen_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int, seen: tuple[str, ...] | None, read: list[str]
) -> None:
    monkeypatch.setattr(cpp_build, "LARGE", large)
    program = compiled(tmp_path, "-O0", sources=MANY)
    files = None if seen is None else {str(tmp_path / name) for name in seen}
    made = plan([program], seen=files)
    assert [Path(file).name for file in made.compilations] == read
    psg = build([program], None, seen=files)
    loops = {Path(vertex.place.file).name for vertex in psg.vertices if vertex.kind is VertexKind.LOOP}
    called = {"run.cpp": {"run.cpp", "cell.h"}, "idle.cpp": {"idle.cpp"}}
    assert loops == (set().union(*(called.get(name, set()) for name in read)) if "main.cpp" in read else set())


@needs_libclang
def test_of_headers_what_was_seen_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "main.cpp": '#include "cell.h"\n#include "text.h"\nint main(int n, char **) { text(n); return cell(n); }\n',
        "cell.h": MANY["cell.h"],
        "text.h": "inline void text(int n) { volatile int s; while (n--) s = n; }\n",
    }
    monkeypatch.setattr(cpp_build, "LARGE", 0)
    program, cache = compiled(tmp_path, "-O0", sources=sources), Cache(str(tmp_path / "cache"))

    def loops(*seen: str) -> list[str]:
        files = {str(tmp_path / name) for name in seen} or None
        psg = build([program], None, cache=cache, seen=files)
        return [Path(vertex.place.file).name for vertex in psg.walk() if vertex.kind is VertexKind.LOOP]

    assert loops("main.cpp", "cell.h") == ["cell.h"]
    assert loops("main.cpp", "text.h") == ["text.h", "cell.h"]  # what was read before is kept
    monkeypatch.setattr(worker, "parse", None)  # cannot be called
    assert loops("main.cpp", "cell.h") == ["text.h", "cell.h"]
    monkeypatch.undo()
    assert loops() == ["text.h", "cell.h"]
    monkeypatch.setattr(worker, "parse", None)
    monkeypatch.setattr(cpp_build, "LARGE", 0)
    assert loops("main.cpp") == ["text.h", "cell.h"]


def test_code_of_the_system_is_looked_through(tmp_path: Path) -> None:
    source = {"a.cpp": "#include <vector>\nint main(int n, char **) { std::vector<int> v(n); return v[0]; }\n"}
    program = compiled(tmp_path, "-O2", sources=source)
    with Binary(str(program)) as binary:
        (unit,) = skeleton(binary, [str(tmp_path / "a.cpp")])
    assert [function.place.name for function in unit.functions] == ["main"]


@pytest.mark.parametrize("standard", ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
def test_abbreviations_are_those_of_pyelftools(tmp_path: Path, standard: str) -> None:
    program = compiled(tmp_path, "-O2", standard=standard)
    with Binary(str(program)) as binary, open(program, "rb") as file:
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            table, offset = unit.get_abbrev_table(), unit["debug_abbrev_offset"]
            for die in unit.iter_DIEs():
                if die.abbrev_code:
                    own = binary.dwarf.get_abbrev_table(offset).get_abbrev(die.abbrev_code)
                    assert own.decl == table.get_abbrev(die.abbrev_code).decl
            with pytest.raises(KeyError):
                binary.dwarf.get_abbrev_table(offset).get_abbrev(10_000)


@pytest.mark.parametrize("size", [0, 1, 3, 8])
def test_abbreviations_that_are_cut_off(size: int) -> None:
    with pytest.raises(ValueError, match="truncated"):
        elf._abbreviations(bytes([1, 0x11, 1, 0x25, 0x0E, 0x13, 0x21, 0x85, 0x01, 0, 0, 0])[:size], 0)


def test_programs_without_debug_information_are_warnings(tmp_path: Path) -> None:
    program = compiled(tmp_path, standard="-g0")
    assert plan([program]).warnings == [f"{program}: no debug information; compile with -g, or pass the sources"]


def test_what_the_library_calls_back_is_called_where_the_library_is(tmp_path: Path) -> None:
    source = """
        #include <algorithm>
        volatile int sink;
        __attribute__((noinline)) void far(int x) { sink = x; }
        static inline __attribute__((always_inline)) void near(int x) { sink = x + 1; }
        int main(int n, char **v) {
            int all[4] = {1, 2, 3, n};
            std::for_each(all, all + 4, [](int x) { near(x); far(x); });
            std::for_each(all, all + n, far);
            return 0;
        }
    """
    program = compiled(tmp_path, "-O2", sources={"a.cpp": source})
    with Binary(str(program)) as binary:
        (unit,) = skeleton(binary, [str(tmp_path / "a.cpp")])
    (main,) = (function for function in unit.functions if function.place.name == "main")
    assert main.place.end_line <= 11
    calls = {(node.call.name, node.place.line) for node in main.nodes if node.call is not None}
    assert {line for _, line in calls} == {8, 9} and ("far", 9) in calls


@needs_libclang
@pytest.mark.skipif(shutil.which("objcopy") is None, reason="there is no objcopy")
def test_debug_information_in_a_file_of_its_own(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    whole = outline(build([program], None))
    for words in (
        ["objcopy", "--only-keep-debug", program, "app.debug"],
        ["objcopy", "--strip-all", "--add-gnu-debuglink=app.debug", program],
    ):
        subprocess.run(words, cwd=tmp_path, check=True)
    assert outline(build([program], None)) == whole != ""
    (tmp_path / "src/util/solve.cpp").unlink()
    (told,) = build([program], None).warnings
    assert told.startswith(f"{program}: ") and "solve.cpp cannot be read" in told


@pytest.mark.skipif(shutil.which("objcopy") is None, reason="there is no objcopy")
@pytest.mark.parametrize("identity", ["abcdef12", "abcdef34"])
def test_debug_information_beside_a_program_is_found_by_its_build_id(tmp_path: Path, identity: str) -> None:
    program = compiled(tmp_path, "-Wl,--build-id=0xabcdef12")
    beside = tmp_path / ".build-id/ab"
    beside.mkdir(parents=True)
    apart = beside / f"{identity[2:]}.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, apart], check=True)
    subprocess.run(["objcopy", "--strip-all", program], check=True)
    assert debug_file(str(program)) == str(apart if identity == "abcdef12" else program)


@pytest.mark.parametrize("keep", [5, 64, 700, 5000])
def test_broken_programs_are_warnings(tmp_path: Path, keep: int) -> None:
    program = compiled(tmp_path)
    program.write_bytes(program.read_bytes()[:keep])
    made = plan([program])
    assert len(made.warnings) == 1 and made.warnings[0].startswith(f"{program}: ")


def test_a_program_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(BinaryError, match="nowhere"):
        Binary(str(tmp_path / "nowhere"))


@needs_libclang
def test_a_header_that_no_line_table_names_is_found(tmp_path: Path) -> None:
    sources = {
        "code/main.c": '#include "settings.h"\nint main(int n, char **v) { while (MORE(n)) n--; return 0; }\n',
        "out/deep/gen/settings.h": "#define MORE(n) ((n) > 0)\n",
    }
    program = compiled(tmp_path, "-Iout/deep/gen", "-xc", sources=sources)
    psg = build([program], None)
    assert (psg.warnings, outline(psg)) == ([], "loop while (MORE(n))")


@needs_libclang
@pytest.mark.parametrize("standard", ["-gdwarf-4", "-gdwarf-5"])
def test_of_split_debug_information_the_lines_are_used(tmp_path: Path, standard: str) -> None:
    sources = {
        "a.cpp": '#include "b.h"\nint main(int n, char **) {\n    while (n--)\n        sink = n, put(n);\n}\n',
        "b.h": "volatile int sink;\nstatic inline __attribute__((always_inline)) void put(int n) {\n    sink = n;\n}\n",
    }
    program = compiled(tmp_path, "-gsplit-dwarf", sources=sources, standard=standard)
    psg = build([program], None)
    assert "-gsplit-dwarf" in psg.warnings[0] and outline(psg) == "loop while (n--)\n  function put"
    with Symbols(str(program)) as symbols:
        found = [frame for address in addresses(str(program), "main") for frame in symbols.frames(address)]
    assert {(frame.file, frame.name, frame.first_line) for frame in found} == {(str(tmp_path / "a.cpp"), "main", 2)}
    assert {0, 3, 4} == {frame.line for frame in found} - {2, 5}  # 0 is what was inlined


@needs_libclang
def test_optimisation_at_link_time_leaves_functions_where_they_are(tmp_path: Path) -> None:
    sources = {
        "main.cpp": '#include "step.h"\nint main(int n, char **) {\n    return step(n);\n}\n',
        "step.h": "int step(int);\n",
        "step.cpp": '#include "step.h"\nvolatile int sink;\n__attribute__((noinline)) int step(int n) {\n'
        "    while (n--)\n        sink = n;\n    return sink;\n}\n",
    }
    try:
        program = str(compiled(tmp_path, "-O2", "-flto", sources=sources))
    except subprocess.CalledProcessError:
        pytest.skip("the compiler does not optimise at link time")
    psg = build([program], None)
    assert (psg.warnings, outline(psg)) == ([], "function step\n  loop while (n--)")
    with Symbols(program) as symbols:
        frames = {symbols.frames(address)[0] for address in addresses(program, "step")}
    assert {(frame.file, frame.name, frame.first_line) for frame in frames} == {(str(tmp_path / "step.cpp"), "step", 3)}
