"""Operators of modules, counted in a recorded program: which module ran which, and as many FLOPs as torch counts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from scalana.calibration.measure import measure
from scalana.graphs.readers.folder.operators import OperatorCounts, operator_kind, read_operators
from scalana.graphs.spans.operator_costs import bytes_of, flops_of
from scalana.runtime.torch import native
from scalana.runtime.torch.module_tree import Known
from scalana.runtime.torch.operators import SWITCH, Operators
from tests.needs import Later, torch_or_skip
from tests.runtime import jobs

torch_or_skip()
torch = Later("torch")

MOST_LIST = 8
"""Tensors of a list that are told one by one: ``most_list`` of _core/torch/operators.cpp."""

PROGRAM = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.again, self.head = Attention(), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = self.attention(x)
        return self.head(checkpoint(self.again, x, use_reentrant=False).relu())

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.001)
x = torch.randn(4, 10, 16)
for step in range(6):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
with FlopCounterMode(display=False) as counter:
    net(x).sum().backward()
print(net(x).sum().item())
print(sorted((str(name), sum(some.values())) for name, some in counter.get_flop_counts().items()))
"""

BLOCKS = """
import os, sys, torch, scalana
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cat([self.inner(x)] * 10)

net, x, folder = Net(), torch.randn(2, 4), sys.argv[1]

def work(hook=None):
    output = net(x)
    if hook is not None:
        output.register_hook(hook)
    output.sum().backward()

def steps(number):
    for _ in range(number):
        work()
        scalana.step()

def times():
    return sys.modules["scalana.runtime.torch.modules"]._times

def say(when):
    operators = times().operators
    print(when, int(operators.is_on), operators._library.scalana_operators_attached())

with scalana.profile(folder):
    steps(2)
    work()
    say("counted")
say("ended")

with scalana.profile(folder):
    steps(2)
    work(lambda _: scalana.step())
    say("step in backward")
    work(lambda _: scalana.step())
    say("another")
    work()
    scalana.step()
    say("step after it")
say("ended")

with scalana.profile(folder):
    steps(4)
    work()
    times().off()
    scalana.step()
    say("without hooks")
    print(times().operators._steps)
    print({kind for name, kind in times().operators._kinds if name == "aten::cat"})

with scalana.profile(folder):
    steps(2)
    work()
    sys.stdout.flush()
    if os.fork() == 0:
        say("forked")
        for _ in range(6):
            net(x)
            scalana.step()
        print(times().operators._steps)
        sys.stdout.flush()
        os._exit(0)
    os.wait()

with scalana.profile(folder):
    steps(2)
    work(lambda _: times().failed(RuntimeError("a test")))
    say("failed")
    scalana.step()
    say("step after it")
"""


