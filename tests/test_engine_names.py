"""Names of engines and frameworks stand in their own rooms, and in tables: code that any engine needs names none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, sources, tree_of

OF_PIPELINES = ("megatron", "deepspeed", "torchtitan")
OF_LEARNING = ("trl", "verl", "openrlhf", "areal", "slime", "sglang", "vllm", "nemo", "rllib")
OF_ACTORS = ("ray",)
ELSEWHERE = ("accelerate", "horovod", "lightning", "transformers", "colossalai")
NAMES = re.compile(
    r"(?<![a-z])(" + "|".join((*OF_PIPELINES, *OF_LEARNING, *OF_ACTORS, *ELSEWHERE)) + r")(?![a-z])", re.IGNORECASE
)

ROOMS: dict[str, tuple[str, ...]] = {
    "runtime/pipeline/": OF_PIPELINES,
    "runtime/rl/": (*OF_LEARNING, *OF_ACTORS),
    "runtime/ray/": (*OF_ACTORS, "rllib"),
    "runtime/hooks.py": (*OF_PIPELINES, *OF_LEARNING, *OF_ACTORS),
    "scalana/job/handing_on.py": ("deepspeed",),
    "scalana/verify/": OF_PIPELINES,
    "scalana/workload/formats/": OF_LEARNING,
    "scalana/importers/": (*OF_PIPELINES, *OF_LEARNING, *OF_ACTORS, *ELSEWHERE),
    "graphs/progress/activities.py": (*OF_PIPELINES, *ELSEWHERE),
    "detectors/pipeline/model/engines.py": OF_PIPELINES,
    "detectors/pipeline/diagnosis/engine_flags.py": OF_PIPELINES,
    "detectors/pipeline/plans/means.py": OF_PIPELINES,
}
"""Where which of them may be named: recorders; programs that start engines; importers, of traces and of workloads; the
tables of launchers and what they need, of libraries that evaluate models, of pipelines, of how engines send and
receive, what they call a change, and what of a plan they can express."""

STILL_NAMED = {
    "detectors/rl/advice.py": {"rllib"},  # an option, for its users
    "graphs/samples/unseen.py": {"horovod", "ray"},  # libraries that communicate unseen, a row each
    "runtime/bookkeeping.py": {"ray"},  # processes that run no code of the program
    "runtime/remote/queues.py": {"ray"},  # packages whose queues are their own, a row each
    "runtime/remote/thread_queues.py": {"ray"},
    "runtime/session.py": {"accelerate"},  # launchers, a row each
    "scalana/commands/pipeline.py": {*OF_PIPELINES},  # choices of an option
    "scalana/job/launch.py": {"accelerate", "deepspeed"},  # launchers, a row each
    "scalana/job/parts.py": {"accelerate"},
}
"""Names that other modules still have. This table may only get smaller."""


def words(tree: ast.Module) -> Iterator[str]:
    """Names and strings of a program, without documentation."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("scalana"):
            yield node.module or ""
        elif isinstance(node, ast.arg):
            yield node.arg


def named(tree: ast.Module) -> set[str]:
    """The engines and frameworks that a program names."""
    return {found.lower() for word in words(tree) for found in NAMES.findall(word)}


def allowed(path: Path) -> set[str]:
    """The names that belong into a file."""
    name = str(path.relative_to(ROOT))
    return {one for room, names in ROOMS.items() if name.startswith(room) for one in names}


def test_engines_are_named_where_they_belong() -> None:
    found = {str(path.relative_to(ROOT)): named(tree_of(path)) - allowed(path) for path in sources()}
    assert {path: names for path, names in found.items() if names} == STILL_NAMED


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def megatron_layout(): pass", {"megatron"}),
        ("if engine == 'deepspeed' or x.is_ray: pass", {"deepspeed", "ray"}),
        ("from torchtitan import train", {"torchtitan"}),
        ('"""As Megatron does."""\narray = "arrays, overlays"', set()),
    ],
)
def test_names_are_found(source: str, names: set[str]) -> None:
    assert named(ast.parse(source)) == names
