"""Addresses in a program lead to the vertices of its sources, through what the compiler inlined."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.frontend.cpp.build import build_cpp_psg
from scalana.frontend.cpp.cache import Cache
from scalana.frontend.cpp.resolve import Program
from scalana.frontend.cpp.symbols import Symbols, symbols_of
from scalana.graphs.callpaths import FrameRef, Placer
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


def test_addresses_lead_to_vertices(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(SOURCE)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-g", "-O2", "-o", "app", str(tmp_path / "a.cpp")], cwd=tmp_path, check=True, timeout=120)
    app = str(tmp_path / "app")
    program = Program()
    psg = build_cpp_psg([app], cache=Cache("/dev/null/x"), program=program, workers=0)
    size = len(psg)
    placer = Placer(psg, program.parse)
    with Symbols(app) as symbols:
        from elftools.elf.elffile import ELFFile

        with open(app, "rb") as file:
            spans = [(low, high) for low, high, name in symbols_of(ELFFile(file)) if name == "main"]
        paths = {symbols.frames(address) for low, high in spans for address in range(low, high)}
    deep = {
        path for path in paths if [frame.name for frame in path] == ["main", "twice", "fill"] and path[-1].line == 4
    }
    assert {path[1].line for path in deep} == {8, 10}
    for path in deep:
        frames = [FrameRef(frame.file, frame.name, frame.first_line, frame.line, frame.column) for frame in path]
        vertex = psg[placer.place(frames)[0]]
        assert vertex.place.line == 4
        kinds = [(above.kind.value, above.place.line) for above in psg.ancestors(vertex.index)]
        arm = [("branch", 7)] if path[1].line == 8 else []
        assert kinds == [
            ("loop", 3), ("function", 2), *arm, ("function", 6), ("loop", 13), ("function", 12), ("root", 0),
        ]  # fmt: skip
    assert len(psg) == size  # nothing had to be added
