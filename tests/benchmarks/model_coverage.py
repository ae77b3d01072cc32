"""What of a model gets into its graph: operators with a line and a module, and FLOPs beside torch's own count; and what
of the time of a recorded training lies on vertices of modules and operators.

    python tests/benchmarks/model_coverage.py

Prints the tables of docs/models.md. torch's total is of a forward pass on random data, by ``FlopCounterMode``, with the
kernel for attention that it counts on a CPU (``SDPBackend.MATH``). The second table is of jobs that train each model
for some seconds on one core: the samples of all steps.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("encoder", "decoder", "resnet", "experts", "skipping_experts", "early_exit")
TRAINING = """
import sys, time
sys.path.insert(0, {root!r})
import torch
from tests.frontend.models import nets
torch.set_num_threads(1)
model, inputs = nets.{name}()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
data = torch.randint(0, 9, inputs.shape) if inputs.dtype == torch.int64 else torch.randn(inputs.shape)
until = time.perf_counter() + {seconds}
while time.perf_counter() < until:
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
"""
SECONDS = 4


def total(name: str) -> int:
    """FLOPs of a real forward pass."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from tests.frontend.models import nets

    torch.manual_seed(1)
    model, inputs = getattr(nets, name)()
    values = torch.randint(0, 9, inputs.shape) if inputs.dtype == torch.int64 else torch.randn(inputs.shape)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(values)
    return int(counter.get_total_flops())


def row(name: str) -> tuple[Any, ...]:
    """One row of the table."""
    from scalana.frontend.models.build import model_graph
    from scalana.graphs.structure.psg import VertexKind

    graph = model_graph(f"tests.frontend.models.nets:{name}")
    operators = [vertex for vertex in graph.psg.vertices if vertex.kind is VertexKind.OP and not vertex.children]
    lines = sum(vertex.place.line > 0 for vertex in operators)
    modules = sum(graph.psg.enclosing(vertex.index, VertexKind.REGION) >= 0 for vertex in operators)
    regions = [vertex for vertex in graph.psg.vertices if vertex.kind is VertexKind.REGION]
    sourced = sum(vertex.place.line > 0 for vertex in regions)
    return (
        f"`{name}`",
        graph.way,
        f"{sourced} of {len(regions)}",
        f"{lines} of {len(operators)}",
        f"{modules} of {len(operators)}",
        int(graph.flops[0]),
        total(name),
        int(graph.uncounted[0]),
    )


def measured(name: str) -> tuple[str, ...]:
    """One row of the second table: where the samples of a model's training lie."""
    import scalana
    from scalana.graphs.structure.psg import VertexKind
    from tests.runtime import jobs

    with tempfile.TemporaryDirectory() as folder:
        done = jobs.python(TRAINING.format(root=str(ROOT), name=name, seconds=SECONDS), Path(folder), cwd=ROOT)
        assert done.returncode == 0, done.stderr
        ppg = scalana.analyze(folder).ppg
    psg, samples = ppg.psg, ppg.metrics["samples"].sum(axis=1)
    forward = [vertex for vertex in psg.vertices if psg.module_of(vertex.index)]
    kinds = {
        kind: sum(samples[vertex.index] for vertex in forward if (vertex.kind is kind) == wanted)
        for kind, wanted in ((VertexKind.OP, True), (VertexKind.REGION, True))
    }
    whole = sum(samples[vertex.index] for vertex in forward)
    rest = sorted(forward, key=lambda vertex: -samples[vertex.index])
    rest = [vertex for vertex in rest if vertex.kind not in kinds and samples[vertex.index] > 0.005 * whole]
    of = [f"line {vertex.place.line} of {psg.function_of(vertex.index)}" for vertex in rest[:3]]
    spans, calls = (
        ppg.metrics["span_s"].sum(axis=1),
        [vertex for vertex in psg.vertices if "backward" in vertex.place.name],
    )
    top = [vertex.index for vertex in calls if not psg.module_of(vertex.parent)]
    inside = sum(spans[index] for index in top if index in psg.modules)
    return (
        f"`{name}`",
        f"{whole:.0f}",
        *(f"{kinds[kind] / max(whole, 1):.1%}" for kind in kinds),
        ", ".join(of) or "-",
        f"{inside:.2f} s",
    )


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
    for name in MODELS:
        print("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in row(name)) + " |")
    heads = "model", "samples in modules", "on operators", "on modules", "elsewhere", "backward, timed"
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name in MODELS:
        print("| " + " | ".join(measured(name)) + " |")


if __name__ == "__main__":
    main()
