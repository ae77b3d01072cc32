"""What of a model gets into its graph: operators with a line and a module, and FLOPs beside torch's own count.

    python tests/benchmarks/model_coverage.py

Prints the table of docs/models.md. torch's total is of a forward pass on random data, by ``FlopCounterMode``, with the
kernel for attention that it counts on a CPU (``SDPBackend.MATH``).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("encoder", "decoder", "resnet", "experts", "skipping_experts", "early_exit")


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


def main() -> None:
    """Print the table."""
    sys.path.insert(0, str(ROOT))
    heads = (
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


if __name__ == "__main__":
    main()
