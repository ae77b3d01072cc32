"""Call paths find their vertices; the paths are those of programs that really run."""

from __future__ import annotations

import random
import sys
import sysconfig
import textwrap
import threading
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType

import pytest

from scalana.frontend.build import build_psg
from scalana.frontend.front_end import Options
from scalana.frontend.python.build import Python
from scalana.graphs.attribution.callpaths import FrameRef, Placer
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.runtime.operations import BY_NAME

LIB_DIRS = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
CallPath = tuple[FrameRef, ...]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content))


class Program:
    """A program in a folder, its graph, and a placer. ``lib/`` in it is a library."""

    def __init__(self, folder: Path, main: str, **files: str) -> None:
        write(folder, {"main.py": main, **{name.replace("__", "/") + ".py": text for name, text in files.items()}})
        self.folder = folder
        self.main = str(folder / "main.py")
        self.fresh()

    def fresh(self) -> None:
        """A graph and a placer as if nothing had been placed."""
        libraries = [*LIB_DIRS, str(self.folder / "lib")]
        self.python = Python(Options(lib_dirs=libraries))
        self.psg = build_psg([self.main], using=[self.python], uncalled=False)
        self.static = len(self.psg)
        self.placer = Placer(self.psg, self.python.parse, lib_dirs=libraries)

    def run(self, *, columns: bool = True) -> list[CallPath]:
        """Execute the program; the path at every line, and where a library is entered, each once."""
        paths: dict[CallPath, None] = {}
        folder = str(self.folder)

        def ours(frame: FrameType | None) -> bool:
            name = frame.f_code.co_filename if frame is not None else ""
            return name.startswith(folder) or name in ("<string>", "<notebook>")

        def path(frame: FrameType | None) -> CallPath:
            found: list[FrameRef] = []
            while frame is not None and frame.f_code.co_filename != __file__:
                code = frame.f_code
                name = getattr(code, "co_qualname", code.co_name) if columns else code.co_name
                column = _column(code, frame.f_lasti) if columns else -1
                found.append(FrameRef(code.co_filename, name, code.co_firstlineno, frame.f_lineno or 0, column))
                frame = frame.f_back
            return tuple(reversed(found))

        def trace(frame: FrameType, event: str, argument: object) -> object:
            if event == "line" and ours(frame) or event == "call" and ours(frame.f_back) and not ours(frame):
                paths[path(frame)] = None
            return trace if ours(frame) else None

        names = {"__name__": "__main__", "__file__": self.main}
        code = compile(Path(self.main).read_text(), self.main, "exec")
        before = set(sys.modules)
        sys.path[:0] = [folder, str(self.folder / "lib")]
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            exec(code, names)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            del sys.path[:2]
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                    del sys.modules[name]
        return list(paths)

    def describe(self, vertex: int) -> str:
        """Kinds and names from the root to a vertex."""
        way = [self.psg[vertex], *self.psg.ancestors(vertex)][-2::-1]
        return " > ".join(f"{v.kind.value} {v.place.name}" if v.kind is not VertexKind.COMP else "comp" for v in way)

    def where(self, line: int, paths: Iterable[CallPath], file: str = "main.py") -> list[str]:
        """Where paths lie whose innermost frame is at a line of a file, sorted, each once."""
        found = {
            self.describe(self.placer.place(path)[0])
            for path in paths
            if path[-1].line == line and path[-1].filename.endswith(file)
        }
        return sorted(found)


