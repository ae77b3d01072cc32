"""Calls lead to the functions that they call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontend.outline import expect, outline, program

LIB = {
    "lib": "def work():\n    pass\ndef other():\n    pass\n",
    "pkg/__init__": "from .inner import work as exported\nfrom .deep import *\nfrom . import inner\n",
    "pkg/inner": "def work():\n    pass\n",
    "pkg/deep": "from .inner import work as starred\nfrom ..lib import other as up\n",
}
NN = """\
import functools, torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Block(nn.Module):
    def forward(self, x):
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.many = nn.ModuleList([Block() for _ in range(3)])
        self.seq = nn.Sequential(nn.Linear(2, 2), Block())

    def forward(self, x):
        return {body}

"""


def calls(tmp_path: Path, source: str, **files: str) -> str:
    return outline(program(tmp_path, source, **files))


@pytest.mark.parametrize(
    "source",
    [
        "import lib\nlib.work()\n",
        "import lib as l\nl.work()\n",
        "from lib import work\nwork()\n",
        "from lib import work as w\nw()\n",
        "from lib import *\nwork()\n",
        "import pkg.inner\npkg.inner.work()\n",
        "import pkg.inner as i\ni.work()\n",
        "from pkg import inner\ninner.work()\n",
        "from pkg import exported\nexported()\n",
        "import pkg\npkg.exported()\n",
        "import pkg\npkg.inner.work()\n",
        "from pkg import starred\nstarred()\n",
        "def f():\n    from lib import work\n    return work\ng = f()\ng()\n",
        "try:\n    import nowhere.fast as lib\nexcept ImportError:\n    import lib\nlib.work()\n",
    ],
)
def test_an_import_leads_to_its_definition(tmp_path: Path, source: str) -> None:
    assert "function work" in calls(tmp_path, source, **LIB)


@pytest.mark.parametrize(
    "source",
    [
        "g = f\ng()\n",
        "g = h = f\nh()\n",
        "a, g = 1, f\ng()\n",
        "import functools\ng = functools.partial(f, 1)\ng()\n",
        "from functools import partial\npartial(f, 1)()\n",
        "g = f if x else None\ng()\n",
        "g = x or f\ng()\n",
        "(g := f)()\n",
        "t = {'a': f, 'b': 1}\nt['a']()\n",
        "t = [f]\nfor g in t:\n    g()\n",
        "t = []\nt.append(f)\nfor i, g in enumerate(t):\n    g()\n",
        "for g, x in zip([f], [1]):\n    g()\n",
        "for k, g in {'a': f}.items():\n    g()\n",
        "[g() for g in (f,)]\n",
        "def call(fn, *a, **k):\n    return fn(*a, **k)\ncall(f)\n",
        "def call(fn, *a):\n    return fn(*a)\ncall(call, f)\n",
        "def get():\n    return f\nget()()\n",
        "list(map(f, [1]))\n",
        "import torch.utils.checkpoint as c\nc.checkpoint(f, x)\n",
        "import torch.multiprocessing as mp\nmp.spawn(f, nprocs=2)\n",
        "def outer():\n    return f()\n(lambda: outer())()\n",
        "class A:\n    run = f\nA.run()\n",
        "import torch\ng = torch.compile(f)\ng()\n",
    ],
)
def test_a_function_is_found_behind(tmp_path: Path, source: str) -> None:
    assert "function f" in calls(tmp_path, "def f(*a):\n    pass\n" + source).split("\n  call f")[0]


def test_conditional_definitions_are_both_there(tmp_path: Path) -> None:
    source = "if x:\n    def f():\n        for a in x: pass\nelse:\n    def f():\n        for b in x: pass\nf()\n"
    assert calls(tmp_path, source).endswith("function f\n  loop for a in x: pass\nfunction f\n  loop for b in x: pass")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class A:\n    def m(self): pass\nA().m()\n", "function A.m"),
        ("class A:\n    def m(self): self.n()\n    def n(self): pass\nA().m()\n", "function A.m\n  function A.n"),
        ("class A:\n    def m(self): pass\nclass B(A): pass\nB().m()\n", "function A.m"),
        (
            "class A:\n    def m(self): self.n()\n    def n(self): pass\n"
            "class B(A):\n    def n(self): super().n()\nB().m()\n",
            "function A.m\n  function B.n\n    function A.n",  # the object's own class decides
        ),
        (
            "class A:\n    def m(self): pass\nclass B(A):\n    def m(self): super().m()\n"
            "class C(A):\n    def m(self): super().m()\nclass D(B, C): pass\nD().m()\n",
            "function B.m\n  function C.m\n    function A.m",  # Python's own order of bases
        ),
        ("class A:\n    def __init__(self): pass\nA()\n", "function A.__init__"),
        ("class A:\n    x: int\n    def __post_init__(self): pass\nA(1)\n", "function A.__post_init__"),
        ("class A:\n    def __call__(self): pass\na = A()\na()\n", "function A.__call__"),
        ("class A:\n    @staticmethod\n    def s(x): x()\ndef f(): pass\nA.s(f)\n", "function A.s\n  function f"),
        (
            "class A:\n    @classmethod\n    def c(cls): return cls()\n    def m(self): pass\nA.c().m()\n",
            "function A.c\nfunction A.m",
        ),
        (
            "class A:\n    def m(self): pass\nclass H:\n    def __init__(self, a): self.a = a\n"
            "    def run(self): self.a.m()\nH(A()).run()\n",
            "function H.__init__\nfunction H.run\n  function A.m",
        ),
        (
            "class A:\n    def m(self): pass\nclass H:\n    def __init__(self): self.a = A()\n    @property\n"
            "    def b(self): return self.a\nH().b.m()\n",
            "function H.__init__\nfunction H.b\nfunction A.m",
        ),
        ("class A:\n    def m(self): pass\ndef f(a: A): a.m()\nf(x)\n", "function f\n  function A.m"),
        ("class A:\n    def m(self): pass\ndef f(a: 'A | None'): a.m()\nf(x)\n", "function f\n  function A.m"),
        (
            "class C:\n    def __enter__(self): return self\n    def m(self): pass\nwith C() as c:\n    c.m()\n",
            "function C.__enter__\nfunction C.m",
        ),
    ],
)
def test_objects(tmp_path: Path, source: str, expected: str) -> None:
    assert calls(tmp_path, source) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.block(x)", ["function Block.forward"]),
        ("[m(x) for m in self.many]", ["loop [m(x) for m in self.many]", "  function Block.forward"]),
        ("self.many[0](x)", ["function Block.forward"]),
        ("self.seq(x)", ["function Block.forward"]),
        ("torch.relu(x)", []),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        "Net()(1)",
        "model = Net()\nmodel(1)",
        "model = DDP(Net().to('cuda'), device_ids=[0])\nmodel(1)",
        "model = Net()\nmodel = torch.compile(DDP(model))\nmodel(1)",
        "model = DDP(Net())\nmodel.module(1)",
        "model = Net().cuda().train()\nmodel.eval()(1)",
        "model, opt = accelerator.prepare(Net(), 1)\nmodel(1)",
        "class T:\n    def __init__(self, m): self.m = m\n    def go(self): return self.m(1)\nT(Net()).go()",
        "def build(): return DDP(Net())\nbuild()(1)",
    ],
)
def test_calling_a_module_runs_its_forward(tmp_path: Path, call: str, body: str, expected: list[str]) -> None:
    found = calls(tmp_path, NN.replace("{body}", body) + call + "\n").splitlines()
    start = next(i for i, line in enumerate(found) if line.endswith("function Net.forward"))
    depth = len(found[start]) - len(found[start].lstrip()) + 2
    inside = [line[depth:] for line in found[start + 1 :] if line.startswith(" " * depth)]
    assert inside == expected


def test_an_autograd_function_runs_its_forward_and_backward_is_left_to_samples(tmp_path: Path) -> None:
    source = """\
        import torch
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x
            @staticmethod
            def backward(ctx, g): return g
        loss = Double.apply(x)
        loss.backward()
        """
    assert calls(tmp_path, source) == "function Double.forward\ncall loss.backward"


def test_a_decorated_function_is_found_through_its_wrapper(tmp_path: Path) -> None:
    source = """\
        import functools, torch
        def timed(f):
            @functools.wraps(f)
            def wrapper(*a, **k):
                return f(*a, **k)
            return wrapper
        def named(name):
            def decorate(f):
                return lambda *a: f(*a)
            return decorate
        @timed
        @torch.no_grad()
        def one(): two()
        @named("x")
        def two(): three()
        @functools.lru_cache(None)
        def three(): Plain().m()
        class Plain:
            @timed
            def m(self): self.n()
            def n(self): pass
        one()
        """
    assert calls(tmp_path, source) == expect("""
        function named
        function timed.<locals>.wrapper
          function one
            function named.<locals>.decorate.<locals>.<lambda>
              function two
                function three
                  function timed.<locals>.wrapper
                    function Plain.m
                      function Plain.n
        """)


@pytest.mark.parametrize(
    ("source", "operation"),
    [
        ("import torch.distributed as dist\ndist.all_reduce(x)\n", "allreduce"),
        ("import torch\ntorch.distributed.all_reduce(x)\n", "allreduce"),
        ("from torch import distributed as d\nd.all_gather(y, x)\n", "allgather"),
        ("from torch.distributed import reduce_scatter_tensor as rs\nrs(y, x)\n", "reduce_scatter"),
        ("from torch.distributed import *\nimport torch.distributed as q\nq.barrier()\n", "barrier"),
        ("from comms import dist\ndist.broadcast(x, 0)\n", "broadcast"),
        ("import comms\ncomms.sync(x)\n", "allreduce"),
        ("import torch.distributed._functional_collectives as f\nf.all_reduce(x, 'sum', g)\n", "allreduce"),
        ("import torch.distributed.nn.functional as f\nf.all_to_all_single(y, x)\n", "alltoall"),
        ("import torch.distributed as d\nf = d.barrier\nf()\n", "barrier"),
        ("import torch.distributed as d\nd.init_process_group('gloo')\n", "init_process_group"),
        ("import torch.distributed as d\nd.batch_isend_irecv([d.P2POp(d.isend, x, 1)])\n", "batch_isend_irecv"),
    ],
)
def test_communication_by_any_name(tmp_path: Path, source: str, operation: str) -> None:
    comms = "import torch.distributed as dist\nfrom torch.distributed import all_reduce as sync\n"
    assert calls(tmp_path, source, comms=comms) == f"comm {operation}"


@pytest.mark.parametrize(
    "source",
    [
        "w = d.all_reduce(x, async_op=True)\nw.wait()\n",
        "d.isend(x, 1).wait()\n",
        "w = [d.isend(x, 1) for i in y]\nfor r in w:\n    r.wait()\n",
        "w = []\nw.append(d.irecv(x, 1))\nfor r in w:\n    r.wait()\n",
        "for r in d.batch_isend_irecv(ops):\n    r.wait()\n",
        "class A:\n    def go(self):\n        self.w = d.irecv(x)\n        self.end()\n    def end(self):\n"
        "        self.w.wait()\nA().go()\n",
        "def post():\n    return d.irecv(x)\npost().wait()\n",
        "def done(w):\n    w.wait()\ndone(d.isend(x, 1))\n",
    ],
)
def test_waiting_for_a_request_is_communication(tmp_path: Path, source: str) -> None:
    assert calls(tmp_path, "import torch.distributed as d\n" + source).endswith("comm wait")


def test_waiting_for_anything_else_is_not(tmp_path: Path) -> None:
    source = "import torch.distributed as d, subprocess\nsubprocess.Popen('x').wait()\nd.TCPStore('h', 1).wait(['k'])\n"
    assert "comm" not in calls(tmp_path, source)


def test_wrapping_a_model_is_no_communication_by_itself(tmp_path: Path) -> None:
    source = "from torch.nn.parallel import DistributedDataParallel as DDP\nm = DDP(x)\ny = m(x)\n"
    assert calls(tmp_path, source) == ""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(fn): fn()\nf(x)\n", "function f\n  call fn"),
        ("table[k](1)\n", "call table[...]"),
        ("getattr(x, 'y' + k)()\n", "call getattr(...)"),
        ("class A:\n    def __init__(self, f): self.f = f\n    def m(self): self.f()\nA(x).m()\n", "call self.f"),
        ("class A:\n    def own(self): pass\nx.own()\n", "call x.own"),  # it may be the user's
        ("x.item(); len(x); print(y); x.view(1).sum()\n", ""),  # it cannot
    ],
)
def test_what_is_not_known_is_a_call_for_samples_to_fill_in(tmp_path: Path, source: str, expected: str) -> None:
    assert calls(tmp_path, source).endswith(expected)
    assert ("call" in calls(tmp_path, source)) == bool(expected)


def test_a_value_that_comes_a_long_way_is_no_trouble(tmp_path: Path) -> None:
    functions = "".join(f"def f{n}(x):\n    return f{n - 1}(x)\n" for n in range(1, 200))
    uses = "".join(f"    x = f{n}(x)\n" for n in range(200))
    source = f"def f0(x):\n    return x\n{functions}def main(x):\n{uses}    return x\nmain(1)\n"
    assert "function main" in calls(tmp_path, source)
