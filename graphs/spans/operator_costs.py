"""FLOPs and bytes of operators by the shapes of their tensors, without torch.

FLOPs are those of torch's own counter (``torch.utils.flop_counter``): matrix products, convolutions and attention,
of which the backward counts five products, one of them to have the scores again; all else counts 0. Bytes are those of
the tensors that go in and come out, each once, as if nothing stayed in a cache; of tables to look up in, what is looked
up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scalana.graphs.readers.folder.operators import OperatorKind, Tensor

Tensors = Sequence[Tensor | None]
_READ_AT = frozenset("embedding index index_select gather take _embedding_bag".split())
"""Operators that read of their largest tensor as much as they make."""
_WRITTEN_AT = frozenset("index_put_ _index_put_impl_ index_add_ index_copy_ scatter_ scatter_add_ index_fill_".split())
"""Operators that write into their first tensor as much as the others hold."""


def flops_of(kind: OperatorKind) -> int:
    """Floating-point operations of one call."""
    formula = _FORMULAS.get(_bare(kind.name))
    if formula is None:
        return 0
    try:
        return formula(kind.inputs, kind.outputs)
    except (IndexError, TypeError, ValueError):  # other tensors than the formula is for, or of unknown shapes
        return 0


def bytes_of(kind: OperatorKind) -> int:
    """Bytes that one call has to move."""
    name = _bare(kind.name)
    read = [tensor.nbytes for tensor in kind.inputs if tensor is not None]
    made = sum(tensor.nbytes for tensor in kind.outputs if tensor is not None)
    if name in _READ_AT and read:
        return sum(read) - max(read) + min(max(read), made) + made
    if name in _WRITTEN_AT and read:
        return 2 * min(read[0], sum(read[1:])) + sum(read[1:])
    return sum(read) + made + kind.more_bytes


def is_communication(kind: OperatorKind) -> bool:
    """Whether it meets other ranks."""
    return kind.name.partition("::")[0] in ("c10d", "_c10d_functional", "_c10d_functional_autograd")


def product_type(kind: OperatorKind) -> str:
    """Type of the elements that a product is made of, that of the largest tensor given; "" for an operator that has no
    FLOPs."""
    if not flops_of(kind):
        return ""
    given = [one for one in kind.inputs if one is not None and "float" in one.dtype]
    return max(given, key=lambda one: one.elements).dtype if given else ""


def _bare(name: str) -> str:
    return name.rpartition("::")[2]


def _shape(tensors: Tensors, number: int) -> tuple[int, ...]:
    tensor = tensors[number]
    if tensor is None or tensor.shape is None:
        raise ValueError("no shape")
    return tensor.shape


def _product(first: int) -> Callable[[Tensors, Tensors], int]:
    """Of matrices, or batches of them, that are the inputs from ``first`` on."""

    def flops(inputs: Tensors, _: Tensors) -> int:
        *batch, rows, inner = _shape(inputs, first)
        return 2 * math.prod(batch) * rows * inner * _shape(inputs, first + 1)[-1]

    return flops


def _linear(inputs: Tensors, _: Tensors) -> int:
    return 2 * math.prod(_shape(inputs, 0)) * _shape(inputs, 1)[0]


def _convolution(inputs: Tensors, outputs: Tensors) -> int:
    return _convolved(_shape(inputs, 0), _shape(inputs, 1), _shape(outputs, 0))


def _convolved(given: tuple[int, ...], weight: tuple[int, ...], made: tuple[int, ...]) -> int:
    """Each element of the output meets the whole kernel; of the input where it is transposed."""
    transposed = made[1] != weight[0] or (given[1] == weight[0] and math.prod(made[2:]) > math.prod(given[2:]))
    return 2 * math.prod(given if transposed else made) * math.prod(weight[1:])


def _convolution_backward(inputs: Tensors, outputs: Tensors) -> int:
    made, given, weight = (_shape(inputs, number) for number in range(3))
    asked = sum(tensor is not None for tensor in outputs[:2])
    return asked * _convolved(given, weight, made)


def _attention(inputs: Tensors, _: Tensors) -> int:
    return _scores(inputs, 0) + _mixed(inputs, 0)


def _attention_backward(inputs: Tensors, _: Tensors) -> int:
    return 3 * _scores(inputs, 1) + 2 * _mixed(inputs, 1)


def _scores(inputs: Tensors, query: int) -> int:
    batch, heads, length, width = _shape(inputs, query)
    return 2 * batch * heads * length * width * _shape(inputs, query + 1)[-2]


def _mixed(inputs: Tensors, query: int) -> int:
    batch, heads, length, _ = _shape(inputs, query)
    *_, others, width = _shape(inputs, query + 2)
    return 2 * batch * heads * length * others * width


_FORMULAS: dict[str, Callable[[Tensors, Tensors], int]] = {
    "mm": _product(0),
    "bmm": _product(0),
    "_scaled_mm": _product(0),
    "_int_mm": _product(0),
    "addmm": _product(1),
    "_addmm_activation": _product(1),
    "baddbmm": _product(1),
    "_linear_pointwise": _linear,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "_convolution_pointwise": _convolution,
    "convolution_backward": _convolution_backward,
    "convolution_backward_overrideable": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_scaled_dot_product_flash_attention_backward": _attention_backward,
    "_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "_scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "_scaled_dot_product_fused_attention_overrideable_backward": _attention_backward,
}
"""By the names of operators."""
