"""Numbers from which something is known, common or large."""

SEVERAL = 2
"""Calls, workers or trajectories that are several.

Why: More than one.

- `call_pools`: workers of a call from which they are a pool
- `dealing`: calls of a process in a step from which trajectories are handed out one by one, and trajectories in a call
  from which they are not
- `named_phases`: steps of a loop that nobody marked, and those in which answers are scored, or weights go back
- `rounds`: times that each rank is at a place, from which they do it again and again
- `one_at_a_time`: processes that could work at the same time
- `worker_bound`: rounds of calls from which one to the next is a step
- `worker_groups`: calls that are handed over at a line, from which more workers can be predicted for
- `spared_calls`: forward passes of a step after which gradients are reduced more often than once
- `slow_source`: steps with and without a source, and workers, that are compared
- `task_tails`: threads that are a pool, and calls
- `thread_plans`: requests with a number of threads, for it to be compared
"""
SHOWS_THE_USUAL = 3
"""Repetitions, ranks or sizes that show what is usual.

Why: Of two that differ, either may be the usual one.

- `contention`: stretches over which an excess must spread not to have come by chance
- `context_groups`: calls that each rank makes, below which nothing goes around a ring, or is gathered
- `head_exchanges`: attentions below which nothing shows that heads are exchanged
- `hand_written`: steps from which the first is set aside: nothing shows when its first forward began
- `messages`: equal steps that two ranks have to make, where nothing else shows training
- `models`: distinct numbers of ranks below which nothing is fitted
- `scaling.detector`: distinct numbers of ranks below which sizes are compared without a model
- `task_farms`: ranks of a pool that show what is usual
"""
WRAPPER_LINES = 3
"""Lines of straight code that do one thing.

Why: Prepare, call, return.

- `call_sites`
"""
SHOWS_THE_NOISE = 5
"""Repetitions from which noise, or what is ordinary, can be estimated.

Why: The mean of fewer is moved by one that stands out.

- `cost_trend`: values that a level has at least, and a twelfth of all: fewer are single steps that stand out
- `disturbed`: runs from which one of them can be taken for a disturbed one
- `models`: measurements from which one of them may be taken for an outlier
- `significance`: instances from which the noise of a place can be estimated
- `slow_ranks`: steps by which ranks that get slow together may be apart
- `task_farms`: pieces from which a rank is one of a pool
- `uneven_tasks`: pieces between the same two calls from which one knows what is ordinary, and large ones that are no
  accident
- `mixture`: batches of the steady state from which a mixture is looked at
"""
SHOWS_THE_SPREAD = 8
"""Values from which their distribution is known, and not only their mean.

Why: Quartiles of two values each.

- `messages`: messages along a line of which nothing comes back, from which on they are taken for a pipeline; but for
  one that is left out, as many are looked at
- `shrinkage`: bursts of a kind, at least, that show how each of them divides
- `streams`: messages from which a line may be a pipeline by itself
- `expert_waits`: loads of experts that were loaded before, from which a loop is looked at
"""
LEAST_KNEE = 8.0
"""Batch from which decoding counts as well used, whatever the model says.

Why: Below it, decoding reads all weights for few tokens.

- `decode`
"""
CUT_TRAJECTORIES = 8
"""Trajectories that exceed a cap on the length, about, in the prediction for one.

Why: A choice: enough for an average, and few of all.

- `loop_predictions`
"""
MANY = 10
"""Repetitions that are many.

Why: A choice: of fewer, a part that takes a tenth is often unseen.

- `communication`: calls of a step, of those that could be one, from which they are too many on any machine
- `named_line`: sampling periods that show in which parts of a function its time is spent
- `spared_calls`: calls of a step that it could do without, from which they are too many on any machine
"""
SMALL_LINES = 10
"""Lines of a function that is seen as a whole.

Why: A choice: it fits into one look.

- `named_line`
"""
PARTS_OF_A_SERIES = 12
"""Parts of a series, of which a level takes one at least.

Why: Shorter levels in long series are found by chance.

- `cost_trend`
"""
FEWEST_STEPS = 20
"""Steps from which on a change can be separated from chance.

Why: Of fewer, a busy machine makes what looks like one (`tests/benchmarks/trend_alarms.py`).

- `cost_trend`
- `slow_ranks`: half as many are enough in the last steps of a run that goes on
- `rank_work`: steps in which a rank must be slow
"""
