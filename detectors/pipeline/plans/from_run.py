"""The profile of a recorded run: what its layers, links and host took, and how it runs now."""

from __future__ import annotations

import numpy as np

from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis, planning_model
from scalana.detectors.pipeline.diagnosis.predictions import split_backward
from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.plans.assignment import Stages
from scalana.detectors.pipeline.plans.profile import LayerProfile, Now
from scalana.graphs.arrays.types import FloatArray

_OUTSIDE = ("embed", "wte", "wpe", "tok_", "lm_head", "head", "output", "unembed")
"""What names of layers hold that are no blocks."""


def profile_of(diagnosis: Diagnosis) -> LayerProfile:
    """Layer costs of a diagnosed pipeline; stages are its layers, where layers were not timed.

    Where a backward was never seen split, I and W are half of it each: that is an assumption.
    """
    measured = diagnosis.measured
    program = measured.first_step()
    model = planning_model(diagnosis)
    layers = diagnosis.layers
    cut = np.arange(program.stages + 1) if layers is None else layers.cut
    names = tuple(f"stage{s}" for s in range(program.stages)) if layers is None else numbered(layers.names)
    count = len(names)
    seconds = np.maximum(split_backward(model.layer_costs), 0.0)
    if measured.operations.engine.split_first and knows_split(diagnosis):
        _share_first(seconds, int(cut[1]))
    return LayerProfile(
        names=names,
        seconds=seconds,
        activation=np.ones(count),
        output=np.zeros(count),
        static=np.zeros(count),
        ranks=program.ranks,
        microbatches=program.microbatches,
        latency_s=np.maximum(model.latency_s, 0.0),
        host_s=max(model.host_s, 0.0),
        outside=_outside(names),
        now=Now(
            engine=measured.operations.engine.name,
            schedule=diagnosis.schedule,
            step_s=diagnosis.attribution.step_s,
            rank_of_layer=tuple(Stages(cut, program.rank_of_stage).rank_of_layer.tolist()),
            peak=diagnosis.held,
        ),
    )


def numbered(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, each once: blocks that are numbered anew in every stage (as Megatron's are) are numbered through.

    >>> numbered(("embed", "layers.0", "layers.1", "layers.0", "layers.1", "head"))
    ('embed', 'layers.0', 'layers.1', 'layers.2', 'layers.3', 'head')
    """
    if len(set(names)) == len(names):
        return names
    counted: dict[str, int] = {}
    found = []
    for name in names:
        kind = name.rstrip("0123456789")
        at = counted[kind] = counted.get(kind, -1) + 1
        if kind != name:
            name = f"{kind}{at}"
        elif names.count(name) > 1:
            name = f"{name}.{at}"
        found.append(name)
    return tuple(found)


def _share_first(seconds: FloatArray, end: int) -> None:
    """Where the engine computes all of the first stage's backward in W, part it as other layers' is."""
    others = seconds[:, end:]
    whole = float((others[Kind.I] + others[Kind.W]).sum())
    ratio = float(others[Kind.I].sum()) / whole if whole > 0 else 0.5
    both = seconds[Kind.I, :end] + seconds[Kind.W, :end]
    seconds[Kind.I, :end], seconds[Kind.W, :end] = ratio * both, (1 - ratio) * both


def knows_split(diagnosis: Diagnosis) -> bool:
    """Whether what I and W take was measured."""
    return bool((diagnosis.measured.program.kind == Kind.W).any())


def _outside(names: tuple[str, ...]) -> tuple[int, ...]:
    """Layers at either end whose names say that they are no blocks."""
    strange = [any(word in name.lower() for word in _OUTSIDE) for name in names]
    first = 0
    while first < len(names) and strange[first]:
        first += 1
    last = len(names)
    while last > first and strange[last - 1]:
        last -= 1
    return tuple(range(first)) + tuple(range(last, len(names)))