def by_module(counts: OperatorCounts) -> dict[tuple[str, str], int]:
    """FLOPs of a step that modules do themselves, by name and direction."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    steps = len(set(counts.step.tolist()))
    for module, kind, calls in zip(counts.module.tolist(), counts.kind.tolist(), counts.calls.tolist(), strict=True):
        _, name, _, direction = counts.modules[module]
        found[name, direction] += flops_of(counts.kinds[kind]) * calls
    return {key: total // steps for key, total in found.items() if total}


@pytest.mark.slow
def test_modules_have_the_flops_that_torch_counts(tmp_path: Path, kernels: dict[str, str]) -> None:
    plain = jobs.with_torch("-c", PROGRAM)
    recorded = jobs.with_torch("-c", PROGRAM, record=tmp_path, extra=kernels)
    assert recorded.returncode == 0 and recorded.stderr == plain.stderr
    assert recorded.stdout == plain.stdout  # the losses to the last bit, too
    (record,) = jobs.records(tmp_path)
    counts = read_operators({0: record.file})
    assert sorted(set(counts.step.tolist())) == [2, 3, 4]
    linear, scores = 2 * 40 * 16, 2 * 4 * 2 * 10 * 10 * 8
    assert by_module(counts) == {
        ("attention.qkv", "forward"): linear * 48,
        ("attention.qkv", "backward"): linear * 48,  # its input needs no gradient
        ("attention", "forward"): 2 * scores,
        ("attention", "backward"): 5 * scores,
        ("again", "forward"): linear * 16,
        ("again", "recompute"): linear * 16,
        ("again", "backward"): 2 * linear * 16,
        ("head", "forward"): linear * 4,
        ("head", "backward"): 2 * linear * 4,
    }
    machine = counts.machines[0]
    assert machine.threads == 1 and machine.cores > 0 and machine.torch and not machine.device


@pytest.mark.slow
def test_what_is_not_compiled_is_not_counted_but_the_machine_is_told(tmp_path: Path) -> None:
    recorded = jobs.with_torch("-c", PROGRAM, record=tmp_path)
    assert recorded.returncode == 0
    (record,) = jobs.records(tmp_path)
    counts = read_operators({0: record.file})
    assert not len(counts) and counts.machines[0].threads == 1


@pytest.mark.slow
def test_nothing_stays_attached_when_steps_and_recordings_end(tmp_path: Path, kernels: dict[str, str]) -> None:
    done = jobs.with_torch("-c", BLOCKS, tmp_path, extra={**kernels, "PYTHONPATH": str(jobs.ROOT)})
    assert (done.returncode, done.stderr) == (0, "")
    cat = "Float[2,4,];" * MOST_LIST + "+2:64;>Float[20,4,];"
    assert done.stdout.splitlines() == [
        "counted 1 1",
        "ended 0 0",
        "step in backward 0 1",  # there it would be back after the backward
        "another 0 1",
        "step after it 0 0",
        "ended 0 0",
        "without hooks 0 0",
        "[2, 3, 4]",
        str({cat}),
        "forked 0 0",
        "[2, 3, 4]",
        "failed 0 1",
        "step after it 0 0",
    ]
    kind = operator_kind("aten::cat", cat)
    assert len(kind.inputs) == MOST_LIST and bytes_of(kind) == 2 * 20 * 4 * 4


class Library:
    """Stands for what counts, and keeps the contexts that it is told."""

    def __init__(self) -> None:
        self.contexts: list[int] = []

    def scalana_operators_start(self) -> int:
        return 0

    def scalana_operators_context(self, number: int) -> None:
        self.contexts.append(number)


@pytest.mark.slow
def test_calls_that_raised_are_left_with_the_forward_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(native, "operators_library", lambda _: library)
    monkeypatch.delenv(SWITCH, raising=False)
    module = torch.nn.ReLU()
    operators = Operators()
    operators.start()
    assert operators.is_on
    root, outer, inner = (Known(module, name, "Net") for name in ("", "outer", "outer.inner"))
    for known in (root, outer, inner):
        operators.enter(known, known, "forward")
    operators.leave(outer)  # what is inside raised
    operators.leave(inner)
    operators.enter(inner, inner, "backward")
    operators.enter(outer, outer, "backward")
    operators.leave(outer)  # which began after what is inside
    operators.leave(inner)
    operators.leave(root)
    assert library.contexts == [1, 2, 3, 1, 4, 4, 4, 1, 0]


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.skipif("not torch.cuda.is_available()", reason="needs a GPU")
def test_operators_on_a_device_are_counted_and_its_ceilings_measured(tmp_path: Path, kernels: dict[str, str]) -> None:
    program = PROGRAM.replace("net = Net()", "net = Net().cuda()").replace("16)\nfor", "16, device='cuda')\nfor")
    recorded = jobs.python(program, tmp_path, extra=kernels)
    assert recorded.returncode == 0, recorded.stderr
    (record,) = jobs.records(tmp_path)
    counts = read_operators({0: record.file})
    assert counts.machines[0].device == torch.cuda.get_device_name()
    assert by_module(counts)["head", "forward"] == 2 * 40 * 16 * 4
    assert any(kind.is_on_device for kind in counts.kinds)
    measured = measure(1, 1, ["float32", "bfloat16"], "cuda")
    assert measured.setting.device == counts.machines[0].device and min(measured.ceilings.flops.values()) > 1e11
