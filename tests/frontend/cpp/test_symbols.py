"""Addresses of programs to functions and lines."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.frontend.cpp.binary.elf import BinaryError
from scalana.frontend.cpp.binary.symbols import NativeFrame, Symbols, symbols_of

pytest.importorskip("elftools", reason="pyelftools is not installed")
COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no compiler")

SOURCE = """\
volatile int sink;
namespace ns {
template <class T> struct Box {
    __attribute__((noinline)) void fill(T n) {
        while (n--) sink = n;
    }
};
}
static inline __attribute__((always_inline)) void inner(int n) {
    sink = n;
}
static inline __attribute__((always_inline)) void outer(int n) {
    inner(n);
}
__attribute__((noinline)) void work(int n) {
    outer(n);
}
int main() {
    ns::Box<int>().fill(3);
    work(4);
}
"""


def compiled(folder: Path, source: str = SOURCE, *flags: str) -> str:
    """A program of one source."""
    (folder / "a.cpp").write_text(source)
    assert COMPILER is not None
    command = [COMPILER, "-O1", *flags, "-o", "app", str(folder / "a.cpp")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    return str(folder / "app")


def addresses(path: str, part: str) -> range:
    """The addresses of the function whose symbol has this in its name."""
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        (found,) = [(low, high) for low, high, name in symbols_of(ELFFile(file)) if part in name]
    return range(*found)


def all_frames(path: str, part: str) -> set[tuple[NativeFrame, ...]]:
    """Everything that the addresses of a function stand for."""
    with Symbols(path) as symbols:
        return {symbols.frames(address) for address in addresses(path, part)}


@pytest.mark.parametrize("version", ["-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
def test_functions_and_lines(tmp_path: Path, version: str) -> None:
    found = all_frames(compiled(tmp_path, SOURCE, version), "fill")
    assert {len(frames) for frames in found} == {1}
    assert {(f.file, f.name, f.first_line) for (f,) in found} == {(str(tmp_path / "a.cpp"), "ns::Box::fill", 4)}
    assert 5 in {frame.line for (frame,) in found} <= {4, 5, 6}


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_what_is_inlined_has_frames_of_its_own(tmp_path: Path, version: str) -> None:
    found = all_frames(compiled(tmp_path, SOURCE, version), "work")
    deepest = max(found, key=len)
    assert [(frame.name, frame.first_line, frame.line) for frame in deepest] == [
        ("work", 15, 16),
        ("outer", 12, 13),
        ("inner", 9, 10),
    ]
    assert {frames[0].name for frames in found} == {"work"}


REGIONS = """volatile int sink;
namespace ns {
struct Box { void fill(int); void fill(long); };
void Box::fill(int) { sink = 1; }
void Box::fill(long n) {
#pragma omp parallel
    for (int i = 0; i < n; i++) sink = i;
}
}
int main() {
#pragma omp parallel
    for (int i = 0; i < 9; i++) sink = i;
    ns::Box().fill(9L);
}
"""


@pytest.mark.parametrize(("function", "first", "line"), [("main", 10, 12), ("ns::Box::fill", 5, 7)])
def test_regions_of_openmp_belong_to_their_function(tmp_path: Path, function: str, first: int, line: int) -> None:
    try:
        path = compiled(tmp_path, REGIONS, "-g", "-fopenmp")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no OpenMP")
    part = "._omp_fn" if "g++" in str(COMPILER) else ".omp_outlined"
    found = all_frames(path, ("main" if function == "main" else "fillEl") + part)
    assert {(frames[0].name, frames[0].first_line, frames[0].outlined) for frames in found} == {(function, first, True)}
    assert line in {frames[0].line for frames in found}


def test_without_debug_information_symbols_have_names(tmp_path: Path) -> None:
    path = compiled(tmp_path)
    assert all_frames(path, "work") == {(NativeFrame(path, "work", 0, 0),)}
    assert {frames[0].name for frames in all_frames(path, "main")} >= {"main"}


def test_addresses_of_nothing(tmp_path: Path) -> None:
    with Symbols(compiled(tmp_path, SOURCE, "-g")) as symbols:
        assert symbols.frames(1) == () == symbols.frames(1 << 62)


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    with pytest.raises(BinaryError, match="a: cannot be read"):
        Symbols(str(tmp_path / "a"))


def test_lambdas_have_the_names_of_the_structure(tmp_path: Path) -> None:
    source = "volatile int sink;\nint main(int n, char **) {\n"
    source += "    auto f = [](int k) __attribute__((noinline)) { sink = k; };\n    f(n);\n}\n"
    if "clang" in str(COMPILER):
        pytest.skip("clang has another name for lambdas")
    found = all_frames(compiled(tmp_path, source, "-g"), "UliE")
    assert {(frame.name, frame.first_line, frame.line) for (frame,) in found} == {("main::<lambda>", 3, 3)}


def test_of_several_names_the_plainest_counts(tmp_path: Path) -> None:
    from elftools.elf.elffile import ELFFile

    source = 'extern "C" { int __root(int x) { return x; } int root(int) __attribute__((alias("__root")));\n'
    source += 'int rootf32x(int) __attribute__((weak, alias("__root"))); }\n'
    with open(compiled(tmp_path, source, "-shared", "-fPIC"), "rb") as file:
        names = [name for _, _, name in symbols_of(ELFFile(file))]
    assert "root" in names
    assert not {"__root", "rootf32x"} & set(names)


def test_symbols_are_those_that_pyelftools_reads_one_by_one(tmp_path: Path) -> None:
    from elftools.elf.elffile import ELFFile

    with open(compiled(tmp_path, SOURCE), "rb") as file:
        elf = ELFFile(file)
        expected = {
            (symbol["st_value"], symbol["st_value"] + max(symbol["st_size"], 1), symbol.name)
            for symbol in elf.get_section_by_name(".symtab").iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
        }
        found = symbols_of(elf)
    assert len(found) > 5 and set(found) <= expected
    assert {start for start, _, _ in found} == {start for start, _, _ in expected}
