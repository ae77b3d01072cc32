"""Trains small models in ways that hooks may disturb, and prints all that comes out, and every warning."""

import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

import scalana
from scalana.runtime import chosen_steps

STEPS = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        h = self.up(self.norm(x))
        h = nn.functional.relu(h, inplace=True)
        return x + self.down(hidden_of(h))


def hidden_of(h):
    return torch.tanh(h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 10)
        self.checkpointed = False

    def forward(self, tokens, scale=None):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return {"logits": self.head(x), "hidden": (x, None)}


def plain(net):
    return net


def checkpointed(net):
    net.checkpointed = True
    return net


def compiled(net):
    return torch.compile(net, backend="aot_eager")


def compiled_in_place(net):
    net.blocks[1].compile(backend="aot_eager")
    return net


def compiled_function(net):
    """A function that calls modules."""
    return torch.compile(lambda tokens, scale=None: net(tokens, scale), backend="aot_eager")


def hooked(net):
    """With hooks of its own, of every kind."""
    net.blocks[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    net.blocks[1].register_forward_hook(lambda module, args, output: output + 1)
    net.head.register_full_backward_hook(lambda module, before, after: (before[0] * 3,))
    return net


def sharded(net):
    from torch.distributed.fsdp import fully_shard

    for block in net.blocks:
        fully_shard(block)
    return fully_shard(net)


def replicated(net):
    return nn.parallel.DistributedDataParallel(net)


def train(change):
    torch.manual_seed(3)
    made = Net()
    net = change(made)
    optimizer = torch.optim.SGD(made.parameters(), 0.1)
    for number in range(STEPS):
        tokens = torch.arange(6).reshape(2, 3) + number
        if change.__name__.startswith("compiled") and number > 1:  # compiled anew, in a step that is timed
            tokens = tokens.repeat(number, 1)
        optimizer.zero_grad()
        output = net(tokens, scale=1)
        loss = output["logits"].square().mean()
        loss.backward()
        optimizer.step()
        scalana.step()
        print(change.__name__, number, loss.item().hex())
    with torch.inference_mode():
        print(change.__name__, net(tokens)["logits"].sum().item().hex())


def main():
    warnings.simplefilter("always")
    chosen_steps.FIRST = range(1, 1000)
    chosen_steps.DEAR_NS = 1 << 62
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    for name in sys.argv[1:]:
        train(globals()[name])
    counters = sys.modules.get("torch._dynamo.utils")
    if counters is not None:
        print("graphs", counters.counters["stats"]["unique_graphs"])
    dist.destroy_process_group()


main()
