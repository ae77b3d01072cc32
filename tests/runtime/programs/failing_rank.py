"""One rank fails while the other waits for it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 1:
    raise ArithmeticError("planted failure")
dist.all_reduce(torch.ones(1))
