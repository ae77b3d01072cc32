"""Trains small models of transformers, one after the other, each with something planted in one layer on rank 1.

In turn: longer sequences, tokens that go to all experts rather than to one, an attention that falls back to a slow one,
an activation that asks for single numbers. Prints what the steps of rank 1 took more than those of rank 0, in CPU time.
Under DDP, or as ``fsdp``; ``fewer`` steps are two thirds of them.
"""

import copy
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

STEPS, SLOW, LAYER = 24 if "fewer" in sys.argv else 36, 1, 1
SIZES = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "use_cache": False,
}


class CheckedActivation(nn.Module):
    def forward(self, x):
        values = x.detach().flatten()
        for at in range(0, len(values), 2):
            if not abs(values[at].item()) < 1e9:  # item
                raise ValueError
        return nn.functional.silu(x)


def naive(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **named):
    groups = query.shape[1] // key.shape[1]
    heads = []
    for head in range(query.shape[1]):
        k, v = key[:, head // groups], value[:, head // groups]
        rows = []
        for at in range(query.shape[2]):  # fallback
            scores = query[:, head, at : at + 1] @ k[:, : at + 1].transpose(-1, -2) * scaling  # fallback
            rows.append(torch.softmax(scores, -1) @ v[:, : at + 1])  # fallback
        heads.append(torch.cat(rows, 1))
    return torch.stack(heads, 2), None


AttentionInterface.register("naive", naive)


def llama():
    return LlamaForCausalLM(LlamaConfig(**SIZES, intermediate_size=384))


def falling_back():
    model = llama()
    attention = model.model.layers[LAYER].self_attn
    attention.config = copy.deepcopy(attention.config)
    attention.config._attn_implementation = "naive"
    return model


def checking():
    model = llama()
    model.model.layers[LAYER].mlp.act_fn = CheckedActivation()
    return model


def mixtral(slow):
    config = MixtralConfig(**SIZES, intermediate_size=128, num_local_experts=8, num_experts_per_tok=1)
    config._experts_implementation = "eager"
    model = MixtralForCausalLM(config)
    if slow:
        model.model.layers[LAYER].mlp.gate.top_k = 8
    return model


def prepared(model):
    if "fsdp" in sys.argv:
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    return model, torch.optim.SGD(model.parameters(), 1e-3)


def sequence(slow):
    model, optimizer = prepared(llama())
    tokens = torch.randint(3, 500, (4, 192 if slow else 32))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss  # sequence
        loss.backward()  # sequence
        optimizer.step()


def experts(slow):
    model, optimizer = prepared(mixtral(slow))
    tokens = torch.randint(3, 500, (8, 128))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss  # experts
        loss.backward()  # experts
        optimizer.step()


def fallback(slow):
    model, optimizer = prepared(falling_back() if slow else llama())
    tokens = torch.randint(3, 500, (4, 48))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()  # fallback
        optimizer.step()


def item(slow):
    model, optimizer = prepared(checking() if slow else llama())
    tokens = torch.randint(3, 500, (4, 32))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    slow = dist.get_rank() == SLOW
    took = {}
    for train in (sequence, experts, fallback, item):
        since = time.thread_time()
        train(slow)
        took[train.__name__] = time.thread_time() - since
    all_ranks = [None] * 2
    dist.all_gather_object(all_ranks, took)
    if slow:
        for name in took:
            print(name, all_ranks[1][name] - all_ranks[0][name])
    dist.destroy_process_group()


main()
