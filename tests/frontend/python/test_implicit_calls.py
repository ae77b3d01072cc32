"""Methods that Python calls without a call in the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.frontend.python.nodes import Implicit
from scalana.frontend.python.source import parse_python_text
from scalana.graphs.structure.psg import VertexKind
from scalana.graphs.structure.source_tree import preorder, unresolved
from tests.frontend.outline import outline, program

CLASS = """\
class A:
    def __enter__(self): return self
    def __exit__(self, *why): pass
    def __iter__(self):
        while x: yield B()
    def __getitem__(self, key): return B()
    def __setitem__(self, key, value): pass
    def __next__(self): return B()
    def __len__(self): return 3
    @property
    def size(self): return B()
    def plain(self): pass
    async def __aenter__(self): return self
    async def __aexit__(self, *why): pass
    def __aiter__(self): return self
    async def __anext__(self): return B()
class B:
    def work(self): pass
a = A()
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("with a as b:\n    b.plain()\n", "function A.__enter__\nfunction A.plain\nfunction A.__exit__"),
        (
            "for b in a:\n    b.work()\n",
            "loop for b in a\n  function A.__iter__\n    loop while x: yield B()\n  function A.__next__\n"
            "  function B.work",
        ),
        (
            "[b.work() for i, b in enumerate(a)]\n",
            "loop [b.work() for i, b in enumerate(a)]\n  function A.__iter__\n    loop while x: yield B()\n"
            "  function A.__next__\n  function B.work",
        ),
        ("a[0].work()\n", "function A.__getitem__\nfunction B.work"),
        ("a[0] = 1\n", "function A.__setitem__"),
        ("a.size.work()\n", "function A.size\nfunction B.work"),
        ("x = a.size + 1\n", "function A.size"),
        ("f = a.plain\n", ""),
        ("next(a)\n", "function A.__next__"),
        ("len(a)\n", "function A.__len__"),
        (
            "async def f():\n    async with a as b:\n        b.plain()\nawait f()\n",
            "function f\n  function A.__aenter__\n  function A.plain\n  function A.__aexit__",
        ),
        (
            "async def f():\n    async for b in a:\n        b.work()\nawait f()\n",
            "function f\n  loop async for b in a\n"
            "    function A.__aiter__\n    function A.__anext__\n    function B.work",
        ),
    ],
)
def test_a_method_that_nothing_calls_by_name(tmp_path: Path, source: str, expected: str) -> None:
    whole = CLASS + source.replace("await f()", "import asyncio\nasyncio.run(f())")
    assert outline(program(tmp_path, whole)) == expected


def test_what_is_no_object_of_the_users_leaves_no_trace(tmp_path: Path) -> None:
    source = "import torch\nfor x in loader:\n    with torch.no_grad():\n        y = x[0].size\n"
    psg = program(tmp_path, source)
    assert outline(psg) == "loop for x in loader"
    file = parse_python_text(source, "main.py")
    sites = [node for node in preorder(file.module.nodes) if isinstance(node.call, Implicit)]
    assert len(sites) >= 4  # they are there, until it is known what the values are
    assert {unresolved(node).kind for node in sites} == {VertexKind.COMP}


def test_a_call_with_attributes_as_arguments_is_still_all_of_its_statement(tmp_path: Path) -> None:
    psg = program(tmp_path, "import torch.distributed as dist\nfor x in y:\n    work = dist.all_reduce(x.grad)\n")
    (comm,) = [vertex for vertex in psg.walk() if vertex.kind is VertexKind.COMM]
    assert comm.place.column == 4  # of the statement, and there is no stretch of code beside it
    assert [psg[child].kind for child in psg[comm.parent].children] == [VertexKind.COMM]
