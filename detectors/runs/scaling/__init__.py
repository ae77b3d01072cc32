"""Scaling loss: what grows with the number of ranks, or does not shrink as it should, and why."""

from __future__ import annotations

from scalana.detectors.runs.scaling.detector import JobPrediction, Scaling, ScalingError, Size, detect

__all__ = ["JobPrediction", "Scaling", "ScalingError", "Size", "detect"]
