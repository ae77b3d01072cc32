"""GRPO by TRL on a tiny model made from a configuration, on CPUs: a user's program, which knows nothing of scalana.

    torchrun --standalone --nproc-per-node 2 grpo.py OUTPUT verifier|tail

With ``verifier`` rank 1 takes 0.4 s to score its answers, and writes how long in all to OUTPUT/slept; with ``tail`` its
answers are long. Rank 0 writes the sum of the weights in the end to OUTPUT/weights.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import tiny_llama
import torch
from datasets import Dataset
from tokenizers import pre_tokenizers
from trl import GRPOConfig, GRPOTrainer

STEPS, ROWS, MOST = 4, 4, 96
SLOW_S = 0.4


def main(output: str, planted: str) -> None:
    os.makedirs(output, exist_ok=True)
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
    # Not to the output, where what ranks print may come in the middle of another's line.
    if rank == 0:
        total = sum(float(weight.double().sum()) for weight in model.parameters())
        Path(output, "weights").write_text(f"{total:.12f}")
    elif slept_s:
        Path(output, "slept").write_text(f"{slept_s:.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
