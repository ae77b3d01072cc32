"""How many times as long, as much or as large something is as what it is compared with."""

AS_LONG = 0.8
"""Factor from which something takes as long as the longest of its kind.

Why: One minus ORDINARY: what differs by less is like work.

- `rounds`: part of what ranks spend at a place from which others spend as long there
- `similar_ranks`: part of what a candidate's ranks spend at its place from which another rank takes as long there
- `task_farms`: part of what the others do that a slow rank may do, if pieces go to whoever is free
"""
AS_MUCH = 0.9
"""Factor from which something makes as much, or runs as fast, as what it is compared with.

Why: A choice: amounts are better known than lengths.

- `findings`: part of what the last of those makes from which another one makes as much
- `modules`: of the others' speed, below which the same work is slow
- `step_limits`: part of a host's cores that the job itself must keep busy to be limited by them
"""
SAME_SIZE = 1.02
"""Factor up to which two sizes, or numbers, are the same.

Why: A choice: padding makes like inputs differ.

- `head_exchanges`: times as large as usual that exchanges before attention may be, of those after it
- `length_costs`: one plus the deviation of tokens, as a part of their mean, up to which all ranks have equal tokens
- `more_work`: factor up to which two numbers of kernels, or sizes of inputs, are the same
- `rl.causes`: times the shortest trajectory of a step, up to which the longest is as long
- `late_devices`: factor up to which two numbers of kernels, or sizes of inputs, are the same
- `uneven_lengths`: times what slow ranks leave unexplained, up to which lengths explain as much
"""
SLOWER = 1.03
"""Factor from which a device, or a process in one step, is slow for the same work.

Why: A choice: more than SAME_SIZE.

- `named_phases`: times as long as usual in a step, from which a process takes longer in that one
- `rl.causes`: times as long in a single step, from which it counts as slow in that one
- `late_devices`: factor from which a device is slow
"""
SLOW_PROCESS = 1.08
"""Factor from which a process that generates is slow, over all steps, by a fitted model.

Why: A choice: more than SLOWER, as a model lies between.

- `decode`: times as long for the same work as others, from which a process is slow
- `findings`: times as long for one kind of work as for another, from which a process is slow in one of them only
- `named_phases`: times as long as others over all steps, from which it is not known what is longer
- `rl.causes`: times as long as the model says, from which a process is slow
- `rl.detector`: times as long as the model says, from which the report lists a process as slow
"""
LARGER_INPUT = 1.1
"""Factor from which the input of a module is larger than on other ranks.

Why: A choice: what is larger by less explains little.

- `findings.inside`: times as many elements as on other ranks, from which the report says that a module's input is
  larger
- `late_ranks.advice`: times the most tokens of a rank now, from which the advice says that packing makes them more
- `modules`: times as many operators, or as much work, as on other ranks, from which a module has more
- `head_exchanges`: times what comes back after attention, up to which exchanges may be those of experts with their
  routing
- `uneven_lengths`: times the tokens of the median rank up to which tokens are equal
- `uneven_sizes`: times the argument of the median rank, from which that of a rank is larger
- `thread_plans`: times the tokens of other requests, up to which prompts are as long
"""
HELD_UP = 1.2
"""Factor from which a microbatch took longer than usual: it was held up.

Why: As much as like work may differ (ORDINARY).

- `culprits`
- `even_work`: times what others of its stage take, from which a worker is a slow one
"""
COSTLY_LAYER = 1.3
"""Factor of what a layer usually costs, from which it is named.

Why: As much as stands out elsewhere (STANDS_OUT).

- `culprit_findings`
"""
COMPARABLE = 1.5
"""Factor up to which two amounts that should be equal may differ.

Why: A choice, for two threads of one core that both compute.

- `contention`: times the CPU time of others up to which a core accounts for the difference: its neighbour computes as
  well (two threads of one core), or other programs use it
- `findings`: times the median of its step, from which a trajectory is long
- `input_bound`: times the median that a rank may wait for data and be like the others
- `masked`: times that a cause may cost what its work lets all others wait, to be a cause by its work
- `module_times`: times what a finding's ranks spend more at its place that a module may take longer, to be named for
  it: what its place leads to may be another cause
- `slow_links`: times the seconds a byte of the fastest route up to which another one is as fast; and times what
  collectives take, up to which their connections may be busy
- `socket_links`: times the seconds a byte of the fastest way up to which another one is as fast
- `uneven_tasks`: times what is ordinary that a piece computes at most to be one like the others
- `worker_bound`: times as many rounds of calls as steps, up to which each is one
- `slow_source`: times what the median rank loads of a source, from which a rank is named
- `experts.detector`: times what the median rank waits for experts, up to which ranks are alike
"""
FAR_MORE = 2.0
"""Factor from which something is not like what it is compared with.

Why: More than two threads of one core, or a busy neighbour, make of equal work (COMPARABLE).

- `culprits`: times the latency of other links, from which a link is slow
- `description`: times the CPU seconds of other ranks from which it is another amount of work, not another share of a
  core
- `disturbed`: times that one place may be further off than another
- `late_ranks`: times the middle four fifths of the other ranks' starts that a rank must start after them, to be late by
  itself: five standard deviations, of normal ones
- `loss`: times the floor from which something was seen of a place at a size
- `roles`: times what is ordinary that a stretch computes which is not like the others
- `rounds`: times the time at a place from its first to its last moment, from which it is not one stay
- `slow_links`: times the seconds a byte of others from which a route is slow
- `socket_links`: the same of a way between hosts, by its connections
- `step_presence`: periods of the sampler that a step's cost must last, to be seen in each step that has any
- `task_farms`: times the median that a piece takes which is not like the others
- `uneven_tasks`: times what is ordinary that a piece computes which is not like the others
- `slow_source`: times what a sample of the other sources costs, and what other workers load of a source
- `task_tails`: times as long as the median call, from which a call is long
"""
BACKWARD_PER_FORWARD = 2.0
"""Seconds of a backward for each of its forward, where no rank shows them.

Why: Two products of matrices for one.

- `between_messages`
"""
DOUBLED = 2
"""Factor of what predictions try: processes, speed, pieces of a call.

Why: The smallest change of a whole number.

- `list_scheduling`: times as many places at which trajectories are generated
- `loop_predictions`: times as fast as a verifier is in the prediction
- `pools`: pieces into which each call is cut where pieces are smaller
- `remedies`: times as many processes that generate, or that train
- `worker_bound`: times as many workers
- `mixture`: times as many workers, or batches ahead
- `task_tails`: pieces into which long calls are cut, and times as many threads
- `expert_waits`: times as many experts in a cache, and from one number of layers ahead to the next
"""
NOT_THE_CORE = 3.0
"""Factor from which cores do not explain that a rank takes longer.

Why: The cores of one machine differ by less.

- `late_ranks.advice`
"""
LENGTHS = 4.0
"""Kinds of lengths for each doubling: bursts of one kind are as long as each other within a fifth.

Why: What a rank does too much of only now and then makes a burst longer, and another kind.

- `shrinkage`
"""
