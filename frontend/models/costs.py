"""What an operator computes and moves, found by running it on tensors that have shapes and no data.

FLOPs are those of torch's own counter (``torch.utils.flop_counter``), asked about one operator at a time: it has
formulas for matrix products, convolutions and attention, takes what is composed of these apart, and counts everything
else as 0. Its formula for attention is applied to the kernel of CPUs as well, which it leaves out.
Bytes are those of the tensors that go in and come out, each once, as if nothing stayed in a cache; a view moves none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from scalana.frontend.models.operators import UNKNOWN


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one operator."""

    flops: int = UNKNOWN
    bytes: int = UNKNOWN


class Costs:
    """Costs of operators; the same operator on the same shapes is run once."""

    def __init__(self, fake: Any) -> None:
        self.fake = fake
        """The ``FakeTensorMode`` that the tensors belong to."""
        self._known: dict[Any, Cost] = {}

    def of(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Cost:
        """What calling an operator costs; unknown where that depends on data, or it cannot be run so."""
        key = (function, _signature((args, kwargs)))
        if key not in self._known:
            try:
                self._known[key], _ = self.run(function, args, kwargs)
            except Exception:  # an operator may refuse with any error that its author thought of
                self._known[key] = Cost()
        return self._known[key]

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Cost, Any]:
        """Run something on fake tensors.

        Returns:
            Its cost, and what it returns.

        Raises:
            Exception: whatever it raises, for instance where it asks for data.
        """
        import contextlib

        import torch
        from torch.utils.flop_counter import FlopCounterMode

        # Sizes that depend on data get new names here, which nobody else is to know of.
        ignore = getattr(getattr(self.fake, "shape_env", None), "ignore_fresh_unbacked_symbols", contextlib.nullcontext)
        with (
            torch.no_grad(),
            ignore(),
            self.fake,
            FlopCounterMode(display=False, custom_mapping=_formulas()) as counter,
        ):
            result = function(*args, **kwargs)
        return Cost(_number(counter.get_total_flops()), _moved(_tensors((args, kwargs)), _tensors(result))), result


@cache
def _formulas() -> dict[Any, Any]:
    """What torch has a formula for, and does not apply it to."""
    import torch
    from torch.utils.flop_counter import flop_registry

    of_cpus = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
    formula = flop_registry.get(torch.ops.aten._scaled_dot_product_flash_attention)
    if of_cpus is None or formula is None or of_cpus in flop_registry:
        return {}

    def attention(*args: Any, **kwargs: Any) -> Any:
        return formula(*args, **kwargs)

    attention._get_raw = True  # type: ignore[attr-defined]  # takes tensors: the formula looks up their shapes itself
    return {of_cpus: attention}


def tensor_of(value: Any) -> Any:
    """The first tensor in a value, None without one."""
    found = _tensors(value)
    return found[0] if found else None


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def shape_of(tensor: Any) -> tuple[int | str, ...]:
    """The shape of a tensor; a size that depends on data is its symbol's name."""
    return tuple(size if isinstance(size, int) else str(size) for size in tensor.shape)


def dtype_of(tensor: Any) -> str:
    """The type of a tensor's elements, such as ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def _signature(value: Any) -> tuple[Any, ...]:
    import torch
    from torch.utils._pytree import tree_flatten

    leaves, layout = tree_flatten(value)
    return str(layout), *(_layout(leaf) if isinstance(leaf, torch.Tensor) else str(leaf) for leaf in leaves)


def _layout(tensor: Any) -> tuple[Any, ...]:
    return str(tensor.dtype), shape_of(tensor), tuple(map(str, tensor.stride()))


def _moved(inputs: list[Any], outputs: list[Any]) -> int:
    given = {id(tensor) for tensor in inputs}
    storages = {tensor.untyped_storage()._cdata for tensor in inputs}
    made = [out for out in outputs if id(out) in given or out.untyped_storage()._cdata not in storages]
    if outputs and not made:
        return 0
    sizes = [tensor.numel() for tensor in (*{id(tensor): tensor for tensor in inputs}.values(), *made)]
    if not all(isinstance(size, int) for size in sizes):
        return UNKNOWN
    elements = (tensor.element_size() for tensor in (*{id(tensor): tensor for tensor in inputs}.values(), *made))
    return sum(size * width for size, width in zip(sizes, elements, strict=True))


def _number(count: Any) -> int:
    return count if isinstance(count, int) else UNKNOWN
