"""What of a model gets into its graph: operators with a line and a module, and FLOPs beside torch's own count; and what
of the time of a recorded job lies on vertices of modules and operators.

    python tests/benchmarks/model_coverage.py [MODEL ...]

Prints the tables of docs/appendix/models.md. torch's total is of a forward pass on random data, by
``FlopCounterMode``, with the kernel for attention that it counts on a CPU (``SDPBackend.MATH``). The second table is
of jobs that train each model for some seconds on one core, or generate with it: the samples of all steps. Models of
transformers are there if that package is.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OWN = "tests.frontend.models.nets"
TRANSFORMERS = "tests.benchmarks.transformers_models"
OF_TRANSFORMERS = (
    ("llama", "mixtral", "qwen_moe", "resnet", "mixtral_loop", "longformer", "llama_prompt", "llama_decode")
    if importlib.util.find_spec("transformers")
    else ()
)
MODELS = [
    *((OWN, name) for name in ("encoder", "decoder", "resnet", "experts", "skipping_experts", "early_exit")),
    *((TRANSFORMERS, name) for name in OF_TRANSFORMERS),
]
"""Home and name of what makes a model."""
NOT_TRAINED = ("llama_decode",)
GENERATING = ("llama_prompt",)
"""Models that generate text in the second table."""
JOB = """
import sys, time
sys.path.insert(0, {root!r})
import torch, scalana
from {home} import {name} as make
torch.set_num_threads(1)
model, given = make()
given = given if isinstance(given, dict) else {{next(iter(model.forward.__annotations__)): given}}
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
def random(one):
    return torch.randint(3, 9, one.shape) if one.dtype == torch.int64 else torch.randn(one.shape)
given = {{name: random(one) for name, one in given.items()}}
until = time.perf_counter() + {seconds}
while time.perf_counter() < until:
    if {generating}:
        scalana.step()
        model.generate(**given, max_new_tokens=16, do_sample=False, pad_token_id=0)
        continue
    optimizer.zero_grad()
    output = model(**given)
    (output if isinstance(output, torch.Tensor) else output[0]).square().mean().backward()
    optimizer.step()
"""
SECONDS = 4


def total(home: str, name: str) -> int:
    """FLOPs of a real forward pass."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(1)
    model, given = getattr(importlib.import_module(home), name)()
    named = given if isinstance(given, dict) else {next(iter(model.forward.__annotations__)): given}

    def random(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        return torch.randint(3, 9, one.shape) if one.dtype == torch.int64 else torch.randn(one.shape)

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(**{key: random(value) for key, value in named.items()})
    return int(counter.get_total_flops())


def row(home: str, name: str) -> tuple[Any, ...]:
    """One row of the table."""
    from scalana.frontend.models.build import model_graph
    from scalana.graphs.structure.psg import VertexKind

    graph = model_graph(f"{home}:{name}")
    operators = [vertex for vertex in graph.psg.vertices if vertex.kind is VertexKind.OP and not vertex.children]
    lines = sum(vertex.place.line > 0 for vertex in operators)
    modules = sum(graph.psg.enclosing(vertex.index, VertexKind.REGION) >= 0 for vertex in operators)
    regions = [vertex for vertex in graph.psg.vertices if vertex.kind is VertexKind.REGION]
    sourced = sum(vertex.place.line > 0 for vertex in regions)
    return (
        title(home, name),
        graph.way,
        f"{sourced} of {len(regions)}",
        f"{lines} of {len(operators)}",
        f"{modules} of {len(operators)}",
        int(graph.flops[0]),
        total(home, name),
        int(graph.uncounted[0]),
    )


def title(home: str, name: str) -> str:
    """What a table calls a model."""
    return f"`{name}`" + (" of transformers" if home == TRANSFORMERS else "")


def measured(home: str, name: str) -> tuple[str, ...]:
    """One row of the second table: where the samples in a model lie, and what of its backward has a module."""
    import scalana
    from scalana.graphs.structure.psg import VertexKind
    from tests.runtime import jobs

    with tempfile.TemporaryDirectory() as folder:
        code = JOB.format(root=str(ROOT), home=home, name=name, seconds=SECONDS, generating=name in GENERATING)
        done = jobs.python(code, Path(folder), cwd=ROOT)
        assert done.returncode == 0, done.stderr
        ppg = scalana.analyze(folder).ppg
    psg, samples = ppg.psg, ppg.metrics["samples"].sum(axis=1)
    kinds: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for vertex in psg.vertices:
        if not psg.module_of(vertex.index):
            continue
        if vertex.kind is VertexKind.OP:
            kinds["operators"] += samples[vertex.index]
        elif vertex.kind is VertexKind.REGION:
            kinds["modules"] += samples[vertex.index]
        else:
            kinds["lines"] += samples[vertex.index]
            lines[f"line {vertex.place.line} of {psg.function_of(vertex.index)}"] += samples[vertex.index]
    whole = sum(kinds.values())
    between = ", ".join(line for line, count in lines.most_common(3) if count > 0.005 * whole)
    return (
        title(home, name),
        f"{whole:.0f}",
        *(f"{kinds[kind] / whole:.1%}" for kind in ("operators", "modules", "lines")),
        between or "-",
        backward_share(ppg),
    )


def backward_share(ppg: Any) -> str:
    """What part of the backward passes of models in timed steps lies in modules inside of them."""
    from scalana.graphs.spans.modules import DIRECTIONS, module_calls

    calls = module_calls(ppg.spans)
    of_way = calls.direction == DIRECTIONS.index("backward")
    seconds = ppg.spans.end_s(calls.row) - ppg.spans.start_s(calls.row)
    level = {-1: -1}
    for number, module in enumerate(calls.modules):
        level[number] = level[module.parent] + 1
    depth = [level[number] for number in calls.module.tolist()]
    top, inner = (sum(seconds[of_way & ([one == at for one in depth])]) for at in (0, 1))
    return f"{inner / top:.1%}" if top else "-"


def main() -> None:
    """Print the tables."""
    sys.path.insert(0, str(ROOT))
    heads: tuple[str, ...] = (
        "model",
        "captured by",
        "modules with a line",
        "operators with a line",
        "operators with a module",
        "FLOPs",
        "torch's count",
        "not counted",
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    chosen = [model for model in MODELS if model[1] in (sys.argv[1:] or model)]
    for home, name in chosen:
        print("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in row(home, name)) + " |")
    heads = "model", "samples in it", "on operators", "on modules", "on other lines", "which", "backward, in parts"
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for home, name in chosen:
        if name not in NOT_TRAINED:
            print("| " + " | ".join(measured(home, name)) + " |")


if __name__ == "__main__":
    main()
