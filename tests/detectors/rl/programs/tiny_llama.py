"""A tiny Llama over words, made from a configuration: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<eos>", "<unk>")


def tokenizer(words: Sequence[str], splits: PreTokenizer) -> PreTrainedTokenizerFast:
    """One that has a token for each word."""
    known = {word: number for number, word in enumerate((*SPECIAL, *words))}
    made = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    made.pre_tokenizer = splits
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model(words: PreTrainedTokenizerFast, longest: int) -> LlamaForCausalLM:
    """A model for texts of so many tokens at most, with random weights."""
    configuration = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=longest,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(configuration)
