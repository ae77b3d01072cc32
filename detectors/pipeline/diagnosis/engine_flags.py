"""A change in the words of the engine that would run it: what a person types or writes into the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalana.detectors.pipeline.diagnosis.predictions import Prediction
from scalana.detectors.pipeline.measured.layers import Layers
from scalana.detectors.pipeline.model.partition import even_cut
from scalana.detectors.pipeline.model.schedules import BY_NAME

Words = Callable[[Prediction, Layers | None], str]


def in_words_of(engine: str, prediction: Prediction, layers: Layers | None) -> str:
    """How an engine is told of a change; "" where that is not known, or depends on the program."""
    words = WORDS.get((engine, prediction.change))
    return words(prediction, layers) if words is not None else ""


# ---- torch, torchtitan ----


def _torch_split(prediction: Prediction, layers: Layers | None) -> str:
    if layers is None:
        return ""
    first = layers.names[prediction.cut[1]]
    return "stages begin at layers " + ", ".join(map(str, prediction.cut[:-1])) + f" (the second at {first})"


def _titan_split(prediction: Prediction, layers: Layers | None) -> str:
    if layers is None:
        return ""
    starts = [layers.names[at] for at in prediction.cut[1:-1]]
    return "module_fqns_per_model_part, with parts that begin at " + ", ".join(starts)


def _torch_schedule(prediction: Prediction, layers: Layers | None) -> str:
    del layers
    schedule = BY_NAME[_name(prediction)]
    if not schedule.torch_class:
        return "torch runs it from a file: _PipelineScheduleRuntime(...)._load_csv(...)"
    return f"torch.distributed.pipelining.{schedule.torch_class}"


def _titan_schedule(prediction: Prediction, layers: Layers | None) -> str:
    schedule = BY_NAME[_name(prediction)]
    if not schedule.torch_class:
        return _torch_schedule(prediction, layers)
    return f"parallelism.pipeline_parallel_schedule = {schedule.torch_class.removeprefix('Schedule')!r}"


# ---- Megatron ----


def _megatron_split(prediction: Prediction, layers: Layers | None) -> str:
    sizes = decoder_layers(prediction, layers)
    ranks = prediction.program.ranks if prediction.program is not None else len(sizes)
    if len(set(sizes)) == 1 and len(sizes) > ranks:
        return f"--num-layers-per-virtual-pipeline-stage {sizes[0]}"
    if len(sizes) == ranks > 2 and len(set(sizes[1:-1])) == 1 and min(sizes) > 0:
        # Layers that no flag tells of are spread evenly over the other stages.
        ends = (("first", sizes[0]), ("last", sizes[-1]))
        told = [f"--decoder-{end}-pipeline-num-layers {size}" for end, size in ends if size != sizes[1]]
        return " ".join(told) or "equally many layers per stage (the default)"
    return f'--pipeline-model-parallel-layout "{megatron_layout(sizes)}"'


def decoder_layers(prediction: Prediction, layers: Layers | None) -> list[int]:
    """How many layers of the decoder each stage has; the embedding and the head are none, where names are known."""
    if layers is None or not any(_is_decoder(name) for name in layers.names):
        return [int(size) for size in np.diff(prediction.cut)]
    before = np.concatenate([[0], np.cumsum([_is_decoder(name) for name in layers.names])])
    return [int(size) for size in np.diff(before[list(prediction.cut)])]


def _is_decoder(name: str) -> bool:
    """Whether a layer's name ends in its number in a list: ``decoder.layers.3``."""
    return name.rpartition(".")[2].isdecimal()


def megatron_layout(sizes: list[int]) -> str:
    """The layout of decoder layers, the embedding and the loss in Megatron's words.

    >>> megatron_layout([5, 5, 5, 1])
    'Et*5|t*5|t*5|tL'
    """
    parts = ["t" if size == 1 else f"t*{size}" if size else "" for size in sizes]
    return "E" + "|".join(parts) + "L"


def _megatron_schedule(prediction: Prediction, layers: Layers | None) -> str:
    assert prediction.program is not None
    chunks = prediction.program.stages // prediction.program.ranks
    if chunks == 1:
        return "no virtual stages" + ("" if layers is None else f", {_megatron_split(prediction, layers)}")
    if layers is None:
        return f"--num-virtual-stages-per-pipeline-rank {chunks}"
    return _megatron_split(prediction, layers)


def _megatron_microbatches(prediction: Prediction, layers: Layers | None) -> str:
    del prediction, layers
    return "--global-batch-size twice as large, the same --micro-batch-size"


# ---- DeepSpeed ----


def _deepspeed_split(prediction: Prediction, layers: Layers | None) -> str:
    del layers
    if list(prediction.cut) == even_cut(prediction.cut[-1], len(prediction.cut) - 1).tolist():
        return 'PipelineModule(partition_method="uniform")'
    parts = ", ".join(map(str, prediction.cut))
    return (
        f"PipelineModule with parts at layers [{parts}]: no partition_method balances seconds, so override "
        "_partition_layers and call _set_bounds for the stage"
    )


def _deepspeed_microbatches(prediction: Prediction, layers: Layers | None) -> str:
    del layers
    assert prediction.program is not None
    return f'"gradient_accumulation_steps": {prediction.program.microbatches}'


def _name(prediction: Prediction) -> str:
    """Of the standard schedule of a prediction: ``Interleaved1F1B, 2 chunks, 4/4/4/4``."""
    return prediction.text.split(",")[0]


WORDS: dict[tuple[str, str], Words] = {
    ("torch", "repartition"): _torch_split,
    ("torch", "schedule"): _torch_schedule,
    ("torchtitan", "repartition"): _titan_split,
    ("torchtitan", "schedule"): _titan_schedule,
    ("megatron", "repartition"): _megatron_split,
    ("megatron", "schedule"): _megatron_schedule,
    ("megatron", "microbatches"): _megatron_microbatches,
    ("deepspeed", "repartition"): _deepspeed_split,
    ("deepspeed", "microbatches"): _deepspeed_microbatches,
}
"""By engine and kind of change."""
