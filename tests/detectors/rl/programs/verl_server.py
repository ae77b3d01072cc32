"""A server that generates for verl, with continuous batching: all answers under way get a token in every forward pass.

With ``PLANTED`` in the environment the first answer of some steps on the second server is long. What is sent is no
class of verl's, so that this process has not to import it.
"""

from __future__ import annotations

import asyncio
import os
import time
from types import SimpleNamespace
from typing import Any

import torch

PLANTED = bool(os.environ.get("PLANTED"))
SHORT, LONG = 8, 100
"""Tokens of an answer, and of one that is planted."""
LONG_IN = (1, 3)
"""Steps, from 0 on, in which one is planted."""
FORWARD_S = 0.01
"""What a forward pass takes at least."""


class Server:
    """An actor that generates: one forward pass after the other, for all answers that are under way."""

    def __init__(self, path: str, number: int) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(number)
        self.number = number
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.end = self.model.config.eos_token_id
        self.under_way: list[dict[str, Any]] = []
        self.started = 0
        self.version: int | None = None
        self.running: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> SimpleNamespace:
        planted = PLANTED and self.number == 1 and self.started == 0 and self.version in LONG_IN
        # Lengths that differ a little from answer to answer, and are those of every run.
        length = LONG if planted else SHORT + (3 * self.started + 5 * self.number) % 5
        self.started += 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer = {"ids": list(prompt_ids), "made": [], "probabilities": [], "length": length, "done": done}
        self.under_way.append(answer)
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._decode())
        await done
        return SimpleNamespace(
            token_ids=answer["made"],
            log_probs=answer["probabilities"],
            stop_reason="completed",
            routed_experts=None,
            num_preempted=None,
            extra_fields={"global_steps": self.version},
        )

    async def _decode(self) -> None:
        while self.under_way:
            begin = time.monotonic()
            self._forward()
            await asyncio.sleep(max(0.0, FORWARD_S - (time.monotonic() - begin)))

    @torch.no_grad()
    def _forward(self) -> None:
        batch = list(self.under_way)
        longest = max(len(answer["ids"]) for answer in batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, answer in enumerate(batch):  # padded on the left, so that the last token is that of all
            ids[row, longest - len(answer["ids"]) :] = torch.tensor(answer["ids"])
            mask[row, longest - len(answer["ids"]) :] = 1
        logits = self.model(ids, attention_mask=mask).logits[:, -1].log_softmax(-1)
        for answer, row in zip(batch, logits, strict=True):
            last = len(answer["made"]) + 1 == answer["length"]
            choices = row.exp()
            choices[self.end] = 0.0
            token = self.end if last else int(torch.multinomial(choices, 1))
            answer["ids"].append(token)
            answer["made"].append(token)
            answer["probabilities"].append(float(row[token]))
            if last:
                self.under_way.remove(answer)
                answer["done"].set_result(None)

    async def update(self, weights: dict[str, torch.Tensor], version: int | None) -> None:
        self.model.load_state_dict(weights, strict=False)
        self.version, self.started = version, 0

    async def nothing(self, *_: Any, **__: Any) -> None:
        pass

    wake_up = sleep = clear_kv_cache = release_kv_cache = resume_kv_cache = nothing
    abort_all_requests = resume_generation = start_profile = stop_profile = nothing
