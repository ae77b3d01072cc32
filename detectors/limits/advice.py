"""What to do about what all ranks spend."""

from __future__ import annotations

from scalana.detectors.evidence import InputBound, Transfers

ADVICE = {
    "collection-bound": "Call gc.freeze() after the set-up, so that the collector skips the objects that exist by "
    "then, and collect less often: every N steps, on all ranks in the same ones.",
    "write-bound": "Write less often, write less (no optimizer state, fewer copies), or let a background thread or "
    "process write a copy while the next steps run (torch.distributed.checkpoint.async_save).",
    "lock-bound": "Threads or processes take turns at this lock: do less while it is held, or give each its own data.",
    "pickle-bound": "Send less through pickle: send tensors or arrays instead of objects, or shared memory.",
    "program-bound": "All ranks wait for a program that they start here: start it once, earlier, or in the background.",
    "read-bound": "All ranks wait for input here: read ahead in a background thread, or read larger pieces.",
    "core-bound": "Use fewer threads or processes than cores: OMP_NUM_THREADS or torch.set_num_threads() for each "
    "rank, num_workers of the loaders, the number of ranks. Or use more cores.",
}
"""By kind."""


ADVICE_COMBINE = "Combine the calls of a step into fewer (one flat buffer, larger buckets)."
ADVICE_FEWER_BYTES = "Send fewer bytes (a smaller data type, gradients accumulated over more microbatches)."
ADVICE_OVERLAP = "Or send while the ranks compute."


def advise_transfers(transfers: Transfers) -> str:
    """What to change of communication, what saves more first."""
    some = [(transfers.half_bytes_step_s, ADVICE_FEWER_BYTES)]
    if round(transfers.step_calls) > 1:
        some.append((transfers.in_one_call_step_s, ADVICE_COMBINE))
    return " ".join([*(text for _, text in sorted(some)), ADVICE_OVERLAP])


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
