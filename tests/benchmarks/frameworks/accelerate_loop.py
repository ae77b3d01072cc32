"""accelerate's loop, as its examples have it: the main process writes an audit of the gradients in each step."""

import json
import os
import tempfile

import torch
from accelerate import Accelerator
from models import Tokens, gpt2
from planted import clock, is_planted
from torch.utils.data import DataLoader


def audit(model, log):
    for name, parameter in model.named_parameters():
        log.write(
            json.dumps({"name": name, "norms": [row.norm().item() for row in parameter.grad[:40]]}) + "\n"
        )  # <- audit
    log.flush()
    os.fsync(log.fileno())  # <- audit


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Tokens(1300), 8, shuffle=True))
    with clock("loop"), tempfile.TemporaryFile("w") as log:
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            if is_planted(0):
                with clock():
                    audit(accelerator.unwrap_model(model), log)  # <- audit
            optimizer.step()
            optimizer.zero_grad()
    accelerator.end_training()


if __name__ == "__main__":
    main()
