"""Record the steps of torch's optimizers as spans."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.spans import span
from scalana.runtime.typed import Any


def record_steps(module: Any) -> None:
    """See each step of every optimizer from its begin to its end; ``module`` is torch's optimizer module."""
    under_way: dict[int, span] = {}

    def begins(optimizer: Any, args: Any, kwargs: Any) -> None:
        if session.core is not None and not module.torch.compiler.is_compiling():
            under_way[id(optimizer)] = span.begin(type(optimizer).__name__, "optimizer")

    def ends(optimizer: Any, args: Any, kwargs: Any) -> None:
        if under_way and not module.torch.compiler.is_compiling():
            step = under_way.pop(id(optimizer), None)
            if step is not None:
                step.end()

    module.register_optimizer_step_pre_hook(begins)
    module.register_optimizer_step_post_hook(ends)
