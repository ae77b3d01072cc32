"""What each construct of Python becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.structure.psg import VertexKind
from tests.frontend.outline import expect, outline, program

HEAD = "import torch.distributed as dist\n"


def shape(tmp_path: Path, source: str, **files: str) -> str:
    return outline(program(tmp_path, source, **files))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for i in x:\n    dist.barrier()\n", "loop for i in x\n  comm barrier"),
        ("while True:\n    dist.barrier()\n", "loop while True\n  comm barrier"),
        (
            "async def f(x):\n    async for i in x:\n        dist.barrier()\nf(1)\n",
            "function f\n  loop async for i in x\n    comm barrier",
        ),
        ("y = [i for i in x]\n", "loop [i for i in x]"),
        ("y = {i for i in x}\n", "loop {i for i in x}"),
        ("y = {i: i for i in x}\n", "loop {i: i for i in x}"),
        ("y = sum(i for i in x)\n", "loop (i for i in x)"),
        ("y = [dist.barrier() for i in x]\n", "loop [dist.barrier() for i in x]\n  comm barrier"),
        (
            "if a:\n    dist.barrier()\nelif b:\n    pass\nelse:\n    dist.recv(t)\n",
            "branch if a\n  comm barrier\nbranch elif b\nbranch else\n  comm recv",
        ),
        ("if a:\n    pass\nelse:\n    if b:\n        pass\n", "branch if a\nbranch else\n  branch if b"),
        (
            "match x:\n    case 1:\n        dist.barrier()\n    case [a, *b] if f:\n        pass\n",
            "branch case 1\n  comm barrier\nbranch case [a, *b] if f",
        ),
        (
            "try:\n    dist.barrier()\nexcept ValueError:\n    dist.send(t, 1)\nelse:\n    dist.recv(t)\n"
            "finally:\n    dist.gather(t)\n",
            "comm barrier\nbranch except ValueError\n  comm send\nbranch else\n  comm recv\ncomm gather",
        ),
        ("for i in x:\n    pass\nelse:\n    dist.barrier()\n", "loop for i in x\nbranch else\n  comm barrier"),
        ("y = dist.barrier() if a else 2\n", "branch if dist.barrier()\n  comm barrier"),
        ("a and dist.barrier()\n", "branch and dist.barrier()\n  comm barrier"),
        ("y = 1 if a else 2\nz = a or b\n", ""),
        ("with open(f) as g:\n    dist.barrier()\n", "comm barrier"),
        ("dist.barrier(); dist.recv(t)\n", "comm barrier\ncomm recv"),
        ("f = lambda: dist.barrier()\nf()\n", "function <lambda>\n  comm barrier"),
    ],
)
def test_a_construct_becomes(tmp_path: Path, source: str, expected: str) -> None:
    assert shape(tmp_path, HEAD + source) == expected


def test_a_region_that_the_user_names_is_a_vertex_around_its_code(tmp_path: Path) -> None:
    source = HEAD + 'import scalana\nwith scalana.region("augment"):\n    for i in x:\n        pass\ndist.barrier()\n'
    assert shape(tmp_path, source) == "region augment\n  loop for i in x\ncomm barrier"
    source = HEAD + 'from scalana import region\nwith region("a") as r, open(f):\n    dist.barrier()\n'
    assert shape(tmp_path, source) == "region a\n  comm barrier"


def test_straight_line_code_is_one_stretch_with_its_lines(tmp_path: Path) -> None:
    source = """\
        import torch.distributed as dist
        a = 1
        b = (
            2
        )
        dist.barrier()
        c = len([])
        print(c)
        """
    assert outline(program(tmp_path, source), stretches=True) == "comp 1-5\ncomm barrier\ncomp 7-8"


def test_a_statement_that_is_only_communication_is_no_stretch_of_code_but_its_arguments_are(tmp_path: Path) -> None:
    source = HEAD + "x = dist.all_reduce(\n    t,\n    async_op=True)\n"
    psg = program(tmp_path, source)
    assert outline(psg, stretches=True) == "comp 1-1\ncomm allreduce"
    assert (psg[3].place.line, psg[3].place.end_line) == (2, 4)
    source = HEAD + "x = dist.all_reduce(t.sum() + 1)\n"
    assert outline(program(tmp_path, source), stretches=True) == "comp 1-2\ncomm allreduce"


def test_two_loops_in_one_line_are_two_vertices_with_columns(tmp_path: Path) -> None:
    psg = program(tmp_path, "y = [i for i in a] + [j for j in b]\n")
    loops = [vertex.place for vertex in psg.vertices if vertex.kind is VertexKind.LOOP]
    assert [(place.line, place.column, place.end_column) for place in loops] == [(1, 4, 18), (1, 21, 35)]


def test_columns_count_bytes_as_the_interpreter_does(tmp_path: Path) -> None:
    psg = program(tmp_path, 'y = "äöü", [i for i in a]\n')
    loop = next(vertex.place for vertex in psg.vertices if vertex.kind is VertexKind.LOOP)
    assert (loop.column, loop.name) == (14, "[i for i in a]")


def test_nested_comprehensions_nest_and_the_first_iterable_is_outside(tmp_path: Path) -> None:
    source = HEAD + "y = [[dist.recv(t) for j in i] for i in dist.gather(t)]\n"
    assert shape(tmp_path, source) == expect("""
        comm gather
        loop [[dist.recv(t) for j in i] for i in dist.gather(t)]
          loop [dist.recv(t) for j in i]
            comm recv
        """)


def test_methods_classes_and_nested_functions_have_qualified_names(tmp_path: Path) -> None:
    source = """\
        class A:
            class B:
                def m(self):
                    def inner():
                        pass
                    inner()
        A.B().m()
        """
    assert shape(tmp_path, source) == "function A.B.m\n  function A.B.m.<locals>.inner"


def test_a_form_feed_does_not_shift_lines(tmp_path: Path) -> None:
    psg = program(tmp_path, "a = 1\n\x0c\nfor i in x:\n    pass\n")
    loop = next(vertex.place for vertex in psg.vertices if vertex.kind is VertexKind.LOOP)
    assert (loop.line, loop.name) == (3, "for i in x")


def test_a_sum_of_thousands_of_terms_is_read(tmp_path: Path) -> None:
    psg = program(tmp_path, HEAD + "x = " + " + ".join(["f"] * 900) + " + dist.get_rank()\ndist.barrier()\n")
    assert psg.warnings == []
    assert outline(psg) == "comm barrier"


def test_data_dependences_lead_from_what_computed_a_buffer_or_a_bound(tmp_path: Path) -> None:
    source = """\
        import torch.distributed as dist
        def make():
            return 3
        def main(x):
            n = make()
            y = x
            if x:
                y = x * 2
            for i in range(n):
                dist.all_reduce(y)
                y = y + 1
            dist.broadcast(y, 0)
        main(1)
        """
    psg = program(tmp_path, source)
    edges = {(psg[a].place.line, psg[a].kind.value, psg[b].place.line, psg[b].kind.value) for a, b in psg.data}
    assert edges == {
        (2, "function", 9, "loop"),  # the bound is what make() returned
        (8, "comp", 10, "comm"),  # the last one to write the buffer before
        (11, "comp", 12, "comm"),
    }


def test_in_a_loop_the_buffer_may_come_from_the_iteration_before(tmp_path: Path) -> None:
    source = HEAD + "def f(x):\n    for i in x:\n        dist.all_reduce(y)\n        y = i\nf(1)\n"
    psg = program(tmp_path, source)
    assert [(psg[a].place.line, psg[b].place.line) for a, b in psg.data] == [(5, 4)]


def test_a_comprehension_over_several_lines_is_named_for_what_it_goes_over(tmp_path: Path) -> None:
    psg = program(tmp_path, "x = [\n    f(a)\n    for a in b\n    if a\n]\n")
    assert outline(psg).splitlines()[0] == "loop for a in b"
