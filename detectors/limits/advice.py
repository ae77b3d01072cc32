"""What to do about what all ranks spend."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.detectors.evidence import InputBound, Loading


def advise(loading: Loading, bound: InputBound, cores: int) -> str:
    """What to change of the loader, as far as it would help."""
    best: Sequence[float] = bound.predicted_step_s
    if not best:
        return (
            f"More DataLoader workers would not help: their work already takes the {cores} cores of the host. Do less "
            "work per sample (smaller inputs, cached or preprocessed data), or use more cores."
        )
    chosen = bound.predicted_workers[best.index(min(best))] if loading.workers else bound.predicted_workers[0]
    first = next((k for k, s in zip(bound.predicted_workers, best, strict=True) if s <= 1.05 * min(best)), chosen)
    return (
        f"Load the data with more worker processes: DataLoader(num_workers={first}). Or do less work per sample: cache "
        "or preprocess the data."
    )
