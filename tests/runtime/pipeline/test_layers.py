"""The backward of layers in a chain, by a clock that goes on with every reading: as if it were held up."""

from __future__ import annotations

import gc
import weakref
from itertools import count
from typing import Any

import pytest

from scalana.runtime import session
from scalana.runtime.pipeline.layers import Layers, layers_in
from tests.needs import torch_or_skip


class Core:
    """What is asked of the core."""

    span_types = ("module",)

    def __init__(self) -> None:
        self.clock = count(1)
        self.written: list[tuple[str, str, int, int]] = []

    def now(self) -> int:
        return next(self.clock)

    def intern(self, text: str) -> str:
        return text

    def span(self, _: int, __: int, name: str, began: int, ended: int, *more: Any) -> None:
        self.written.append((name, more[-1][-1], began, ended))


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False], ids=["B", "I"])
def test_the_gradient_between_two_layers_ends_one_and_begins_the_other(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_or_skip()
    import torch

    core = Core()
    monkeypatch.setattr(session, "core", core)
    stage = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(3)))
    timed = Layers(layers_in([stage]))
    received = torch.ones(1, 2, requires_grad=True) * 1.0
    timed.begin("F", 0, 0)
    loss = stage(received).square().sum()
    timed.end()
    timed.write()
    kind = "B" if whole else "I"
    core.written.clear()
    timed.begin(kind, 0, 0)
    begin = core.now()
    if whole:
        loss.backward()
    else:
        torch.autograd.grad(loss, received)
    timed.end()
    end = core.now()
    timed.write()
    timed.detach()
    assert [row[:2] for row in core.written] == [("2", kind), ("1", kind), ("0", kind)]
    (_, _, first, met), (_, _, second, left), (_, _, third, last) = core.written
    assert begin < first < met == second < left == third < last < end


@pytest.mark.slow
def test_a_layer_that_hands_on_its_gradient_ends_when_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_or_skip()
    import torch

    core = Core()
    monkeypatch.setattr(session, "core", core)

    class HandsOn(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            core.now()
            return gradient

    class Layer(torch.nn.Module):
        def forward(self, value: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = HandsOn.apply(value)
            return result

    stage = torch.nn.Sequential(Layer(), Layer())
    timed = Layers(layers_in([stage]))
    received = torch.ones(1, 2, requires_grad=True) * 1.0
    timed.begin("F", 0, 0)
    made = stage(received)
    timed.end()
    timed.write()
    core.written.clear()
    timed.begin("B", 0, 0)
    made.backward(torch.ones(1, 2))
    timed.end()
    timed.write()
    timed.detach()
    lasted = {name: ended - began for name, _, began, ended in core.written}
    assert lasted == {"1": 2, "0": 2}


def _weights_pass(core: Core, weights: list[str]) -> list[tuple[str, str, int, int]]:
    """Part W of the backward of stage 1, as torch makes it: by the parameters, in their order."""
    import torch
    from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

    class Scale(torch.nn.Module):
        """Its two parameters come into it one after the other."""

        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            return value * self.weight + self.bias

    stage = torch.nn.Sequential(*(Scale() for _ in range(3)))
    parameters = [stage.get_parameter(name) for name in weights]
    timed = Layers(layers_in([stage]))
    received = torch.ones(1, 2, requires_grad=True)
    timed.begin("F", 1, 0)
    made = stage(received)
    timed.end()
    timed.write()
    timed.begin("I", 1, 0)
    _, groups = stage_backward_input([made], [torch.ones(1, 2)], [received], iter(parameters))
    timed.end()
    timed.write()
    core.written.clear()
    timed.begin("W", 1, 0)
    timed.begun()
    stage_backward_weight(iter(parameters), groups)
    timed.end()
    timed.write()
    timed.detach()
    assert not any(parameter._backward_hooks for parameter in parameters)
    return core.written


@pytest.mark.slow
def test_the_part_for_weights_is_told_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_or_skip()
    core = Core()
    monkeypatch.setattr(session, "core", core)
    written = _weights_pass(core, [f"{layer}.{part}" for layer in range(3) for part in ("weight", "bias")])
    assert [row[:2] for row in written] == [("0", "W"), ("1", "W"), ("2", "W")]
    (_, _, _, first), (_, _, begun, second), (_, _, last, _) = written
    assert begun == first and last == second


def test_the_hooks_of_parameters_cost_the_first_layer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_or_skip()
    import torch

    core, register = Core(), torch.Tensor.register_hook

    def takes_long(parameter: torch.Tensor, hook: Any) -> Any:
        core.clock = count(core.now() + 1000)
        return register(parameter, hook)

    monkeypatch.setattr(session, "core", core)
    monkeypatch.setattr(torch.Tensor, "register_hook", takes_long)
    written = _weights_pass(core, [f"{layer}.{part}" for layer in range(3) for part in ("weight", "bias")])
    assert len(written) == 3 and all(ended - began < 100 for _, _, began, ended in written)


def test_the_part_for_weights_of_layers_that_take_turns_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_or_skip()
    core = Core()
    monkeypatch.setattr(session, "core", core)
    assert not _weights_pass(core, [f"{layer}.{part}" for part in ("weight", "bias") for layer in range(3)])


def test_a_result_that_is_kept_keeps_no_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its graph has hooks for good."""
    torch_or_skip()
    import torch

    monkeypatch.setattr(session, "core", Core())
    stage = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    timed = Layers(layers_in([stage]))
    timed.begin("F", 0, 0)
    loss = stage(torch.ones(1, 2, requires_grad=True)).sum()
    timed.end()
    timed.write()
    timed.detach()
    kept = weakref.ref(stage[1])
    del stage, timed
    gc.collect()
    assert loss.grad_fn is not None and kept() is None
