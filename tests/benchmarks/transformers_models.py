"""Models of the package transformers, small, each with what to call it with; made from their configurations."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    LongformerConfig,
    LongformerModel,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    ResNetConfig,
    ResNetForImageClassification,
)

Called = tuple[torch.nn.Module, dict[str, Any]]
DECODER = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "use_cache": False,
}


def _tokens(length: int = 16) -> dict[str, Any]:
    return {"input_ids": torch.zeros(2, length, dtype=torch.int64)}


def llama() -> Called:
    """A decoder."""
    return LlamaForCausalLM(LlamaConfig(**DECODER, intermediate_size=192)), _tokens()


def mixtral() -> Called:
    """A decoder with experts, whose products are one operator."""
    return MixtralForCausalLM(MixtralConfig(**DECODER, intermediate_size=128, num_local_experts=4)), _tokens()


def mixtral_loop() -> Called:
    """The same with a loop over those experts that get tokens."""
    config = MixtralConfig(**DECODER, intermediate_size=128, num_local_experts=4)
    config._experts_implementation = "eager"
    return MixtralForCausalLM(config), _tokens()


def qwen_moe() -> Called:
    """Another decoder with experts."""
    experts = {"moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "head_dim": 16}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**DECODER, intermediate_size=128, **experts)), _tokens()


def resnet() -> Called:
    """Convolutions."""
    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64], depths=[1, 1, 1], layer_type="basic", num_labels=10
    )
    return ResNetForImageClassification(config), {"pixel_values": torch.zeros(2, 3, 32, 32)}


def longformer() -> Called:
    """Asks in its forward whether any token has global attention."""
    config = LongformerConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=256,
        attention_window=16,
    )
    return LongformerModel(config), _tokens(32)


def llama_prompt() -> Called:
    """A decoder that returns a cache of keys and values."""
    return LlamaForCausalLM(LlamaConfig(**DECODER | {"use_cache": True}, intermediate_size=192)), _tokens()


def llama_decode() -> Called:
    """The same for one more token, with such a cache."""
    model, _ = llama_prompt()
    cache = DynamicCache(config=model.config)
    for layer in range(2):
        cache.update(torch.zeros(2, 2, 16, 16), torch.zeros(2, 2, 16, 16), layer)
    return model, _tokens(1) | {"past_key_values": cache}
