"""Words about pipelines: what to do about causes, what predictions change, and notes about how one was read."""

from __future__ import annotations

RUN_INSTEAD = "Run {other} instead"
SPLITS_BACKWARD = (
    " It splits the backward, assuming that the halves cost no more than the whole. Recomputing activations breaks "
    "this assumption."
)
"""About another schedule."""
SPLIT_LAYERS = "Split the layers {split} over the stages"
TOO_LARGE = (
    "No split of the layers helps: {wall} is too large for one rank. Make it cheaper, or split it (a vocabulary over "
    "several ranks, a layer into two modules)."
)
A_LAYER = "a single layer"
"""What is too large, where its name is not known."""
ALL_LINKS = (
    "All links are equally slow: use isend, post irecv early, or send less: fewer and larger microbatches, a smaller "
    "type."
)
LOAD_AHEAD = "Load input data ahead of the step: use more DataLoader workers, or prefetching."

SLOW_WORKER = (
    "The same stage is faster in the other replicas, so the split of the layers is not the cause: compare its "
    "device and host with theirs (clock, temperature, other processes), or use other ones."
)

LINK = "from rank {} to rank {}"
SOME_MICROBATCHES = "some microbatches, not always the same"

CHANGES = {
    "no-straggler": "no microbatch takes longer on one stage than usual",
    "equal-lengths": "all microbatches have the usual length",
    "zero-latency": "messages take no time",
    "no-host-gaps": "the host adds no delay",
    "equal-load": "all ranks have the same load",
    "microbatches": "{more} microbatches of this size per step, in the time of {now}",
    "plan": "{stages} stages on {ranks} ranks, partition, placement and order chosen together",
}
"""What is changed in a prediction, by its key."""
BOUND = {True: "no cut, placement or order is faster", False: "no order is faster with these stages"}
"""What the bound of all predictions means, by whether layers are known."""

ON_DEVICES = (
    "times are device times, in {} of {} steps, from marks on their streams; a step lasts from the first action on a "
    "device to the last"
)
ON_HOSTS = (
    "times are launch times of the hosts, which run ahead of their devices: no step has device marks on all ranks, "
    "so the time between actions is not explained"
)
SENDS_FREE = "sends are assumed not to block: the order could not run otherwise"
LAYERS_ALONE = (
    "layers do not add up to the time of their stages ({}): a new split assumes that the rest moves with them"
)
BEGAN_LATER = "microbatches of the first step start at the program's number {0}: before, not all ranks took part"
DOUBTFUL = (
    "the schedule is unknown: ranks may hold several stages each, with fewer microbatches; results for whole ranks "
    "hold either way"
)
"""Notes about how a pipeline was read."""
