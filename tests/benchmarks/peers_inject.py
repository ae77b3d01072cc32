"""Puts into a sample what a peer asks its users to write, and runs it: `peers_inject.py PEER SAMPLE [ARGUMENTS]`.

``traceml`` wants ``with traceml.trace_step(model):`` around the body of the step loop, and ``wrap_dataloader_fetch``
around what the loop iterates over where that is no DataLoader. ``profiler`` and ``profiler-stacks`` are torch's own
profiler, which wants to be started before the loop and told after each step. The edits are made on the syntax tree, so
that all line numbers stay those of the file.

A step loop is the outermost ``for`` right after ``start = time.perf_counter()``; or, in the samples whose ranks have
loops of their own in other functions, the outermost ``for`` over ``range(ROUNDS)`` or ``range(REQUESTS)``.

Runs in the environment of the peers, and imports nothing of this project.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Edits = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]
"""What goes around the loop, around each step, and around what the loop iterates over."""
AT_END: list[Callable[[], None]] = []
ROUND_LOOPS = {"ROUNDS", "REQUESTS"}


def starts_clock(node: ast.stmt) -> bool:
    return ast.unparse(node) == "start = time.perf_counter()"


def counts_rounds(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.For)
        and isinstance(node.iter, ast.Call)
        and ast.unparse(node.iter) in {f"range({name})" for name in ROUND_LOOPS}
    )


class StepLoops(ast.NodeTransformer):
    """Puts ``with peer_step__(locals()):`` into each step loop and ``with peer_loop__():`` around it."""

    def __init__(self) -> None:
        self.found = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, list(self.statements(statements)))
        return node

    def statements(self, statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        previous: ast.stmt | None = None
        for node in statements:
            if isinstance(node, ast.For) and (counts_rounds(node) or (previous and starts_clock(previous))):
                yield self.wrap(node)
            else:
                yield self.visit(node)
            previous = node

    def wrap(self, loop: ast.For) -> ast.With:
        self.found += 1
        data = ast.Call(ast.Name("peer_data__", ast.Load()), [loop.iter], [])
        ast.copy_location(data.func, loop.iter)
        ast.copy_location(data, loop.iter)
        loop.iter = data
        step = ast.parse("with peer_step__(locals()): pass").body[0]
        around = ast.parse("with peer_loop__(): pass").body[0]
        assert isinstance(step, ast.With) and isinstance(around, ast.With)
        step.body = loop.body
        around.body = [loop]
        for new, place in ((step, loop.body[0]), (around, loop)):
            for part in (new, *ast.walk(new.items[0])):
                ast.copy_location(part, place)
        loop.body = [step]
        return around


def model_of(names: dict[str, Any]) -> Any:
    """The module that a step trains, among the loop's variables; a module without parameters where there is none."""
    from torch import nn

    candidates = [
        *names.values(),
        *(value for one in names.values() for value in getattr(one, "__dict__", {}).values()),
    ]
    modules = [value for value in candidates if isinstance(value, nn.Module)]
    wrapped = [module for module in modules if hasattr(module, "module")]
    return (wrapped or modules or [nn.Identity()])[0]


def traceml() -> Edits:
    import traceml_ai
    from torch.utils.data import DataLoader

    traceml_ai.init(mode="auto")

    @contextmanager
    def loop() -> Iterator[None]:
        yield

    def data(batches: Any) -> Any:
        # Loops over anything but a DataLoader have to be told; without it there is no verdict at all.
        return batches if isinstance(batches, DataLoader) else traceml_ai.wrap_dataloader_fetch(batches)

    return loop, lambda names: traceml_ai.trace_step(model_of(names)), data


def profiler(with_stack: bool) -> Edits:
    from torch.profiler import ProfilerAction, ProfilerActivity, profile

    torch_profile = profile(
        activities=[ProfilerActivity.CPU], schedule=lambda step: ProfilerAction.RECORD, with_stack=with_stack
    )

    def export() -> None:
        torch_profile.stop()
        torch_profile.export_chrome_trace(os.path.join(os.environ["PEER_OUT"], f"rank{os.environ['RANK']}.json"))

    @contextmanager
    def loop() -> Iterator[None]:
        # Stopped only when the program has printed its time: that of collecting the trace is no part of the loop's.
        AT_END.append(export)
        torch_profile.start()
        yield

    @contextmanager
    def step(names: dict[str, Any]) -> Iterator[None]:
        yield
        torch_profile.step()

    return loop, step, lambda batches: batches


PEERS: dict[str, Callable[[], Edits]] = {
    "traceml": traceml,
    "profiler": lambda: profiler(with_stack=False),
    "profiler-stacks": lambda: profiler(with_stack=True),
}


def main() -> None:
    peer, path = sys.argv[1:3]
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    loops = StepLoops()
    tree = loops.visit(tree)
    if not loops.found:
        raise SystemExit(f"{path}: no step loop found")
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    module = sys.modules["__main__"]
    names = ("peer_loop__", "peer_step__", "peer_data__")
    module.__dict__.update(zip(names, PEERS[peer](), strict=True))
    module.__dict__["__file__"] = os.path.abspath(path)
    exec(compile(tree, os.path.abspath(path), "exec", dont_inherit=True), module.__dict__)
    for function in AT_END:
        function()


if __name__ == "__main__":
    main()
