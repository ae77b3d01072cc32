"""Two pipelines of two stages, replicas of each other, whose gradients are averaged and applied by hand; and an
evaluation. No optimizer of torch says where a step ends."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
pipelines = [dist.new_group([0, 2]), dist.new_group([1, 3])]
replicas = [dist.new_group([0, 1]), dist.new_group([2, 3])]
group, number = pipelines[rank % 2], rank // 2

torch.manual_seed(number)
module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
stage = PipelineStage(module, number, 2, torch.device("cpu"), group=group)
schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
for step in range(int(sys.argv[1])):
    batch = torch.full((4, 4), float(step))
    schedule.step(*((batch,) if number == 0 else ()), **({"target": batch} if number else {}))
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad, group=replicas[number])
        parameter.data -= 0.05 * parameter.grad
        parameter.grad = None
    if step == 1:
        schedule.eval(*((batch,) if number == 0 else ()), **({"target": batch} if number else {}))
dist.destroy_process_group()
