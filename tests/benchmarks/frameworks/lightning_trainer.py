"""Lightning's Trainer and its demo of a Transformer: lightning_trainer.py callback|dataset."""

import sys
import time
import warnings

import lightning as L
import torch
from lightning.pytorch.demos import Transformer
from planted import clock, computing, is_planted
from torch.utils.data import DataLoader, Dataset

CASE = sys.argv[1]
warnings.filterwarnings("ignore")


class Words(Dataset):
    def __len__(self):
        return 1300

    def __getitem__(self, index):
        if is_planted(1) and CASE == "dataset":
            with clock():
                time.sleep(0.005)  # <- dataset
        row = torch.arange(index, index + 33) % 200
        return row[:-1], row[1:]


class Language(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Transformer(vocab_size=200, ninp=96, nhead=4, nhid=96, nlayers=2)

    def training_step(self, batch, number):
        source, target = batch
        return torch.nn.functional.nll_loss(self.model(source, target), target.reshape(-1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class Norms(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        if is_planted(1) and CASE == "callback":
            with clock():
                computing(0.04)  # <- callback


def main():
    torch.set_num_threads(1)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Norms()],
    )
    with clock("loop"):
        trainer.fit(Language(), DataLoader(Words(), 8))


if __name__ == "__main__":
    main()
