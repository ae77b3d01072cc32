"""GRPO by TRL on a tiny model made from a configuration, on CPUs: a user's program, which knows nothing of scalana.

    torchrun --standalone --nproc-per-node 2 grpo.py OUTPUT verifier|tail

With ``verifier`` rank 1 takes 0.4 s to score its answers, and prints how long in all; with ``tail`` its answers are
long.
"""

from __future__ import annotations

import os
import sys
import time

import tiny_llama
import torch
from datasets import Dataset
from tokenizers import pre_tokenizers
from trl import GRPOConfig, GRPOTrainer

STEPS, ROWS, MOST = 4, 4, 96
SLOW_S = 0.4


def main(output: str, planted: str) -> None:
    rank = int(os.environ["RANK"])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words = tiny_llama.tokenizer([f"w{number}" for number in range(13)], pre_tokenizers.Whitespace())
    model = tiny_llama.model(words, 256)

    slept_s = 0.0

    def short_is_good(completions: list[str], **_: object) -> list[float]:
        nonlocal slept_s
        if planted == "verifier" and rank == 1:
            begin = time.perf_counter()
            time.sleep(SLOW_S)
            slept_s += time.perf_counter() - begin
        return [-float(len(text.split())) for text in completions]

    long = planted == "tail" and rank == 1
    config = GRPOConfig(
        output_dir=output,
        use_cpu=True,
        bf16=False,
        ddp_backend="gloo",
        report_to=[],
        max_steps=STEPS,
        save_strategy="no",
        shuffle_dataset=False,
        remove_unused_columns=False,
        per_device_train_batch_size=ROWS,
        num_generations=ROWS,
        max_completion_length=MOST if planted == "tail" else 12,
        generation_kwargs={"min_new_tokens": MOST - 1} if long else {"max_new_tokens": 12},
        logging_steps=1,
        disable_tqdm=True,
    )
    data = Dataset.from_list([{"prompt": f"w{number % 13} w{number % 7}"} for number in range(64)])
    trainer = GRPOTrainer(
        model=model, reward_funcs=short_is_good, args=config, train_dataset=data, processing_class=words
    )
    trainer.train()
    if rank == 0:
        total = sum(float(weight.double().sum()) for weight in model.parameters())
        print(f"weights {total:.12f}")
    elif slept_s:
        print(f"slept {slept_s:.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
