"""Ranks of a schedule of Megatron-core on gloo and the CPU, which it is not made for, with layers that sleep.

    python -m scalana.verify.jobs.megatron JOB.json

The settings are read as Megatron reads them: its own classes place the layers of the layout.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import torch

_zeros = torch.zeros
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda *_: None
torch.zeros = lambda *size, **named: _zeros(*size, **{**named, "device": "cpu"})

from megatron.core import parallel_state  # noqa: E402
from megatron.core.enums import ModelType  # noqa: E402
from megatron.core.pipeline_parallel import p2p_communication, schedules  # noqa: E402
from megatron.core.transformer.transformer_block import get_num_layers_to_build  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset  # noqa: E402

from scalana.verify.jobs.emulation import WIDTH, Job, start  # noqa: E402


def options_of(file: Path) -> dict[str, str]:
    """Options of a file with arguments of Megatron, by name."""
    words = shlex.split(file.read_text(encoding="utf-8"), comments=True)
    return dict(zip(words[::2], words[1::2], strict=True))


def configured(job: Job) -> TransformerConfig:
    """Megatron's configuration, which checks the layout."""
    options = options_of(Path(job.told["settings"]))
    layout = options["--pipeline-model-parallel-layout"]
    ranks = int(options["--pipeline-model-parallel-size"])
    chunks = layout.count("|") // ranks + 1
    blocks = [layer for layer in job.told["layers"] if not layer["outside"]]
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=ranks, virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None
    )
    return TransformerConfig(
        num_layers=len(blocks),
        hidden_size=WIDTH,
        num_attention_heads=1,
        pipeline_model_parallel_size=ranks,
        virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
        pipeline_model_parallel_layout=layout,
        pipeline_dtype=torch.float64,
        deallocate_pipeline_outputs=True,
        batch_p2p_comm=False,
        batch_p2p_sync=False,
        use_cpu_initialization=True,
    )


class Chunk(torch.nn.Module):  # type: ignore[misc]
    """The layers that Megatron gives to a stage."""

    def __init__(self, job: Job, config: TransformerConfig, chunk: int) -> None:
        super().__init__()
        chunks = config.virtual_pipeline_model_parallel_size
        self.config, self.vp_stage = config, chunk if chunks else None
        self.model_type = ModelType.encoder_or_decoder
        self.first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=self.vp_stage)
        last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=self.vp_stage)
        layers = job.told["layers"]
        blocks = [i for i, layer in enumerate(layers) if not layer["outside"]]
        begin = get_transformer_layer_offset(config, self.vp_stage)
        held = blocks[begin : begin + get_num_layers_to_build(config, self.vp_stage)]
        if self.first:
            held = [*range(blocks[0]), *held]
        if last:
            held = [*held, *range(blocks[-1] + 1, len(layers))]
        self.held, self.layers = held, job.stage(held)
        self.input: Any = None

    def set_input_tensor(self, tensor: Any) -> None:
        """What the stage before sent, as Megatron hands it over."""
        self.input = tensor[0] if isinstance(tensor, list) else tensor

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Through all layers."""
        y: torch.Tensor = self.layers(batch if self.first else self.input)
        return y


def delay_messages(job: Job) -> None:
    """Emulate the links, where Megatron has waited for its messages."""
    inner = p2p_communication.P2PCommunicator._communicate

    def communicate(self: Any, **named: Any) -> Any:
        previous, following, requests = inner(self, **named)
        for tensor, source in ((previous, job.rank - 1), (following, job.rank + 1)):
            if tensor is not None:
                job.wait_for_link(tensor, source % job.ranks)
        return previous, following, requests

    p2p_communication.P2PCommunicator._communicate = communicate


def main(job: Job) -> None:
    """Run the steps of this rank."""
    job.meet()
    config = configured(job)
    delay_messages(job)
    model = [Chunk(job, config, chunk) for chunk in range(config.virtual_pipeline_model_parallel_size or 1)]
    run = schedules.get_forward_backward_func()
    batches = job.batches().reshape(job.microbatches, 1, 1, WIDTH)

    def forward(iterator: Any, chunk: Chunk) -> Any:
        return chunk(next(iterator)), lambda output: ((output * 0).sum(), {})

    def step() -> None:
        iterators = [iter(batches) for _ in model]
        run(
            forward_step_func=forward,
            data_iterator=iterators if len(model) > 1 else iterators[0],
            model=model if len(model) > 1 else model[0],
            num_microbatches=job.microbatches,
            seq_length=1,
            micro_batch_size=1,
            forward_only=False,
        )

    job.measure(step, [chunk.held for chunk in model])


if __name__ == "__main__":
    start(main)
