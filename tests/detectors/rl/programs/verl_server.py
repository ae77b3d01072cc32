"""A server that generates for verl, with continuous batching: all answers under way get a token in every forward pass.

Where that is planted, the first answer of every second step on the second server is long, or the answers to half of the
prompts are. What is sent is no class of verl's, so that this process has not to import it.
"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import torch
from verl_planted import planted

SHORT, OF_LONG_ROWS = 8, 40
"""Tokens of an answer, and of those to the first half of the prompts where rows are planted to be uneven."""
IN_A_STEP = 4
"""Answers that each server makes in a step."""
FORWARD_S = planted("token") or 0.01
"""What a forward pass takes at least."""


class Server:
    """An actor that generates: one forward pass after the other, for all answers that are under way."""

    def __init__(self, path: str, number: int, most: int) -> None:
        """``most`` tokens an answer has."""
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        torch.manual_seed(number)
        self.number, self.most = number, most
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.end = self.model.config.eos_token_id
        self.under_way: list[dict[str, Any]] = []
        self.started = 0
        self.version: int | None = None
        self.running: asyncio.Task[None] | None = None

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> SimpleNamespace:
        # Lengths that differ a little from answer to answer, and are those of every run.
        length = SHORT + (3 * self.started + 5 * self.number) % 5
        if self.number == 1 and self.started == 0 and (self.version or 0) % 2 == 1:
            length = max(length, round(planted("long")))
        if planted("rows") and 2 * self.started < IN_A_STEP:
            length = OF_LONG_ROWS
        length = min(length, self.most)
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
