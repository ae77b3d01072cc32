"""Trains and evaluates a small model by torchtitan's own ``pipeline_llm``, as its trainer does, on the CPU.

Arguments: schedules, with commas between. Prints, as JSON, losses and gradients of each step to the last bit, of every
rank. What torchtitan imports for loading data, tokenizers, its command line and its logs is replaced by nothing.
"""

import hashlib
import json
import sys
import types
import warnings

import torch
import torch.distributed as dist
from torch import nn

from scalana.verify.jobs.torchtitan import import_torchtitan

warnings.simplefilter("ignore")
titan = import_torchtitan()

WIDTH, WORDS, LAYERS, SEQUENCE, MICROBATCHES, STEPS = 8, 11, 4, 5, 4, 4
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


class Model(nn.Module):
    """Of the form that torchtitan cuts: what a part does not have is None."""

    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleDict({str(n): nn.Linear(WIDTH, WIDTH) for n in range(LAYERS)})
        self.norm, self.output = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.tok_embeddings(x) if self.tok_embeddings is not None else x
        for layer in self.layers.values():
            x = x + torch.tanh(layer(x))
        return self.output(self.norm(x)) if self.output is not None else x


def cross_entropy(prediction, labels):
    return nn.functional.cross_entropy(prediction.flatten(0, 1), labels.flatten(), reduction="sum")


def bits(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def trained(schedule_name):
    dims = titan.ParallelDims(1, 1, 1, 1, ranks, 1, 1, ranks)
    dims.build_mesh()
    config = titan.JobConfig()
    config.parallelism.pipeline_parallel_degree = ranks
    config.parallelism.pipeline_parallel_schedule = schedule_name
    config.parallelism.pipeline_parallel_microbatch_size = 1
    config.training.local_batch_size = MICROBATCHES
    torch.manual_seed(0)
    schedule, parts, first, last = titan.pipeline_llm(
        Model(), dims, config, torch.device("cpu"), types.SimpleNamespace(n_layers=LAYERS),
        lambda part, *_: part, cross_entropy,
    )  # fmt: skip
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.01) for part in parts]
    results = []
    for step in range(STEPS):
        torch.manual_seed(step)
        tokens = torch.randint(WORDS, (MICROBATCHES, SEQUENCE + 1))
        inputs, labels = (tokens[:, :-1],) if first else (), tokens[:, 1:]
        target, losses = (labels, []) if last else (None, None)
        if step == STEPS - 1:
            schedule.eval(*inputs, target=target, losses=losses)
        else:
            schedule.step(*inputs, target=target, losses=losses, return_outputs=False)
        gradients = [p.grad for part in parts for p in part.parameters() if p.grad is not None]
        results.append([bits(losses or []), bits(gradients)])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return results


results = {name: trained(name) for name in sys.argv[1].split(",")}
text = [None] * ranks
dist.all_gather_object(text, results)
if rank == 0:
    print(json.dumps(text))
dist.destroy_process_group()
