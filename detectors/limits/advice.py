"""What to do about what all ranks spend."""

from __future__ import annotations

from scalana.detectors.evidence import (
    CHILDREN,
    PYTHON_THREADS,
    THREADS,
    THREADS_OF_CHILDREN,
    BusyCores,
    InputBound,
    SlowSource,
    StepLimit,
    TaskTail,
    Transfers,
    WorkerBound,
)
from scalana.detectors.thresholds.shares import WORTH_IF_ONCE
from scalana.detectors.whatif.slow_links import Reach

ADVICE = {
    "collection-bound": "Call gc.freeze() after the set-up, so that the collector skips the objects that exist by "
    "then, and collect less often: every N steps, on all ranks in the same ones.",
    "write-bound": "Write less often, write less (no optimizer state, fewer copies), or let a background thread or "
    "process write a copy while the next steps run (torch.distributed.checkpoint.async_save).",
    "gil-bound": "Python code of one process runs in one thread at a time. Do this in a process of its own "
    "(multiprocessing.Process, ProcessPoolExecutor), less often, or in code that releases the interpreter's lock "
    "(numpy, torch, zlib).",
    "python-bound": "Python runs these loops one short turn after the other. Work on whole arrays or tensors instead "
    "(numpy, torch), do it once ahead and keep the result, or do it in worker processes (DataLoader(num_workers=...)).",
    "lock-bound": "Threads or processes take turns at this lock: do less while it is held, or give each its own data.",
    "pickle-bound": "Send less through pickle: send tensors or arrays instead of objects, or shared memory.",
    "program-bound": "All ranks wait for a program that they start here: start it once, earlier, or in the background.",
    "read-bound": "All ranks wait for input here: read ahead in a background thread, or read larger pieces.",
    "compile-bound": "Mark what changes as dynamic (torch.compile(dynamic=True), torch._dynamo.mark_dynamic), pad "
    "inputs to few shapes, and keep Python values that change out of compiled functions.",
    "sync-bound": "Leave out this wait: keep values on the device (sum losses there), read them every N steps only, or "
    "copy them with non_blocking=True and read them one step later. Call synchronize() only to measure time.",
    "launch-bound": "Launch fewer and longer kernels: torch.compile(mode='reduce-overhead') or a CUDA graph, fused "
    "operators and optimizers (fused=True, foreach=True), larger batches.",
    "host-bound": "Do this ahead of time: in worker processes of the loader, in a background thread, or after the "
    "launches of a step, while the device works. If it mostly launches kernels, use torch.compile or a CUDA graph.",
    "copy-bound": "Copy batches while the device computes: DataLoader(pin_memory=True), to(device, non_blocking=True), "
    "and the next batch on a stream of its own. Or send less: smaller data types, and conversion on the device.",
    "device-bound": "Make these kernels cheaper (a smaller data type, torch.compile, fused or flash attention), or use "
    "more devices.",
}
"""By kind."""


KEEP_WORKERS = (
    "Keep the workers of this loader from epoch to epoch: DataLoader(persistent_workers=True). If they are spawned, "
    "let them import less."
)
"""Where workers are started anew in each epoch."""


SPARED = {
    "reduced-again": "reductions of gradients",
    "buffers": "broadcasts of the model's buffers, before each forward pass",
    "unused": "reductions of which parameters have a gradient",
    "barriers": "barriers",
    "objects": "collectives of Python objects, which they pickle",
    "single-numbers": "collectives of single numbers",
}
ADVICE_SPARED = {
    "reduced-again": "Reduce gradients only after the last microbatch of a step: run the others within "
    "`with model.no_sync():` (set_requires_gradient_sync(False) with FSDP2).",
    "buffers": "Switch these off with DistributedDataParallel(broadcast_buffers=False), in newer versions "
    "forward_sync_buffers=False, if ranks need no equal buffers in training (constants, BatchNorm in eval mode).",
    "unused": "Leave out find_unused_parameters=True where all parameters get gradients, or use static_graph=True "
    "where the same ones do in each step: the search through the graph goes, too.",
    "barriers": "Remove the barrier: collectives wait for each other by themselves. It is needed only where ranks wait "
    "for something else, such as a file of another rank.",
    "objects": "Send tensors instead of objects, and only what is needed, every N steps, or once at the end.",
    "single-numbers": "Reduce these numbers in one call (one tensor or array) and less often (every N steps), or start "
    "the call early and wait for it later (async_op=True, MPI_Iallreduce).",
}
"""Calls that a program could do without, in words, and how."""

ADVICE_COMBINE = {
    "buckets": "Reduce gradients in fewer calls: larger buckets (bucket_cap_mb of DistributedDataParallel).",
    "messages": "Send one message to each rank instead: pack what goes to it into one buffer, or a derived datatype.",
    "calls": "Combine the calls of a step into fewer: one flat buffer, larger buckets.",
}
"""By what they are."""
ADVICE_FEWER_BYTES = "Send fewer bytes (a smaller data type, gradients accumulated over more microbatches)."
ADVICE_OVERLAP = "Or send while the ranks compute."


ADVICE_TRANSFERS = f"{ADVICE_FEWER_BYTES} {ADVICE_COMBINE['calls']} {ADVICE_OVERLAP}"
"""Where it is not known which helps more."""


def advise_transfers(transfers: Transfers, limit: StepLimit, calls: str) -> str:
    """What to change of communication, what saves more first; ``calls`` is what they are."""
    some = [(transfers.half_bytes_step_s, ADVICE_FEWER_BYTES)]
    if round(transfers.calls_in_one) > 1:
        some.append((transfers.in_one_call_step_s, ADVICE_COMBINE[calls]))
    (_, first), *more = sorted(some)
    step_s = limit.step_s or limit.run_s or 0.0
    worth = [text for left_s, text in more if step_s - left_s >= WORTH_IF_ONCE * step_s]
    return " ".join([first, *worth, ADVICE_OVERLAP])


