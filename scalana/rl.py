"""Marks for training by reinforcement learning whose trainer is not known: ``scalana.rl.phase("rollout")``."""

from __future__ import annotations

from scalana.runtime.rl.marks import phase, trajectory, weights

__all__ = ["phase", "trajectory", "weights"]
