"""Trains two small models by a pipeline schedule of Megatron-core on the CPU, which it is not made for: all stages of
the first are alike, the second has a head at its end, which costs as much as all else on a rank.

Arguments: chunks of the model a rank, `overlap` if messages are to overlap with computing, milliseconds that a layer
takes. Prints losses and gradients of each step to the last bit, of every rank.
"""

import contextlib
import hashlib
import json
import sys
import types
import warnings

import torch

warnings.simplefilter("ignore")
zeros = torch.zeros
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda *_: None
torch.zeros = lambda *size, **named: zeros(*size, **{**named, "device": "cpu"})

import torch.distributed as dist  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import finalize_model_grads  # noqa: E402
from megatron.core.enums import ModelType  # noqa: E402
from megatron.core.model_parallel_config import ModelParallelConfig  # noqa: E402
from megatron.core.pipeline_parallel import schedules  # noqa: E402
from pausing import Head, Layer  # noqa: E402
from torch import nn  # noqa: E402

SEQUENCE, BATCH, WIDTH, MICROBATCHES, STEPS, LAYERS = 3, 2, 8, 4, 4, 4
seconds, overlap = float(sys.argv[-1]) / 1000, "overlap" in sys.argv
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks, chunks = dist.get_rank(), dist.get_world_size(), int(sys.argv[1])
parallel_state.initialize_model_parallel(
    pipeline_model_parallel_size=ranks, virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None
)
config = ModelParallelConfig(
    pipeline_model_parallel_size=ranks,
    virtual_pipeline_model_parallel_size=chunks if chunks > 1 else None,
    pipeline_dtype=torch.float32,
    deallocate_pipeline_outputs=not overlap,  # on gloo not both
    overlap_p2p_comm=overlap,
    batch_p2p_comm=False,
    batch_p2p_sync=False,
)
config.finalize_model_grads_func = finalize_model_grads
config.hidden_size, config.moe_router_load_balancing_type = WIDTH, "none"
OF_TRANSFORMERS = """fine_grained_activation_offloading mtp_standalone has_cond_embedder qk_layernorm mtp_num_layers
    moe_router_enable_expert_bias calculate_per_token_loss num_moe_experts"""
for name in OF_TRANSFORMERS.split():
    setattr(config, name, None)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(WIDTH, seconds) for _ in range(LAYERS // chunks))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Chunk(nn.Module):
    def __init__(self, stage, vp_stage, head):
        super().__init__()
        torch.manual_seed(stage)
        self.config, self.vp_stage, self.stage, self.model_type = config, vp_stage, stage, ModelType.encoder_or_decoder
        self.decoder, self.input = Decoder(), None
        if head and stage == ranks * chunks - 1:
            self.output_layer = Head(WIDTH, LAYERS * seconds)

    share_embeddings_and_output_weights = False
    pre_process = post_process = False
    ddp_config = types.SimpleNamespace(use_megatron_fsdp=False)

    def finish_grad_sync(self, force_all_reduce=False):
        """There are no replicas."""

    def set_input_tensor(self, tensor):
        self.input = tensor[0] if isinstance(tensor, list) else tensor

    def forward(self, batch):
        x = self.decoder(batch if self.stage == 0 else self.input)
        return self.output_layer(x) if hasattr(self, "output_layer") else x


def step(iterator, model):
    batch = next(iterator)
    return model(batch), lambda output: (output.square().mean(), {"loss": output.square().mean().detach()})


def bits(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def trained(head):
    model = [Chunk(chunk * ranks + rank, chunk if chunks > 1 else None, head) for chunk in range(chunks)]
    parameters = [parameter for chunk in model for parameter in chunk.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    run = schedules.get_forward_backward_func()
    results = []
    for number in range(STEPS):
        torch.manual_seed(number)
        batches = torch.randn(MICROBATCHES, SEQUENCE, BATCH, WIDTH)
        losses = run(
            forward_step_func=step,
            data_iterator=[iter(batches) for _ in model] if chunks > 1 else iter(batches),
            model=model if chunks > 1 else model[0],
            num_microbatches=MICROBATCHES,
            seq_length=SEQUENCE,
            micro_batch_size=BATCH,
            forward_only=number == STEPS - 1,
        )
        gradients = [p.grad for p in parameters if p.grad is not None]
        results.append([bits([one["loss"] for one in losses]), bits(gradients)])
        optimizer.step()
        optimizer.zero_grad()
    return results


results = [trained(head=False), trained(head=True)]
text = [None] * ranks
dist.all_gather_object(text, results)
if rank == 0:
    print(json.dumps(text))
with contextlib.suppress(Exception):
    parallel_state.destroy_model_parallel()
dist.destroy_process_group()
