"""Libraries that start processes and call them as those of the standard library do: they are recorded alike."""

from __future__ import annotations

LIKE_MULTIPROCESSING = ("multiprocessing", "multiprocess")
"""Packages with the modules of ``multiprocessing``: the other one pickles by dill (``map(num_proc=)`` of Hugging Face
datasets)."""
_LOKY = ("loky", "joblib.externals.loky")
EXECUTORS = ("concurrent.futures.process", *(f"{package}.process_executor" for package in _LOKY))
"""Modules with a ``ProcessPoolExecutor``."""
LOKY_QUEUES = tuple(f"{package}.backend.queues" for package in _LOKY)
"""Those by which loky pickles."""

OF_POOLS = frozenset((*(f"{package}.pool" for package in LIKE_MULTIPROCESSING), *EXECUTORS))
"""Modules of pools: whoever waits for a process there waits for the pool."""
DETAILS = OF_POOLS | {
    f"{package}.{module}"
    for package in LIKE_MULTIPROCESSING
    for module in ("managers", "forkserver", "resource_sharer")
}
"""Modules whose messages are details of what is recorded otherwise."""
QUEUES = (*(f"{package}.queues" for package in LIKE_MULTIPROCESSING), *LOKY_QUEUES)
"""Modules of queues, by way of which others put and get."""
HELPERS = (
    "torch.utils.data.",
    *(f"{package}.{module}" for package in LIKE_MULTIPROCESSING for module in ("managers", "resource_sharer")),
)
"""What the targets of processes that are details of a library begin with."""
