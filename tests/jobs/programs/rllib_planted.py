"""What is slow in ``rllib_loop.py``: where its actors find it, too."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2

RUNNERS, STEPS = 3, 20
STEP_S, SLOW_STEP_S, SLOW_LOSS_S, SLOW_BATCH_S, EVALUATION_S = 0.004, 0.016, 0.1, 0.3, 0.03
LARGE = 24_000_000
"""Weights of the large model, of four bytes each."""


def wrote(truth: str, what: str, seconds: float) -> None:
    with Path(truth, f"{what}-{os.getpid()}").open("a", encoding="utf-8") as file:
        file.write(f"{seconds}\n")


class Sleepy(gymnasium.Env[Any, Any]):
    """Episodes of so many steps, each of which takes a while."""

    def __init__(self, config: Any) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.truth, self.left = config["truth"], 0
        self.slow_s = SLOW_STEP_S if "env" in config["planted"] and config.worker_index == RUNNERS else 0.0
        if config["evaluates"]:
            self.slow_s = EVALUATION_S

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.left = STEPS
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        time.sleep(STEP_S)
        if self.slow_s:
            began = time.perf_counter()
            time.sleep(self.slow_s)  # slow environment
            wrote(self.truth, "env", time.perf_counter() - began)
        return np.full(4, 0.1, np.float32), 1.0, self.left <= 0, False, {}


class SlowLoss(PPOTorchLearner):
    """A learner whose second process takes longer."""

    def compute_loss_for_module(self, *, module_id: Any, config: Any, batch: Any, fwd_out: Any) -> Any:
        if self.config.learner_config_dict.get("slow") and torch.distributed.get_rank() == 1:
            began = time.perf_counter()
            time.sleep(SLOW_LOSS_S)  # slow learner
            wrote(self.config.learner_config_dict["truth"], "learner", time.perf_counter() - began)
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)


class SlowBatches(ConnectorV2):
    """A part of what makes batches that takes a while."""

    def __init__(self, truth: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.truth = truth

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        time.sleep(SLOW_BATCH_S)  # slow connector
        wrote(self.truth, "connector", time.perf_counter() - began)
        return batch


class Large(DefaultPPOTorchRLModule):
    """A model with weights that are of no use, but sent."""

    def setup(self) -> None:
        super().setup()
        self.ballast = torch.nn.Parameter(torch.zeros(LARGE), requires_grad=False)