def advise(bound: InputBound, cores: int, unused: int) -> str:
    """What to change of the loader, as far as it would help. Ranks may use some ``cores`` of a host, and others are
    ``unused``."""
    if not bound.predicted_workers:
        return (
            f"More DataLoader workers would not help: their work already takes {_all(cores)} that a rank may use. Do "
            f"less work per sample (smaller inputs, cached or preprocessed data), or {_more_cores(unused)}."
        )
    return (
        f"Load the data with more worker processes: DataLoader(num_workers={bound.predicted_workers[-1]}). Or do less "
        "work per sample: cache or preprocess the data."
    )


A_MESSAGE = "a message"
"""What moves over a link, where it is no collective."""
LINKS = {
    Reach.PAIR: "The link between {0} and {1}",
    Reach.WAY: "The link from {0} to {1}",
    Reach.HOST: "The network of {0}",
    Reach.OUT: "The outgoing network of {0}",
    Reach.INTO: "The incoming network of {0}",
    Reach.AMONG: "The network among {most} and {last}",
}
"""Names of slow links."""


def link_name(reach: Reach, hosts: tuple[str, ...]) -> str:
    """What a slow link is called.

    >>> link_name(Reach.AMONG, ("a", "b", "c"))
    'The network among a, b and c'
    """
    return LINKS[reach].format(*hosts, most=", ".join(hosts[:-1]), last=hosts[-1])


LOAD_AHEAD = (
    "Load batches ahead: more worker processes of the DataLoader (num_workers, prefetch_factor), less work per sample, "
    "and pin_memory=True with non_blocking copies."
)
"""Where it is not known how many workers load."""


_OTHER_LOADING = {
    "dealt-evenly": "Deal the samples of `{source}` out over the ranks in each step, so that all load the same number, "
    "instead of a whole batch on one rank.",
    "in-every-batch": "Put the same share of `{source}` into every batch, instead of batches of this source alone.",
    "more-workers": "Load with more workers: DataLoader(num_workers={workers}).",
    "own-workers": "Give `{source}` a DataLoader with workers of its own, and join its samples with the others in the "
    "training loop.",
    "further-ahead": "Load more batches ahead: DataLoader(prefetch_factor=...) twice as large.",
}
"""By what would change."""


def advise_source(known: SlowSource) -> str:
    """What to change of how a source is loaded, and of itself."""
    cheaper = f"Or make a sample of `{known.source}` cheaper: preprocess, cache or shrink it."
    if not known.other_loading:
        return cheaper.removeprefix("Or ").capitalize()
    text = _OTHER_LOADING[known.other_loading[0].change]
    return f"{text.format(source=known.source, workers=2 * known.source_workers or 1)} {cheaper}"


CALL_AHEAD = (
    "If a call does not need the result of the one before, make all calls first, and ask for their results afterwards "
    "(a list of references or futures, Pool.map, Executor.map)."
)
"""Where calls are made one at a time."""


def advise_workers(bound: WorkerBound) -> str:
    """What to change of a pool that is too slow."""
    return (
        f"Use more of them: {bound.predicted_workers[-1]} instead of {bound.workers}. Or let the process that waits "
        "hand out the next work before it needs the results, and do its own meanwhile."
    )


def advise_tail(tail: TaskTail) -> str:
    """Return what to do about the last calls of a pool."""
    if tail.longest_first_s >= tail.halves_s:
        return "Submit the calls that take longest first, as far as that is known (by the size of an argument)."
    if tail.longest_first_s > 0.0:
        return "Submit the calls that take longest first, if that is known, or cut them into smaller ones."
    return "Cut the longest calls into smaller ones: in any order the pool waits for them."


_FEWER = {
    THREADS: "Set OMP_NUM_THREADS={share} for each rank (for NumPy, OPENBLAS_NUM_THREADS or MKL_NUM_THREADS), or call "
    "torch.set_num_threads({share}): as many threads as there are cores for a rank. That saves what threads lose by "
    "waiting for each other, and not what more cores would save.",
    PYTHON_THREADS: "Let fewer Python threads compute at a time (max_workers of thread pools).",
    CHILDREN: "Use fewer child processes that compute at a time.",
    THREADS_OF_CHILDREN: "Set OMP_NUM_THREADS=1 (for NumPy, OPENBLAS_NUM_THREADS or MKL_NUM_THREADS) before child "
    "processes start: each of them starts threads of its own.",
    None: "Use fewer threads or processes than cores.",
}
"""By what computes next to the main threads of ranks."""
_FEWER_WORKERS = "Use fewer workers in the loaders: DataLoader(num_workers=...), or let them do less per sample."


def advise_cores(busy: BusyCores, has_loader: bool) -> str:
    """What to change where a job keeps all its cores busy."""
    fewer = _FEWER[busy.computing].format(share=max(busy.host_cores // busy.host_ranks, 1))
    if busy.computing == CHILDREN and has_loader:
        fewer = _FEWER_WORKERS
    more = _more_cores(busy.unused_cores or 0)
    return f"{more[0].upper()}{more[1:]}. Or else: {fewer}" if busy.unused_cores else f"{fewer} Or {more}."


def _more_cores(unused: int) -> str:
    """How to get more cores, where some of a host are ``unused``."""
    if not unused:
        return "use more cores"
    others = f"the {unused} other cores" if unused > 1 else "the other core"
    return f"let ranks use {others} of their host (mpirun --bind-to none, srun --cpus-per-task, taskset)"


def _all(cores: int) -> str:
    return f"all {cores} cores" if cores > 1 else "the one core"
