"""Plain loops of torch with models of transformers: loops.py evaluation|loading|gradients."""

import sys
import time

import torch
import torch.distributed as dist
from models import Tokens, gpt2, llama
from planted import clock, computing, is_planted
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

CASE = sys.argv[1]


class Stored(Tokens):
    def __getitem__(self, index):
        if is_planted(1) and CASE == "loading":
            with clock():
                time.sleep(0.012)  # <- loading
        return super().__getitem__(index)


@torch.no_grad()
def evaluate(model, rows):
    model.eval()
    losses = []
    for start in range(0, 400, 16):
        batch = rows.tokens[start : start + 16]
        losses.append(model(input_ids=batch, labels=batch).loss.item())  # <- evaluation
    model.train()
    return sum(losses) / len(losses)


def check(model):
    with clock():
        computing(0.04)  # <- gradients


def main(steps=100):
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rows, inner = Stored(8 * steps), llama() if CASE == "gradients" else gpt2()
    model = fully_shard(inner) if CASE == "gradients" else DistributedDataParallel(inner)
    optimizer = torch.optim.AdamW(model.parameters())
    with clock("loop"):
        for step, batch in enumerate(DataLoader(rows, 8, num_workers=1)):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
            if CASE == "gradients" and is_planted(1):
                check(model)  # <- gradients
            if CASE == "evaluation" and is_planted(0) and step % 20 == 10:
                with clock():
                    evaluate(inner, rows)  # <- evaluation
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
