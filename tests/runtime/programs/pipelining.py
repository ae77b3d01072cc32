"""Trains a small model by every schedule of torch, one after the other, on all ranks that there are.

Prints, as JSON, a line from each rank: for each schedule the planned order of this rank, and losses and gradients of
each step to the last bit.
"""

import hashlib
import json
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

WIDTH, MICROBATCHES, STEPS = 8, 4, 3
NAMES = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV", "CSV")
CSV = """0F0,0F1,3F0,3I0,3F1,0F2,3B1,0I0,0W0,3W0,3F2,0B1,3B2,0F3,0B2,3F3,3B3,0B3
1F0,2F0,1F1,2F1,2B0,1I0,1F2,2F2,1W0,2B1,1B1,2B2,1F3,1B2,2F3,2B3,1B3
"""
"""For two ranks."""

warnings.simplefilter("ignore")
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.two(torch.relu(self.one(x)))


class Stage(nn.Module):
    def __init__(self, number):
        super().__init__()
        torch.manual_seed(number)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleDict({"a": Block(), "b": nn.Sequential(Block(), nn.Linear(WIDTH, WIDTH))})

    def forward(self, x):
        x = self.layers["a"](self.first(x))
        return self.layers["b"](x)


def loss(output, target):
    return (output - target).square().mean()


def held_by(name):
    if name in ("GPipe", "1F1B"):
        return ranks, [rank]
    if name in ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"):
        return 2 * ranks, [rank, rank + ranks]
    return 2 * ranks, [rank, 2 * ranks - 1 - rank]


def build(name):
    count, held = held_by(name)
    stages = [PipelineStage(Stage(number), number, count, torch.device("cpu")) for number in held]
    if name == "CSV":
        schedule = schedules._PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=loss)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write(CSV)
            file.flush()
            schedule._load_csv(file.name)
        return schedule, stages
    kind = schedules.get_schedule_class(name)
    return kind(stages[0] if count == ranks else stages, MICROBATCHES, loss_fn=loss), stages


def bits(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def planned(schedule):
    found = []
    for action in schedule.pipeline_order[rank]:
        for part in (getattr(action, "sub_actions", None) or [action]) if action is not None else []:
            found.append(str(part))
    return [text for text in found if "REDUCE" not in text]


def train(name):
    schedule, stages = build(name)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    torch.manual_seed(0)
    results = []
    for _ in range(STEPS):
        batch, losses = torch.randn(MICROBATCHES, WIDTH), []
        first, last = any(s.is_first for s in stages), any(s.is_last for s in stages)
        told = {"target": batch.flip(0), "losses": losses} if last else {}
        schedule.step(*((batch,) if first else ()), **told)
        results.append([bits(losses), bits([p.grad for p in parameters])])
        optimizer.step()
        optimizer.zero_grad()
    return {"order": planned(schedule), "results": results, "held": [s.stage_index for s in stages]}


names = sys.argv[1].split(",") if len(sys.argv) > 1 else NAMES
done = {name: train(name) for name in names}
text = [None] * ranks
dist.all_gather_object(text, done)
if rank == 0:
    print(json.dumps(text))
dist.destroy_process_group()
