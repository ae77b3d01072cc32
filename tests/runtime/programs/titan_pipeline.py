"""Trains and evaluates a small model by torchtitan's own ``pipeline_llm``, as its trainer does, on the CPU.

Arguments: schedules, with commas between. Prints, as JSON, losses and gradients of each step to the last bit, of every
rank. What torchtitan imports for loading data, tokenizers, its command line and its logs is replaced by nothing.
"""

import hashlib
import importlib.machinery
import json
import sys
import types
import warnings

warnings.simplefilter("ignore")


class Nothing:
    """Is called, looked into and inherited from, whatever a module has."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *arguments, **named):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Nothing()

    def __mro_entries__(self, bases):
        return (type("Nothing", (), {}),)

    def __or__(self, other):
        return other

    def __getitem__(self, key):
        return self

    __ror__ = __or__


class Absent:
    """Finds modules that have nothing in them."""

    names = ("tyro", "torchdata", "datasets", "tokenizers", "PIL", "torch.utils.tensorboard",
             "torchtitan.models.moe.kernels")  # fmt: skip
    """The last are of Triton, which torch must not believe to be there."""

    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{absent}.") for absent in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(Nothing(), name)
        return module

    def exec_module(self, module):
        """There is nothing to execute."""


sys.meta_path.insert(0, Absent())

import torch  # noqa: E402
import torch._utils  # noqa: E402

torch._utils._get_available_device_type = lambda: "cpu"
torch.cpu.get_device_name = lambda *_: "cpu"

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torchtitan.config import JobConfig  # noqa: E402
from torchtitan.distributed import ParallelDims  # noqa: E402
from torchtitan.distributed.pipeline_parallel import pipeline_llm  # noqa: E402

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
    dims = ParallelDims(1, 1, 1, 1, ranks, 1, 1, ranks)
    dims.build_mesh()
    config = JobConfig()
    config.parallelism.pipeline_parallel_degree = ranks
    config.parallelism.pipeline_parallel_schedule = schedule_name
    config.parallelism.pipeline_parallel_microbatch_size = 1
    config.training.local_batch_size = MICROBATCHES
    torch.manual_seed(0)
    schedule, parts, first, last = pipeline_llm(
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