def _column(code: CodeType, lasti: int) -> int:
    if sys.version_info < (3, 11):
        return -1
    column = list(code.co_positions())[lasti // 2][2]
    return -1 if column is None else column


def shape(psg: PSG, index: int = 0) -> object:
    """A graph up to the numbering of vertices and the order of what samples added."""
    vertex = psg[index]
    children = [shape(psg, child) for child in vertex.children]
    back = psg[vertex.recursion].place if vertex.recursion >= 0 else None
    added = sorted((c for c, n in zip(children, vertex.children, strict=True) if n in psg.added), key=repr)
    shown = [c for c, n in zip(children, vertex.children, strict=True) if n not in psg.added]
    return vertex.kind.value, str(vertex.place), vertex.place.name, vertex.operation, str(back), shown, added


MAIN = """\
    import functools, threading
    import helper
    from helper import timed, apply
    TABLE = {}

    def register(f):
        TABLE[f.__name__] = f
        return f

    @register
    def fill(n):
        s = 0
        for i in range(n):
            if i % 2:
                s += i
            else:
                s -= i
        return s

    @timed
    def step(n):
        try:
            return inner(n) + [k for k in range(2)][0] + sum(fill(k) for k in range(2))
        finally:
            helper.note()

    @timed
    def inner(n):
        with open(__file__) as f:
            x = [fill(i) for i in range(n)] + [i for i in range(n)]
        return len(sorted(x, key=lambda v: -v))

    def down(n):
        return 0 if n == 0 else down(n - 1)

    class Tree:
        def visit(self, n):
            return getattr(self, "visit_" + str(n % 2))(n)
        def visit_0(self, n):
            return n and self.visit(n - 1)
        def visit_1(self, n):
            return self.visit(n - 1)

    def numbers(n):
        for i in range(n):
            yield fill(i)

    def main():
        for name in TABLE:
            apply(TABLE[name], 2)
        step(2)
        down(3)
        Tree().visit(5)
        for n in numbers(2):
            pass
        helper.consume(fill(i) for i in range(2))
        worker = threading.Thread(target=apply, args=(fill, 2))
        worker.start()
        worker.join()
        exec("def made():\\n    return fill(1)\\nmade()", globals())
        apply(functools.partial(fill, 1))

    main()
"""
HELPER = """\
    import functools
    def timed(f):
        @functools.wraps(f)
        def wrapper(*a):
            before = 1
            result = f(*a)
            return result
        return wrapper

    def apply(f, *a):
        return f(*a)

    def consume(values):
        total = 0
        for v in values:
            total += v
        return total

    def note():
        pass
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path, MAIN, helper=HELPER)


@pytest.mark.parametrize("columns", [True, False])
def test_every_path_of_a_real_run_lies_in_its_function_at_its_line(program: Program, columns: bool) -> None:
    paths = program.run(columns=columns)
    assert len(paths) > 100
    for path in paths:
        vertex, line, user_vertex = program.placer.place(path)
        own = [frame for frame in path if not program.placer.is_library(frame)]
        if not own:
            assert (line, user_vertex) == (0, 0)
            continue
        frame = own[-1]
        assert line == frame.line
        place = program.psg[user_vertex].place
        assert place.file == frame.filename
        function = program.psg[program.psg.enclosing(user_vertex, VertexKind.FUNCTION)].place
        if "<genexpr>" not in frame.qualname and "<listcomp>" not in frame.qualname:
            assert function.name.rpartition(".")[2] == frame.qualname.rpartition(".")[2]
            if not frame.filename.startswith("<"):
                assert function.line == frame.firstlineno
        if line and not frame.filename.startswith("<"):
            assert place.line <= line <= place.end_line
        assert vertex == user_vertex or own[-1] is not path[-1]


def test_the_innermost_loop_and_branch_are_found(program: Program) -> None:
    paths = program.run()
    fill = [where for where in program.where(15, paths) if "apply" in where and "thread" not in where]
    assert all(where.endswith("function fill > loop for i in range(n) > branch if i % 2 > comp") for where in fill)
    assert program.where(12, paths)[0].endswith("function fill > comp")
    assert all(where.endswith("branch else > comp") for where in program.where(17, paths))


def test_functions_that_the_source_shows_are_not_added(program: Program) -> None:
    paths = program.run()
    (where,) = [w for w in program.where(23, paths) if w.endswith("comp")]
    assert where == (
        "function <module> > function main > function timed.<locals>.wrapper > function step > comp"
    )  # through the decorator
    for path in paths:
        vertex = program.placer.place(path)[0]
        if path[-1].qualname.endswith("step") or path[-1].qualname.endswith("inner"):
            assert vertex < program.static


def test_indirect_calls_hang_below_the_call_site(program: Program) -> None:
    paths = program.run()
    inside = "function <module> > function main > loop for name in TABLE > function apply > call f > function fill"
    assert f"{inside} > comp" in program.where(12, paths)
    assert any("call getattr(...) > function Tree.visit_1" in w for w in program.where(42, paths))


def test_recursion_goes_back_to_the_same_vertex(program: Program) -> None:
    paths = program.run()
    assert len({program.placer.place(p)[0] for p in paths if p[-1].qualname == "down"}) == 1
    visits = {program.placer.place(p)[0] for p in paths if p[-1].qualname.endswith("visit")}
    assert len(visits) == 1
    assert any(program.psg[v].recursion >= 0 for v in program.psg.added)


def test_a_comprehension_lies_in_its_function_whoever_runs_it(program: Program) -> None:
    paths = program.run()
    wheres = program.where(56, [p for p in paths if p[-1].qualname.endswith("<genexpr>")])
    assert wheres == ["function <module> > function main > loop (fill(i) for i in range(2))"]


def test_a_thread_has_a_call_vertex_below_the_root(program: Program) -> None:
    paths = program.run()
    for path in paths:
        program.placer.place(path)
    (top,) = [v.place.name for v in program.psg.vertices if v.parent == 0 and v.place.name != "<module>"]
    assert top == "thread apply"
    assert any(
        w.startswith("call thread apply > function apply > comp > call fill > function fill")
        for w in program.where(12, paths)
    )


def test_code_without_a_source_still_has_a_place(program: Program) -> None:
    paths = program.run()
    made = [p for p in paths if p[-1].qualname == "made"]
    assert made
    vertex, line, _ = program.placer.place(made[0])
    assert program.psg[vertex].place.file == "<string>" and line == 2
    assert "function main" in program.describe(vertex)
    assert any("function made > call fill > function fill" in w for w in program.where(12, paths))


@pytest.mark.parametrize("columns", [True, False])
def test_the_graph_does_not_depend_on_the_order_of_paths(program: Program, columns: bool) -> None:
    paths = program.run(columns=columns)
    shapes = []
    placed = []
    for seed in range(4):
        random.Random(seed).shuffle(paths)
        program.fresh()
        placed.append({path: program.describe(program.placer.place(path)[0]) for path in paths})
        shapes.append(shape(program.psg))
    assert shapes[0] == shapes[1] == shapes[2] == shapes[3]
    assert placed[0] == placed[1] == placed[2] == placed[3]


def test_placing_again_adds_nothing_also_for_a_new_placer(program: Program) -> None:
    paths = program.run()
    first = [program.placer.place(path) for path in paths]
    size = len(program.psg)
    again = Placer(program.psg, program.python.parse, lib_dirs=[*LIB_DIRS, str(program.folder / "lib")])
    assert [again.place(path) for path in paths] == first
    assert len(program.psg) == size


def test_a_tree_of_paths_is_placed_like_its_paths(program: Program) -> None:
    paths = program.run()
    number: dict[CallPath, int] = {(): 0}
    parents, frames = [0], [FrameRef("", "", 0, 0)]
    for path in paths:
        for depth in range(1, len(path) + 1):
            if path[:depth] not in number:
                number[path[:depth]] = len(parents)
                parents.append(number[path[: depth - 1]])
                frames.append(path[depth - 1])
    vertices, lines, user_vertices = program.placer.place_tree(parents, frames)
    assert len(vertices) == len(parents) and vertices[0] == lines[0] == user_vertices[0] == 0
    for path in paths:
        row = number[path]
        assert program.placer.place(path) == (vertices[row], lines[row], user_vertices[row])


# libraries

NN = """\
    class Module:
        def __call__(self, *a):
            return self._call_impl(*a)
        def _call_impl(self, *a):
            return self.forward(*a)
        def backward(self):
            for hook in self.hooks:
                hook(self)
    def all_reduce(x):
        return _wrapped(x)
    def _wrapped(x):
        return x
"""


def test_a_chain_of_library_frames_is_one_call(tmp_path: Path) -> None:
    source = """\
        import nn
        def f(x):
            y = 1
            nn.all_reduce(x)
            return y
        f(1)
        """
    program = Program(tmp_path, source, lib__nn=NN)
    paths = [p for p in program.run() if p[-1].qualname in ("all_reduce", "_wrapped")]
    assert paths
    found = {program.placer.place(path) for path in paths}
    (vertex, line, user_vertex) = found.pop()
    assert not found
    assert program.describe(vertex) == "function <module> > function f > comp > call all_reduce"
    assert (line, program.psg[user_vertex].kind) == (4, VertexKind.COMP)


def test_the_source_shows_through_a_library_that_calls_back(tmp_path: Path) -> None:
    source = """\
        import nn
        class Net(nn.Module):
            def forward(self, x):
                return x
        def hook(loss):
            return 1
        model = Net()
        loss = nn.Module()
        loss.hooks = [hook]
        def train():
            for i in range(2):
                y = model(i)
                loss.backward()
        train()
        """
    program = Program(tmp_path, source, lib__nn=NN)
    paths = program.run()
    inside = "function <module> > function train > loop for i in range(2)"
    assert program.where(4, paths) == [f"{inside} > function Net.forward > comp"]
    assert program.where(6, paths) == [f"{inside} > call loss.backward > function hook > comp"]
    chain = [p for p in paths if p[-1].qualname.endswith("__call__")]
    assert [program.describe(program.placer.place(p)[0]) for p in chain] == [f"{inside} > comp"]
    backward = [p for p in paths if p[-1].qualname.endswith("backward")]
    assert {program.placer.place(p)[1] for p in backward} == {13}


def test_an_installed_main_program_can_count_as_the_users_own(tmp_path: Path) -> None:
    program = Program(tmp_path, "import nn\n", lib__tool="def go():\n    x = 1\n    return x\n")
    tool = str(tmp_path / "lib" / "tool.py")
    path = [
        FrameRef("<frozen runpy>", "_run_code", 1, 88),
        FrameRef(tool, "<module>", 1, 1),
        FrameRef(tool, "go", 1, 2),
    ]
    assert program.placer.place(path)[1:] == (0, 0)
    own = Placer(program.psg, program.python.parse, lib_dirs=[str(tmp_path / "lib")], own=[tool])
    vertex, line, _ = own.place(path)
    assert line == 2 and program.describe(vertex).startswith("function <module>")
    assert program.describe(vertex).endswith("function go > comp")


def test_generated_methods_are_no_lines_of_the_users(tmp_path: Path) -> None:
    program = Program(tmp_path, "def f():\n    x = 1\nf()\n")
    path = [FrameRef(program.main, "<module>", 1, 3, 0), FrameRef(program.main, "f", 1, 2, 4)]
    assert program.placer.place([*path, FrameRef("<string>", "C.__init__", 1, 2)])[1] == 2
    assert program.placer.place([*path, FrameRef("<frozen importlib._bootstrap>", "_load", 1, 2)])[1] == 2


def test_code_that_a_library_compiles_is_the_librarys_below_the_users_line(tmp_path: Path) -> None:
    program = Program(tmp_path, "import all_of_it\n")
    path = [FrameRef(program.main, "<module>", 1, 1, 0), FrameRef("<frozen importlib._bootstrap>", "_load", 1, 2)]
    compiled = FrameRef("<string>", "<module>", 1, 1)
    plain, made = (program.placer.place(frames) for frames in (path, [*path, compiled]))
    assert plain == made and program.psg[made[0]].place.name == "import"
    # A library that runs the program itself, as a string, is but how it is started.
    starter = FrameRef(str(tmp_path / "lib" / "run.py"), "main", 1, 2)
    assert program.psg[program.placer.place([starter, compiled])[2]].place.file == "<string>"


# communication

COMM = """\
    import torch.distributed as dist
    def f(x):
        y = x + 1
        dist.all_reduce(g(x)); dist.broadcast(x, 0)
        dist.all_reduce(x, async_op=True).wait()
        for i in x:
            dist.barrier()
    def g(x):
        return x
    f(1)
"""
TORCH = "/lib/torch/distributed/distributed_c10d.py"


def comm_path(program: Program, line: int, column: int, *inner: FrameRef) -> list[FrameRef]:
    return [FrameRef(program.main, "<module>", 1, 10, 0), FrameRef(program.main, "f", 2, line, column), *inner]


def test_communication_is_found_by_column_and_its_arguments_are_not_it(tmp_path: Path) -> None:
    program = Program(tmp_path, COMM)
    place = program.placer.place
    allreduce = FrameRef(TORCH, "all_reduce", 1, 5, 0)
    placer = Placer(program.psg, program.python.parse, lib_dirs=["/lib"])
    vertex, _, user_vertex = placer.place(comm_path(program, 4, 4, allreduce))
    assert vertex == user_vertex
    assert program.psg[vertex].operation == BY_NAME["allreduce"].code
    assert program.psg[place(comm_path(program, 4, 27))[0]].operation == BY_NAME["broadcast"].code
    assert program.psg[place(comm_path(program, 4, 20))[0]].kind is VertexKind.COMP  # g(x)
    inside = [FrameRef(program.main, "g", 8, 9, 4)]
    assert program.describe(place(comm_path(program, 4, 20, *inside))[0]).endswith("function f > function g > comp")
    assert program.describe(place(comm_path(program, 7, 8))[0]).endswith("loop for i in x > comm dist.barrier")


def test_without_columns_communication_is_found_by_the_library_that_is_entered(tmp_path: Path) -> None:
    program = Program(tmp_path, COMM)
    placer = Placer(program.psg, program.python.parse, lib_dirs=["/lib"])
    vertex, _, _ = placer.place(comm_path(program, 4, -1, FrameRef(TORCH, "all_reduce", 1, 5)))
    assert program.psg[vertex].operation == BY_NAME["allreduce"].code
    assert program.psg[placer.place(comm_path(program, 4, -1))[0]].kind is VertexKind.COMP


def test_the_vertex_of_a_recorded_operation_is_the_one_that_the_source_shows(tmp_path: Path) -> None:
    program = Program(tmp_path, COMM)
    wait, allreduce = BY_NAME["wait"].code, BY_NAME["allreduce"].code
    for code in (wait, allreduce):
        vertex, line, _ = program.placer.place(comm_path(program, 5, 4))
        found = program.placer.comm_vertex(vertex, code, line)
        assert found < program.static
        assert (program.psg[found].operation, program.psg[found].place.line) == (code, 5)


def test_the_vertex_of_an_operation_inside_a_library_is_below_its_call(tmp_path: Path) -> None:
    program = Program(tmp_path, "import ddp\ndef f(loss):\n    loss.backward()\nf(1)\n")
    placer = Placer(program.psg, program.python.parse, lib_dirs=["/lib"])
    path = [
        FrameRef(program.main, "<module>", 1, 4, 0),
        FrameRef(program.main, "f", 2, 3, 4),
        FrameRef("/lib/torch/_tensor.py", "Tensor.backward", 5, 9, 8),
    ]
    vertex, line, _ = placer.place(path)
    made = placer.comm_vertex(vertex, BY_NAME["allreduce"].code, line)
    assert program.describe(made).endswith("function f > call loss.backward > comm allreduce")
    assert placer.comm_vertex(vertex, BY_NAME["allreduce"].code, line) == made
    assert placer.comm_vertex(vertex, BY_NAME["broadcast"].code, line) != made
    assert placer.place(path)[0] == vertex  # what was added does not catch later samples


def test_beyond_the_budget_functions_have_no_inside_but_samples_have_a_place(program: Program) -> None:
    paths = program.run()
    placer = Placer(program.psg, program.python.parse, lib_dirs=LIB_DIRS, budget=len(program.psg))
    for path in paths:
        vertex, _, _ = placer.place(path)
        assert 0 <= vertex < len(program.psg)
    assert sum("found by samples are not analysed" in warning for warning in program.psg.warnings) == 1


def test_a_comprehension_of_code_without_a_source_is_part_of_its_function(tmp_path):
    program = Program(tmp_path, "exec(cell)\n")
    main = FrameRef(program.main, "<module>", 1, 1)
    cell, function = FrameRef("<cell 2>", "<module>", 1, 7), FrameRef("<cell 1>", "features", 2, 6)
    inner = FrameRef("<cell 1>", "features.<locals>.<genexpr>", 6, 6)
    whole, part = program.placer.place([main, cell, function]), program.placer.place([main, cell, function, inner])
    assert part == whole and program.psg.function_of(part[0]) == "features"
