"""transformers' Trainer: trainer.py collator|callback."""

import os
import sys
import tempfile
import time

import torch
from models import Tokens, gpt2
from planted import clock, computing, is_planted
from transformers import Trainer, TrainerCallback, TrainingArguments

CASE = sys.argv[1]


class Collator:
    def __call__(self, rows):
        if is_planted(1) and CASE == "collator":
            with clock():
                computing(0.04)  # <- collator
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


class Telemetry(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if is_planted(0) and CASE == "callback":
            with clock():
                time.sleep(0.05)  # <- callback


def main():
    torch.set_num_threads(1)
    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        max_steps=80,
        per_device_train_batch_size=8,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=40,
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
    )
    trainer = Trainer(gpt2(), arguments, Collator(), Tokens(4000), callbacks=[Telemetry()])
    with clock("loop"):
        trainer.train()


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    main()
