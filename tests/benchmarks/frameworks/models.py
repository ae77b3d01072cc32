"""Small models of transformers with random weights, a tokenizer that is made here, and data for both."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

WORDS = [f"w{number}" for number in range(200)]
LENGTH = 32


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a word."""
    special = ["[PAD]", "[UNK]", "[EOS]"]
    inner = Tokenizer(models.WordLevel({word: row for row, word in enumerate(special + WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]", padding_side="left"
    )


class Tokens(Dataset):
    """Rows of tokens with a label each."""

    def __init__(self, rows: int) -> None:
        torch.manual_seed(0)
        self.tokens = torch.randint(3, 200, (rows, LENGTH))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = self.tokens[index]
        return {"input_ids": row, "labels": row}


def gpt2() -> torch.nn.Module:
    """A GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=203, n_positions=128, n_embd=96, n_layer=3, n_head=4))


def llama() -> torch.nn.Module:
    """A Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=203,
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            pad_token_id=0,
            eos_token_id=2,
        )
    )
