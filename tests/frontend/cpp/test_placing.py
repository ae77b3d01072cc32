"""Addresses in a program lead to the vertices of its sources, through what the compiler inlined."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.frontend.build import build_psg
from scalana.frontend.cpp.binary.symbols import NativeFrame, Symbols, symbols_of
from scalana.frontend.cpp.build import Cpp
from scalana.frontend.cpp.cache import Cache
from scalana.graphs.attribution.callpaths import FrameRef, Placer
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.runtime.record.format import NO_LINE_TABLE, packed, position
from tests.frontend.cpp.programs import needs_libclang

pytest.importorskip("elftools", reason="pyelftools is not installed")
COMPILER = shutil.which("g++")
pytestmark = [needs_libclang, pytest.mark.skipif(COMPILER is None, reason="there is no compiler")]

SOURCE = """\
volatile int sink;
template <class T> static void fill(T n) {
    for (T i = 0; i < n; i++)
        sink = i;
}
static void twice(int n) {
    if (n > 3) {
        fill(n);
    }
    fill(n + 1);
}
int main(int n, char **) {
    while (sink < 100)
        twice(n);
}
"""


ONE_LINE = """\
volatile int sink;
static __attribute__((noinline)) void work(int n) { for (int i = 0; i < n; i++) sink = i; }
#define REPEAT(times, what) for (int k = 0; k < (times); k++) { what; }
int main(int n, char **v) {
    for (int i = 0; i < 300; i++) sink = i; for (int k = 0; k < 100; k++) sink += k;
    work(100 * n); work(300 * n);
    REPEAT(30, sink = k) REPEAT(10, sink -= k)
    return 0;
}
"""


def compiled(folder: Path, name: str, source: str, level: str) -> tuple[str, PSG, Placer]:
    """A program, its structure, and what places its call paths there."""
    (folder / name).write_text(source)
    assert COMPILER is not None
    command = [COMPILER, "-x", "c" if name.endswith(".c") else "c++", "-g", level, "-o", "app", str(folder / name)]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    app = str(folder / "app")
    cpp = Cpp(cache=Cache("/dev/null/x"), workers=0)
    psg = build_psg([app], using=[cpp])
    return app, psg, Placer(psg, cpp.parse)


def paths_of(app: str, function: str) -> list[tuple[NativeFrame, ...]]:
    """The frames at every address of a function, one after the other, each once."""
    with Symbols(app) as symbols:
        from elftools.elf.elffile import ELFFile

        with open(app, "rb") as file:
            spans = [(low, high) for low, high, name in symbols_of(ELFFile(file)) if name == function]
        return list(dict.fromkeys(symbols.frames(address) for low, high in spans for address in range(low, high)))


def as_recorded(path: tuple[NativeFrame, ...]) -> list[FrameRef]:
    """Frames as they come out of a record."""
    found = []
    for frame in path:
        where = position(b"", NO_LINE_TABLE, frame.first_line, packed(frame.line, frame.column))
        found.append(FrameRef(frame.file, frame.name, frame.first_line, where.line, where.column, inside=True))
    return found


def test_addresses_lead_to_vertices(tmp_path: Path) -> None:
    app, psg, placer = compiled(tmp_path, "a.cpp", SOURCE, "-O2")
    size = len(psg)
    paths = paths_of(app, "main")
    deep = {
        path for path in paths if [frame.name for frame in path] == ["main", "twice", "fill"] and path[-1].line == 4
    }
    assert {path[1].line for path in deep} == {8, 10}
    for path in deep:
        vertex = psg[placer.place(as_recorded(path))[0]]
        assert vertex.place.line == 4
        kinds = [(above.kind.value, above.place.line) for above in psg.ancestors(vertex.index)]
        arm = [("branch", 7)] if path[1].line == 8 else []
        assert kinds == [
            ("loop", 3), ("function", 2), *arm, ("function", 6), ("loop", 13), ("function", 12), ("root", 0),
        ]  # fmt: skip
    assert len(psg) == size  # nothing had to be added


@pytest.mark.parametrize("name", ["a.c", "a.cpp"])
@pytest.mark.parametrize("level", ["-O0", "-O1"])
def test_what_stands_on_one_line_is_told_apart_by_columns(tmp_path: Path, name: str, level: str) -> None:
    app, psg, placer = compiled(tmp_path, name, ONE_LINE, level)
    size = len(psg)
    loops: dict[int, list[int]] = {5: [], 7: []}
    callers: list[int] = []
    for path in paths_of(app, "main"):
        frames = as_recorded(path)
        vertex = psg[placer.place(frames)[0]]
        line = path[-1].line
        loop = psg.enclosing(vertex.index, VertexKind.LOOP)
        if line in loops and loop >= 0:
            loops[line].append(psg[loop].place.column)
        if line == 6:
            inside = FrameRef(path[-1].file, "work", 2, 2, 81, inside=True)
            site = psg[psg.enclosing(placer.place([*frames, inside])[0], VertexKind.FUNCTION)].site
            assert site is not None
            callers.append(site.column)
    assert list(dict.fromkeys(loops[5])) == sorted(set(loops[5])) == [4, 44]  # as the code lies: one after the other
    assert list(dict.fromkeys(loops[7])) == sorted(set(loops[7])) == [4, 25]
    assert set(callers) == {4, 19}
    assert len(psg) == size
