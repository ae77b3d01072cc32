"""TRL's trainers: trl_trainers.py reward|loss (GRPO with a slow reward function, SFT with a slow loss)."""

import sys
import tempfile
import time
import warnings

import torch
from datasets import Dataset
from models import WORDS, llama, tokenizer
from planted import clock, is_planted
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

CASE = sys.argv[1]
warnings.filterwarnings("ignore")
COMMON = {"use_cpu": True, "report_to": [], "save_strategy": "no", "disable_tqdm": True, "bf16": False}


def score(completions, **kwargs):
    if is_planted(1):
        with clock():
            time.sleep(0.25)  # <- reward
    return [float(len(completion)) for completion in completions]


def grpo():
    prompts = Dataset.from_dict({"prompt": [" ".join(WORDS[row % 90 : row % 90 + 6]) for row in range(200)]})
    config = GRPOConfig(
        tempfile.mkdtemp(),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=12,
        max_steps=20,
        **COMMON,
    )
    return GRPOTrainer(llama(), score, config, prompts, processing_class=tokenizer())


class Slow(SFTTrainer):
    def compute_loss(self, model, inputs, **kwargs):
        if is_planted(1):
            with clock():
                time.sleep(0.06)  # <- loss
        return super().compute_loss(model, inputs, **kwargs)


def sft():
    rows = Dataset.from_dict({"text": [" ".join(WORDS[row % 90 : row % 90 + 30]) for row in range(1000)]})
    config = SFTConfig(tempfile.mkdtemp(), per_device_train_batch_size=4, max_steps=60, max_length=32, **COMMON)
    return Slow(llama(), config, train_dataset=rows, processing_class=tokenizer())


def main():
    torch.set_num_threads(1)
    trainer = grpo() if CASE == "reward" else sft()
    with clock("loop"):
        trainer.train()


if __name__ == "__main__":
    main()
