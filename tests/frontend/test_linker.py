"""Inlining is finite, and one vertex has one calling context."""

from __future__ import annotations

from pathlib import Path

from scalana.frontend.build import build_psg
from scalana.graphs.structure.psg import VertexKind
from tests.frontend.outline import expect, outline, program, write


def test_a_function_called_from_two_places_is_two_vertices(tmp_path: Path) -> None:
    source = "def f():\n    for i in x: pass\ndef g():\n    f()\n    f()\ng()\nf()\n"
    psg = program(tmp_path, source)
    assert outline(psg) == expect("""
        function g
          function f
            loop for i in x: pass
          function f
            loop for i in x: pass
        function f
          loop for i in x: pass
        """)
    sites = [vertex.site.line for vertex in psg.walk() if vertex.place.name == "f" and vertex.site is not None]
    assert sites == [4, 5, 7]


def test_a_function_is_resolved_for_each_of_its_callers(tmp_path: Path) -> None:
    source = "def a(): pass\ndef b(): pass\ndef run(f): f()\nrun(a)\nrun(b)\n"
    assert outline(program(tmp_path, source)) == "function run\n  function a\nfunction run\n  function b"


def test_recursion_is_a_back_edge(tmp_path: Path) -> None:
    source = "def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n == 1 or even(n - 1)\neven(4)\n"
    psg = program(tmp_path, source)
    assert outline(psg) == expect("""
        function even
          branch or odd(n - 1)
            function odd
              branch or even(n - 1)
                call even -> even
        """)
    back = [(psg[a].place.name, psg[b].place.name) for a, b, kind in psg.edges() if kind == "recursion"]
    assert back == [("even", "even")]


def test_recursion_through_ever_new_closures_ends(tmp_path: Path) -> None:
    source = """\
        def wrap(f):
            def inner():
                return f() or wrap(inner)()
            return inner
        def leaf(): pass
        wrap(leaf)()
        class Nest:
            def __init__(self, inside): self.inside = inside
            def run(self): return Nest(self).run() or self.inside.run()
        Nest(Nest(Nest(None))).run()
        """
    assert len(program(tmp_path, source)) < 3000


def test_exponentially_many_calling_contexts_are_cut_off_with_a_warning(tmp_path: Path) -> None:
    levels = "".join(f"def f{i}():\n    f{i + 1}()\n    f{i + 1}()\n" for i in range(30))
    write(tmp_path, {"main.py": levels + "def f30():\n    for i in x: pass\nf0()\n"})
    psg = build_psg([tmp_path / "main.py"], budget=2000)
    assert len(psg) < 2500
    assert any("too large" in warning for warning in psg.warnings)
    cut = [vertex for vertex in psg.vertices if vertex.kind is VertexKind.CALL]
    assert cut and all(vertex.place.name.startswith("f") for vertex in cut)


def test_very_deep_calls_are_cut_off_with_a_warning(tmp_path: Path) -> None:
    levels = "".join(f"def f{i}():\n    f{i + 1}()\n" for i in range(100))
    write(tmp_path, {"main.py": levels + "def f100(): pass\nf0()\n"})
    psg = build_psg([tmp_path / "main.py"], depth=10, uncalled=False)
    assert any("10 functions deep" in warning for warning in psg.warnings)
    assert sum(vertex.kind is VertexKind.FUNCTION for vertex in psg.vertices) == 11
    assert psg.vertices[-1].kind is VertexKind.CALL


def test_children_have_greater_numbers_than_their_parents(tmp_path: Path) -> None:
    psg = program(tmp_path, "def f():\n    g()\ndef g():\n    for i in x: h()\ndef h(): pass\nf()\ng()\n")
    assert all(vertex.parent < vertex.index for vertex in psg.vertices)
    for vertex in psg.vertices:
        assert [psg[child].position for child in vertex.children] == list(range(len(vertex.children)))
