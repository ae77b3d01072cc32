"""What to do about what all ranks spend."""

from __future__ import annotations

from scalana.detectors.evidence import InputBound


def advise(bound: InputBound, cores: int) -> str:
    """What to change of the loader, as far as it would help."""
    if not bound.predicted_workers:
        return (
            f"More DataLoader workers would not help: their work already takes {_all(cores)} that a rank may use. Do "
            "less work per sample (smaller inputs, cached or preprocessed data), or use more cores."
        )
    return (
        f"Load the data with more worker processes: DataLoader(num_workers={bound.predicted_workers[-1]}). Or do less "
        "work per sample: cache or preprocess the data."
    )


def _all(cores: int) -> str:
    return f"all {cores} cores" if cores > 1 else "the one core"
