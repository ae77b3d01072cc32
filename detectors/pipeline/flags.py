"""A change in the words of the engine that would run it: what a person types or writes into the program."""

from __future__ import annotations

import numpy as np

from scalana.detectors.pipeline.diagnosis import Layers
from scalana.detectors.pipeline.schedules import BY_NAME
from scalana.detectors.pipeline.whatif import Prediction


def in_words_of(engine: str, prediction: Prediction, layers: Layers | None) -> str:
    """How an engine is told of a change; "" where that is not known, or depends on the program."""
    if prediction.change == "repartition":
        return _split(engine, prediction, layers)
    if prediction.change == "schedule":
        return _schedule(engine, prediction)
    return ""


def _split(engine: str, prediction: Prediction, layers: Layers | None) -> str:
    sizes = np.diff(prediction.cut).tolist()
    if engine == "megatron":
        return f'--pipeline-model-parallel-layout "{megatron_layout(sizes)}"'
    if layers is None:
        return ""
    starts = [layers.names[at] for at in prediction.cut[1:-1]]
    if engine == "torch":
        return "stages begin at layers " + ", ".join(map(str, prediction.cut[:-1])) + f" (the second at {starts[0]})"
    if engine == "torchtitan":
        return "module_fqns_per_model_part, with parts that begin at " + ", ".join(starts)
    if engine == "deepspeed":
        return "PipelineModule with parts that begin at " + ", ".join(map(str, prediction.cut[:-1]))
    return ""


def megatron_layout(sizes: list[int]) -> str:
    """The layout of decoder layers, the embedding and the loss in Megatron's words.

    >>> megatron_layout([5, 5, 5, 1])
    'Et*5|t*5|t*5|tL'
    """
    parts = ["t" if size == 1 else f"t*{size}" if size else "" for size in sizes]
    return "E" + "|".join(parts) + "L"


def _schedule(engine: str, prediction: Prediction) -> str:
    name = prediction.text.split(",")[0]
    schedule = BY_NAME.get(name)
    if schedule is None:
        return ""
    if engine in ("torch", "torchtitan"):
        if not schedule.torch_class:
            return "torch runs it from a file: _PipelineScheduleRuntime(...)._load_csv(...)"
        if engine == "torchtitan":
            return f"parallelism.pipeline_parallel_schedule = {schedule.torch_class.removeprefix('Schedule')!r}"
        return f"torch.distributed.pipelining.{schedule.torch_class}"
    if engine == "megatron" and name == "Interleaved1F1B":
        return "--num-virtual-stages-per-pipeline-rank 2"
    return ""
