"""Layers of a model whose stages a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray


@dataclass(frozen=True)
class Layers:
    """What is known of the layers of the model."""

    names: tuple[str, ...]
    cost_s: FloatArray
    """Seconds of a microbatch by kind and layer, in whatever proportion: they are scaled to what their stage takes
    ``[4, layers]``."""
    cut: IntArray
    """The first layer of every stage, and the number of layers ``[stages + 1]``."""
    share: FloatArray = field(default_factory=lambda: np.zeros(0))
    """How much of what each stage took its layers are, where they were scaled to that ``[stages]``."""
