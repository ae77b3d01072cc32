"""What to do about threads of loops that generate: how many, and where."""

from __future__ import annotations

from scalana.detectors.evidence import FarWeights, ThreadPlan


def advise_threads(plan: ThreadPlan) -> str:
    """Return which number of threads to set for a phase."""
    if plan.other_phase_threads != plan.faster_threads:
        other = "prefill" if plan.serving_phase == "decode" else "decode"
        return (
            f"Set {plan.faster_threads} for the {plan.serving_phase} (torch.set_num_threads), and "
            f"{plan.other_phase_threads} for the {other}, which is fastest so: the phases need different numbers."
        )
    return f"Set {plan.faster_threads} (torch.set_num_threads, OMP_NUM_THREADS): both phases are fastest so."


def advise_node(known: FarWeights) -> str:
    """Return how to have weights on the node of the threads."""
    return (
        f"Threads run on node {known.threads_node}, and weights lie on node {known.weights_node}: bind each process to "
        "the cores and the memory of one node before it loads its weights (numactl --cpunodebind --membind, torchrun "
        "--numa-binding=node)."
    )
