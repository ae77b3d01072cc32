"""Programs in several languages have one graph."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

import pytest

from scalana.frontend import build as composition
from scalana.frontend.build import build_psg, front_ends, parse, structure_of_run
from scalana.frontend.cpp.build import Cpp
from scalana.frontend.cpp.cache import Cache
from scalana.frontend.front_end import UNSPECIFIED, FrontEnd, Options
from scalana.frontend.linker import Linker
from scalana.frontend.python.build import Python
from scalana.graphs.attribution.callpaths import FrameRef, Placer
from scalana.graphs.structure.psg import PSG, Place, VertexKind
from scalana.graphs.structure.source_tree import Decision, FileStructure, FunctionStructure, Node, Target
from tests.frontend.cpp.programs import needs_libclang
from tests.frontend.outline import expect, outline, write

SOURCES = {
    "couple.py": """\
        import torch.distributed as dist
        import grid
        def exchange(field):
            dist.all_reduce(field)
        for step in range(3):
            grid.interpolate(step)
            exchange(step)
        """,
    "grid.py": "def interpolate(x):\n    while x:\n        x -= 1\n",
    "solve.cpp": """\
        #include <mpi.h>
        void exchange() { MPI_Barrier(MPI_COMM_WORLD); }
        int main() {
            for (int step = 0; step < 3; step++)
                exchange();
        }
        """,
    "plugin.cpp": 'extern "C" void advance(int n) { while (n--) { } }\n',
}


@pytest.fixture
def using() -> list[FrontEnd]:
    """All front ends; sources of C++ are kept nowhere and parsed in this process."""
    return [Cpp(Options(flags=()), cache=Cache("/dev/null/nowhere"), workers=0), Python()]


@needs_libclang
def test_two_programs_stand_side_by_side_below_one_root(tmp_path: Path, using: list[FrontEnd]) -> None:
    write(tmp_path, SOURCES)
    psg = build_psg([tmp_path / "couple.py", tmp_path / "solve.cpp"], using=using, uncalled=False)
    assert outline(psg, 0) == expect("""
        function <module>
          loop for step in range(3)
            function interpolate
              loop while x
            function exchange
              comm allreduce
        function main
          loop for (int step = 0; step < 3; step++)
            function exchange
              comm barrier
        """)
    assert [psg[child].place.name for child in psg[0].children] == ["<module>", "main"]
    other = build_psg([tmp_path / "solve.cpp", tmp_path / "couple.py"], using=[Cpp(Options(flags=())), Python()])
    assert [other[child].place.name for child in other[0].children] == ["main", "<module>"]  # in the order given


@needs_libclang
def test_a_folder_goes_to_everyone_who_finds_something_in_it(tmp_path: Path, using: list[FrontEnd]) -> None:
    write(tmp_path, SOURCES)
    psg = build_psg([tmp_path], using=using)
    assert {Path(vertex.place.file).name for vertex in psg.walk() if vertex.kind is VertexKind.FUNCTION} == set(SOURCES)


@needs_libclang
def test_files_are_parsed_on_demand_by_whoever_they_belong_to(tmp_path: Path, using: list[FrontEnd]) -> None:
    write(tmp_path, {**SOURCES, "later.py": "def f():\n    for i in x: pass\n", "tool": "def g(): pass\n"})
    psg = build_psg([tmp_path / "couple.py", tmp_path / "solve.cpp"], using=using, uncalled=False)
    functions = {
        name: [function.place.name for function in found.functions] if found is not None else None
        for name in ("couple.py", "later.py", "tool", "solve.cpp", "plugin.cpp", "compiled.so")
        for found in [parse(using, str(tmp_path / name))]
    }
    assert functions == {
        "couple.py": ["exchange"],
        "later.py": ["f"],
        "tool": ["g"],
        "solve.cpp": ["exchange", "main"],
        "plugin.cpp": None,  # was not compiled into anything that ran
        "compiled.so": None,
    }
    assert not any(warning for front_end in using for warning in front_end.warnings if "solve.cpp" not in warning)

    placer = Placer(psg, lambda file: parse(using, file))
    main, late = str(tmp_path / "solve.cpp"), str(tmp_path / "later.py")
    before = len(psg)
    found = placer.place([FrameRef(main, "main", 3, 5), FrameRef(main, "exchange", 2, 2)])[0]
    assert psg.function_of(found) == "exchange" and len(psg) == before
    script = FrameRef(str(tmp_path / "couple.py"), "<module>", 1, 6)
    found = placer.place([script, FrameRef(late, "f", 1, 2)])[0]
    assert psg.enclosing(found, VertexKind.LOOP) >= before  # the loop in a file that was read only now


@needs_libclang
def test_warnings_of_each_are_kept(tmp_path: Path, using: list[FrontEnd]) -> None:
    write(tmp_path, {"broken.py": "def (:\n", "broken.cpp": "#include <nowhere.h>\nint main() { for (;;) { } }\n"})
    psg = build_psg([tmp_path / "broken.py", tmp_path / "broken.cpp", tmp_path / "gone.cpp"], using=using)
    assert outline(psg) == "loop for (;;)"
    for name in ("broken.py", "broken.cpp", "gone.cpp"):
        assert [warning for warning in psg.warnings if name in warning], name
    (tmp_path / "empty").mkdir()
    assert build_psg([tmp_path / "empty"]).warnings == [f"{tmp_path}/empty: no C, C++ or Python files in this folder"]


@needs_libclang
def test_a_large_program_leaves_room_for_the_others(tmp_path: Path, using: list[FrontEnd]) -> None:
    calls = "\n".join(f"def f{n}(): f{n - 1}(); f{n - 1}()" for n in range(1, 12))
    write(tmp_path, {**SOURCES, "large.py": f"def f0(): pass\n{calls}\nf11()\n"})
    psg = build_psg([tmp_path / "large.py", tmp_path / "solve.cpp"], using=using, uncalled=False, budget=60)
    assert len(psg) < 100 and any("too large" in warning for warning in psg.warnings)
    (main,) = [child for child in psg[0].children if psg[child].place.name == "main"]
    assert "comm barrier" in outline(psg, main)


@needs_libclang
def test_a_run_of_a_binary_and_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no compiler")
    pytest.importorskip("elftools", reason="pyelftools is not installed")
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path / "cache"))
    source = 'extern "C" void advance(int);\nint main(int n, char **) { for (;;) advance(n); }\n'
    write(tmp_path, {**SOURCES, "app.cpp": source})
    subprocess.run([compiler, "-g", "-o", "app", "app.cpp", "plugin.cpp"], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "plugin.cpp").unlink()
    lacking: list[str] = []
    app, script = str(tmp_path / "app"), str(tmp_path / "couple.py")
    psg, more = structure_of_run(lacking, [app, script], [], {str(tmp_path / "app.cpp")})
    assert [psg[child].place.name for child in psg[0].children] == ["main", "<module>"]
    assert "loop for (;;)" in outline(psg, 0) and "comm allreduce" in outline(psg, 0)
    assert lacking == []  # the run was not in what is gone
    assert more(str(tmp_path / "app.cpp")) is not None and more(str(tmp_path / "grid.py")) is not None
    structure_of_run(lacking, [app, script], [], ())
    assert len(lacking) == 1 and "plugin.cpp cannot be read" in lacking[0]


class Models:
    """A front end for what there is none for yet: a line ``FUNCTION OPERATION ...`` is a function of operations."""

    languages: Sequence[str] = ("models",)

    def __init__(self, options: Options = UNSPECIFIED) -> None:
        self.warnings: list[str] = []
        self.lacking: list[str] = []
        self.functions: list[FunctionStructure] = []

    def takes(self, path: str) -> bool:
        return path.endswith(".model")

    def read(self, paths: Sequence[str]) -> None:
        for path in paths:
            for number, line in enumerate(Path(path).read_text().splitlines(), 1):
                name, *words = line.split()
                nodes = [Node(VertexKind.OP, Place(path, number, number, 0, word)) for word in words]
                place = Place(path, number, number, 0, name)
                self.functions.append(FunctionStructure(place, lambda nodes=nodes: nodes))  # type: ignore[misc]

    def decide(self, function: FunctionStructure, context: Hashable, node: Node) -> Decision | None:
        return None

    def entries(self, linker: Linker) -> Iterable[Target]:
        return map(Target, self.functions)

    def add_uncalled(self, linker: Linker) -> None:
        return None

    def parses(self, file: str) -> bool:
        return self.takes(file)

    def parse(self, file: str) -> FileStructure | None:
        return None


def test_another_front_end_is_another_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "FRONT_ENDS", (Models, *composition.FRONT_ENDS))
    write(tmp_path, {"net.model": "forward linear relu\n", "train.py": "for x in y: pass\n"})
    psg: PSG = build_psg([tmp_path / "net.model", tmp_path / "train.py"])
    assert outline(psg, 0) == expect("""
        function forward
          op linear
          op relu
        function <module>
          loop for x in y: pass
        """)
    assert parse(front_ends(), str(tmp_path / "net.model")) is None and psg.warnings == []
