"""Parts of a whole, from 0 to 1. From MAJORITY on they are a ladder: the more has to be certain, the higher the
step."""

VANISHING = 0.0001
"""Part of all recorded time below which no decision is looked into.

Why: A report shows percents; a hundredth of one is below what any run repeats.

- `candidates`: part of all blame below which an entry decides about its place together with those of other ranks
- `contention`: part of all recorded rank-seconds below which nobody asks why others wait for a place
"""
TOO_SMALL = 0.001
"""Part of a whole that is too small to be treated, or drawn, by itself.

Why: A tenth of WORTH_A_FINDING; of a picture, less than a pixel.

- `alone`: part of all blame below which candidates stay as they are
- `causal_blocks`: variance over ranks as a part of their squared seconds, up to which all take as long
- `choices`: part of all own work up to which a part of the program is no alternative to another
- `length_costs`: deviation of sums of lengths as a part of their mean, up to which they are all equal; part of the mean
  seconds up to which nothing is an outlier
- `picture`: part of a step below which nothing is drawn
"""
FLOOR = 0.002
"""Part of a rank's seconds by which any place may be off: less is nothing.

Why: A choice: nothing repeats to the microsecond.

- `diff`: part of an average rank's seconds that any place may be off by
- `findings.claims`: part of what a rank spends at a place below which the report says that others do not go there
- `late_ranks.advice`: part of what a rank spends at a place below which others spend next to nothing there
- `loss`: part of an average rank's seconds that any place may be off by
- `scaling.detector`: part of all seconds that any prediction may be off by
"""
WORTH_A_CHANGE = 0.005
"""Part of an average rank's seconds that a change between two runs must cost.

Why: Half of WORTH_A_FINDING: a user who compares runs looks for small changes.

- `diff`
"""
WORTH_A_FINDING = 0.01
"""Part of all recorded time that a finding must cost.

Why: A choice: one percent is the least that a user would act on.

- `contention`: part of all recorded rank-seconds that the program must be found to cost in what only a finding's ranks
  do
- `late_devices`: part of the device-seconds that a finding must cost
- `late_ranks`: part of all recorded rank-seconds, or of those in the steps, below which waiting is not worth a finding
- `loss`: part of an average rank's seconds below which nothing is worth a finding or a model
- `pools`: part of the run's time that an order must bring
- `scaling.detector`: part of an average rank's seconds that a loss must cost
- `slow_ranks`: part of all recorded rank-seconds that others must wait for a slow rank, and of the run that comes back
- `slow_workers.detector`: part of the job's time that must come back
- `topics.productive`: part of the wall time that other things than steps, start-up and end must take to be shown
- `worker_bound`: part of the run's time that more workers must save
"""
WORTH_FOLLOWING = 0.01
"""Part of what is followed, or listed, below which a branch or an entry is left out.

Why: As WORTH_A_FINDING, of a smaller whole.

- `compiled_lines`: part of the elements of a kernel below which an operator is not named
- `python_loops`: part of a loop's time from which its header shows that its turns take microseconds; and, times what a
  cause must save, what a loop must take of a step to be looked at
- `delay_costs`: part of a lateness below which the rest is not followed further back
- `paths`: part of what the rank that waits longest waits at a hop, below which another one does not count there
"""
NEXT_TO_NOTHING = 0.02
"""Part of what the ones compared do, up to which others do next to nothing of it.

Why: A choice: samples at the border of a place may fall to its neighbour.

- `alone`: part of the seconds of those who are late somewhere up to which the others do next to nothing there
- `between_messages`: own work between two calls that is none, as a part of what lies between two calls where they
  compute
- `choices`: part of what the rank spends that is longest in a part of a choice, up to which others do not run it
- `contexts`: part of what ranks do of a work in some contexts, up to which they do next to nothing of it in another one
- `description`: part of what others do up to which the ranks of a finding do not do it, or others not at its place
- `findings`: part of the loop's process time below which a cause has next to no waiting
- `named_line`: part of the seconds of the rank that runs a function most, or of its excess in one call, up to which
  others do not run it
- `named_phases`: part of what the process does that does most of a kind, up to which another one does none
- `rounds`: part of what a place costs the others, up to which its ranks save next to nothing
- `peers`: part of the time of those at a place, up to which another process does not do it
- `steps`: part of the time of those that a finding names, up to which other ranks do next to nothing at its place
- `uneven_lengths`: part of the most that a step takes at a place, up to which it is not run in a step
- `loader_pace`: part of a step above which a rank waits for a batch
"""
WORTH_IF_UNSTEADY = 0.03
"""WORTH_A_FINDING where a busy machine, or a coarse clock, may make some of it.

Why: A choice: three times as much as where the cause is steady.

- `contention`: for work that all ranks do, of which some do a little more, and what happened but once or twice
- `late_devices`: part of the device-seconds, where what a device did is known from mark to mark only
- `late_ranks`: for what no rank is late with on average: whoever is unlucky is late in its turn, on a busy machine too
- `uneven_lengths`: part of the steps that packing must save, where another rank is late in each
"""
MISREAD = 0.03
"""Part of the messages of a link that may have taken less than the least that is believed.

Why: Clocks are read late by a process that was not on a core.

- `replayable`
"""
WORTH_IF_ONCE = 0.05
"""WORTH_A_FINDING of what is seen once, in one step or without a known cause.

Why: A choice: five times as much as where repetitions show the noise.

- `causal_profile`: part of a step that a place must take on the critical path to be replayed
- `contention`: for what is late for no cause that is known, of ranks that wait for no cores
- `culprit_findings`: part of a step that another schedule must save
- `culprits`: part of a step from which a cause is worth a finding
- `input_bound`: part of a step that more workers must save
- `job_causes`: part of a step that a change for all replicas must bring
- `late_ranks`: for what happened too rarely for its noise to be known
- `limits.advice`: part of a step that fewer bytes, or calls, must save to be advised after what saves more
- `replicas`: part of a step that a replica, or its cause, must cost the others
- `report.headline`: part of a step that a change must save to be named before the findings
- `shared_cause`: part of a step that must be saved without a cause that all ranks share
- `pipelines.slow_down`: part by which a job must be slower than an ideal one, to be shown
- `device_causes`: part of a step that devices of all ranks must have nothing to do, for the launches, waits or work
  of their hosts to be a cause
- `python_loops`: part of a step that a cause must save; times WORTH_FOLLOWING, what a loop must take to be looked at
- `one_at_a_time`: part of the run that calls at the same time must save
- `worker_bound`: part of a step that more workers must save
- `slow_source`: part of the steady state that another way to load must save
- `task_tail`: part of the run that another order must save
- `serving.detector`: part of the run that another number of threads, or weights on their node, must save
- `experts.detector`: part of a loop that waiting for experts must take
"""
CORES_SHARED = 0.05
"""Part of the recorded time that ranks wait for a core, from which they are taken to share cores.

Why: A choice: other programs take a core now and then on any machine.

- `contention`: part of all own time in which ranks wait for a core, from which they are taken to share cores
- `run`: part of the recorded time that ranks wait for a core, from which the report says so
- `scaling.detector`: part of the time that ranks wait for a core, from which the report says so
"""
SLIGHT = 0.05
"""Part of a stretch, a wait or a cost that is too slight to be counted as one.

Why: A choice: what is smaller cannot be the reason for most of a whole.

- `late_ranks`: part of the run that a place takes a rank, from which it counts that only this rank goes there
- `loss`: part of what a line costs on one call path, from which it loses there
- `reconcile`: part of a wait from which it counts as one that a finding is about
- `roots`: a rank that waited for a smaller part of the time than this was busy
- `slow_ranks`: part of a slow rank's work that need not take longer
- `rounds`: part of the time of a rank at a place, up to which a stretch does not show when it is there
- `step_waits`: an action whose wait was a smaller part of it than this had not waited
- `report.head`: part of a run's time in a library without a record, from which nothing is said of who waits
- `uneven_tasks`: part of the bursts in which a rank spends its time below which a burst is no task
"""
WORTH_IF_DRIFTING = 0.1
"""WORTH_A_FINDING of what ranks are late with for a part of the run only.

Why: Other programs may use their cores for as long.

- `late_ranks`
"""
MINOR = 0.1
"""Part of a whole that is minor: up to it something hardly counts against the rest, from it on it is seen.

Why: A choice: what is estimated from samples and clocks is seldom better known.

- `blocks`: part of an even part by which sequences that are not cut may exceed it
- `causal_blocks`: part of the mean seconds of ranks up to which they take nothing but blocks of a mask; part of the
  longest round from which others count
- `causal_profile`: part of a step that ranks spend at a place off the critical path, from which it is replayed
- `charges`: part of the time that is compared by which a moment lies before its end
- `cores`: part of what a main thread computes, from which another thread counts that wants a core
- `description`: part of what a finding costs from which what others do instead is worth a word
- `diagnose`: part of what a stage takes, up to which its layers are taken to be all of it
- `diff`: part of the time of either run at places of both, below which they are suspected to be of different programs
- `findings`: part of the time that a process is at a line, up to which others are hardly there
- `head_exchanges`: part of the mean time between two exchanges up to which they are one
- `input_bound`: part of a step that every rank waits for data, from which it is a cause that all share
- `worker_starts`: the same
- `join_waits`: part of a burst within which it must end when the other thread is done
- `length_costs`: part of the mean seconds by which the base of a cost of lengths may be below 0
- `named_line`: part of the time in the calls with excess that those without must take, to show that these have none
- `recorded_messages`: part of all messages from which on they show how a program sends
- `role_work`: part of a worker's excess that must be left beside what others of its role do, to decide by it
- `roles`: part of the CPU seconds of those that are waited for, below which those that wait have no work of their own;
  part of a candidate's excess, or waiting, that may be of another kind
- `rounds`: part of a stay at a place that may overlap the one before it; part of the waiting that may be for messages
- `scaling.causes`: mean of the other ranks' work, of that of the one that works most, below which that one works alone
- `step_presence`: part of what a step usually costs that has any cost, from which a step has some
- `steps`: part of what a step usually loses, from which the first one, whose begin is inferred, loses something
- `task_farms`: part of what a rank of a pool works before a call that others may work before the same; part of the
  pool's time by which ranks may end apart
- `uneven_tasks`: part of what ranks compute at a place that must be in excess
- `worker_bound`: part of a step that a process waits for others that work for it, from which it is a cause
"""
NOTABLE = 0.15
"""Part of what the worst rank loses, from which another rank is part of the same finding.

Why: A choice: with less, a finding names ranks that would not be late by themselves.

- `candidates`: part of the largest rank's blame that makes a rank one of the finding's
- `named_line`: part of the excess of the rank that has most in a function, from which a rank has a say in it
- `scaling.causes`: part of the largest rank's share of a loss that makes a rank one of the finding's
"""
SUBSTANTIAL = 0.2
"""Part of a whole from which something is a matter to ask about, while it does not decide anything yet.

Why: A choice: twice what is minor.

- `contention`: where others spend less than this part of what a finding's ranks do, it is not a difference in like work
- `interference`: part of an excess spent without a core, from which one asks who had it
- `late_ranks.advice`: part of the time at a place that helpers must be active in to be what it is about
- `named_line`: part of the excess for each second of a function's time, of that where most of it is called, below which
  another call of it has none; far from 1, for on shared cores calls that come later find others behind them
- `pools`: part of what the finding says comes back that an order must bring
- `sync_intervals`: part of the longest wait by which a culprit and a member may leave an operation apart, where the
  culprit was not waited for there: it hands over a bucket of gradients on the way, and is as late because of what it
  did before
- `task_farms`: part of the time of all pieces that those may take in excess, of pieces that are otherwise equal
"""
SHARE_OF_ITS_OWN = 0.25
"""Part of a whole from which something has a share of its own: it is followed, named with the rest, or stands alone.

Why: A choice: at most four can have one.

- `candidates`: part of a cause's blame that one of its entries must have to stand alone
- `cost_trend`: part of the whole slope that each half must have: what rises at the beginning alone does not go on
- `host_transfers`: part of the transfers of a route that show how fast it is
- `late_devices`: part of what is lost that a child of a vertex must have to be followed; and of what the worst rank
  costs at a place, that another must cost there to be named with it
- `library_calls`: part of a function's blame on a rank that lets a line or loop of it stand alone
- `loss`: part of what a helper loses that one of its callers must lose in it to be separated from the others
- `marked`: part of a stretch for which the host was still launching, up to which the device is taken to have been busy
- `masked`: part of the first cause's seconds from which the one behind it is named
- `modules_on_device`: part of the time between two marks for which the host was still launching, up to which the device
  is taken to have been busy
- `named_line`: part of the excess at one call of a function from which the other calls have some, too
- `named_place`: part of the blame that a line or loop must hold for the walk to go on
- `roofline`: part of what a small operator takes, up to which its least time does not count
- `socket_links`: part of the bytes of the way between hosts that most bytes take, from which another one is compared
  with it
- `run`: part of the recorded time that calls take by themselves, from which the report says where ranks share cores
- `transfer_model`: part of the calls of one size, the fastest, by which one knows what the network takes
- `uneven_tasks`: part of the large pieces that are waited for that must be larger than those of who waits
- `device_causes`: part of the launching that one place must hold to be named for it
"""
IN_PART = 0.3
"""Part of an excess from which it is explained in part: by computing, by a lack of cores, by a module.

Why: A choice: shares of CPU time are samples, and vary on busy cores.

- `contention`: with less than this part of it on a CPU, or waiting for one, an excess is sleep, or waiting for a disk
  or a lock; part of the excess of most ranks without a core, from which it is the machine's if their computing, or
  sleep, explains less than half of it: what they wait for otherwise (a loader, a thread) has no core either
- `interference`: part of an excess on a CPU from which the line itself does more there
- `module_times`: part of what a finding's ranks spend more at its place that a module must take longer, to be named for
  it
- `slow_source`: part of the time of loading that a source takes at least
- `thread_plans`: part of the weights on another NUMA node than the threads, from which they lie far away
"""
WARM_UP = 1 / 3
"""Part of the steps up to which a cost that falls to its lasting level has warmed up.

Why: A choice: what takes longer is not a start.

- `cost_trend`
"""
MAJORITY = 0.5
"""Part of a whole from which something decides for the whole.

Why: Nothing else can be as much.

- `alone`: part of a joined cause that its largest entry must hold to be its place
- `burst_work`: part of the work at a place that must lie in a region, in waiting for data, or in compiling, for certain
- `call_pools`: part of the tasks that must lie in rounds of which that is so
- `calls`: part of a joined cause that its largest entry must hold to be its place
- `changes`: part of what lies in a burst that must be work, or waiting for a core, for a thread not to have rested
  there
- `one_at_a_time`: part of the time that a process must wait for the calls that it makes
- `choices`: part of what ranks do in a choice that a cause must be, to be compared with all of the choice
- `contention`: part of a finding that ranks must be late with on average, to lack a core for more than a turn now and
  then
- `cores`: part of what the busiest thread or child of a rank computes, from which another one computes as well
- `cost_trend`: part of the mean cost of a step above which a step pays
- `culprits`: part of the way from the mean load to the largest, from which a rank is one of the heavy ones; part of
  what the worst has, from which another is as bad
- `description`: part of a cause that helpers of ranks do, from which it is these that ranks wait for
- `even_work`: part of the way to the slowest worker, from which another one is as slow
- `host_transfers`: part of a transfer through which somebody must have waited for it
- `hypotheses`: part of the unevenness of the simplest order, below which a more complicated one has the word
- `list_scheduling`: part of the steps at whose end something is generated, where generation runs on
- `held_locks`: part of what is waited for some work of threads, from which it is for a lock
- `input_bound`
- `worker_starts`: part of the waiting for data, from which it is for the start of workers
- `interference`: part of the time without a core that a rank's helpers must have computed more than those of other
  ranks
- `job_causes`: part of the replicas in which a stage must be the heavy one, to be so in the job
- `join_waits`: part of a location's time that a burst must take; part of a burst that must be neither work on a CPU nor
  waiting for one, or for a helper without calls: its end, as a thread may compute before it waits for another one
- `lasting`: part of a cause that is due to ranks that are late on average, from which it lasts through the steps
- `late_ranks`: part of what is worth a finding that the forward or the backward of a module must cost, if the other
  half has a finding
- `late_ranks.advice`: part of a finding that is due to ranks that are late on average, below which they are late in
  turns; part of what ranks compute longer that running more often must explain, to be what is said of it
- `late_ranks.detector`: part of what is worth a finding that one half of a module must cost
- `leaf`: part of a cause that must lie in one function to be its leaf
- `length_costs`: part of the variance that lengths must explain
- `library_calls`: part of a loop's blame on a rank that makes one line of it the place
- `limits.detector`: part of the waiting for data in which workers must be seen to work on batches
- `lines`: part of an excess that must be left when all lines of a place are added up, for it to be one
- `masked`: part of what is done at a place from which it is rest until another thread is done
- `messages`: part of the differences between actions that should be equal, of which a more complicated order has to
  leave less; part of all steps from which a number of microbatches is the usual one
- `modules`: part of what a module takes longer that must lie between operators to say so
- `more_work`: part of what is lost that one reason must be behind to be named
- `named_line`: part of the excess in a function that decides where all of it goes; part of the time in a function that
  lies in the same parts of it here as elsewhere, if it always does the same
- `named_phases`: part of what lies between two calls that must be of a known kind, for all of it to be
- `named_place`: part of the blame that one line must have to be named by itself
- `peers`: part of what a candidate costs that other roles wait, to be compared within its own
- `pipeline.detector`: part of what a step takes longer that its causes must explain
- `pools`: part of what ranks compute that must lie within calls of the pool
- `reconcile`: part of what a finding speaks of that must be explained already for it to be left out
- `replicas`: part of the waiting of a pipeline, from which one other is what it waits for
- `roles`: part of what a candidate's ranks compute at its place, from which another rank has the same work
- `rounds`: part of the longest stay at a place, from which another rank does the same there
- `slow_ranks`: part of what a rank costs that findings at places must explain, for it to be no more than these
- `serialising`: part of what is unpickled that the longest object in each process must take, to be for its imports
- `shared_cause`
- `slow_steps`: part of what a step is longer than usual that its cause must explain, as seconds that a rank waited
- `source_costs`
- `steps`: part of what a slow step loses by its own analysis, that a finding of the run must lose in it to be its cause
- `steps_in_part`: part of a step that lies in it, on average over the processes, from which it is one of the part's
- `sync_intervals`: part of the longest wait for a culprit by which it and a member may leave an operation apart, to be
  compared from there on: more would explain most of the wait
- `task_farms`: part of what the rank that hands out works before a call that others may work before the same: where all
  of it is in one call of a library's, its work is before the same calls
- `uneven_lengths`: part of a finding that is due to ranks that are late on average, below which they are late in turns;
  part of what sequences cost more that must be for the squares of lengths to be for attention
- `uneven_tasks`: part of a joined cause that its largest entry must hold to be its place
- `wait_states`: part of its stay within which a member must leave once another has come, to have waited for it
- `work_lines`: part of what a process does more than others that must lie at a line, for it to be the place
- `compile_bound`: part of what the middle rank compiles that every rank must, for all to share it
- `device_causes`: part of what the middle rank spends that every rank must, for all to share it; part of what devices
  work that one place must hold to limit these
- `limits_on_devices`: part of what a device has nothing to do that causes which all share must explain, for the rest
  to be no finding about its rank
- `slow_source`: part of the ranks up to which those that load more are named
- `python_loops`: part of the time in loops that must be on a CPU, or wait for one
- `loader_pace`: part of waiting for data in which workers make batches
"""
CLEAR_MAJORITY = 0.6
"""Part of a whole from which something decides for it where half is not enough.

Why: A choice: of two halves, none counts.

- `module_times`: part of what a module takes longer on the ranks of a finding that one in it must hold, to be named
  instead
- `roles`: part of a rank's rounds over which its work at a place must spread for the rank to do it every time
"""
MOST_STEPS = 2 / 3
"""Part of the steps in which the same process must be slow, to be a slow process.

Why: A choice: steps of unequal work make one process the slowest in fewer of them.

- `findings`: part of the steps in which one process is behind a cause, to be named for it
- `named_phases`: part of the steps in which one process takes longer, from which it always does
- `rl.causes`: part of the steps in which a slow process takes longer than others
"""
LARGELY = 0.7
"""Part of a whole from which the rest may be the noise of a busy machine, or another small cause.

Why: A choice: who sleeps or computes also waits for cores now and then.

- `changes`: part of the time at a place, less what is waited for a core, from which its work is sleep of the program's
  making, and not of a busy machine's: who wakes up waits for a core, too
- `late_devices`: part of what is lost at a vertex and below it that must lie in the children that are followed
- `late_ranks`: part of the time that its ranks lose below which what a cause saves shows that another one is behind it
- `roles`: part of an excess on a CPU, or waiting for one, from which ranks can be compared by what they compute
"""
PREDOMINANT = 0.75
"""Part of a whole that must be of one kind, where all of it is treated as of that kind.

Why: A choice.

- `roles`: part of the waiting for a place that must be for messages and locks: who had to wait is late for what comes
  next
- `uneven_tasks`: part of what a piece computes above what is ordinary that must be more than those who wait compute
"""
EXPLAINED = 0.8
"""Part of a whole that one cause must explain to be taken for all of it.

Why: A choice: clocks and samples leave up to a fifth open.

- `backtrack`: part of a gap that what the host did more must make up to be all of its cause
- `blame`: share of a wait that the excess must explain, before it is taken for the whole cause
- `calls`: part of what late ranks do somewhere that must be in excess, for the others to do next to nothing there
- `causal_blocks`: part of how ranks differ that the blocks of a mask must explain; part of the usual round that every
  round must take, and that must take of every round
- `disturbed`: part of a run's seconds at places that must be off by one factor
- `findings`: part of what a cause costs that the processes named make
- `join_waits`: part of what a thread does at a place that must be rest, for the thread to rest there
- `significance`: part of a lateness that must be spent off the CPU for it to count as no noise of a busy machine
- `late_devices`: part of the seconds of a device that must be of kernels that all ran equally often, and be longer by
  one factor
- `uneven_lengths`: part of a lateness at a place that the cost of lengths must come to, and at most its inverse
- `uneven_sizes`: part of a lateness that the cost of sizes must come to, and at most its inverse; part of the variance
  that it must explain
"""
NEARLY_ALL = 0.9
"""Part of a whole from which the rest is not worth a word.

Why: What is left is minor (MINOR).

- `alone`: part of a cause that a part of the program must hold to stand for it
- `bounds`: of the bound: from here on a single layer decides it
- `cost_trend`: part of the steps which are nearly all; and of the pairs of a step before a jump and one after it, that
  must differ as the levels do: else some steps do
- `slow_ranks`: part of what a slow rank takes longer that one place or loop must hold, for that to have more to do
- `spared_calls`: part of the steps in which the same gradients are reduced after each forward pass; part of a line's
  calls that move a single number
- `step_presence`: part of a cost that lies in steps which show what it usually is in a step
- `rank_work`: part of the steps in which a slow rank must be slow
- `steps`: part of what is lost in steps that lies in the few which are named; and part of the steps that are nearly all
- `task_farms`: part of a rank's pieces that one and the same must hand out
- `device_causes`: part of a step that devices must work to be what limits it
- `one_at_a_time`: part of the calls that must be alone under way
- `loader_pace`: part of the steps in which a rank must wait for a batch, for workers that never rest
- `expert_waits`: part of the lookups that a cache of the experts used last must explain
"""
AWAITED = 0.95
"""Part of the trajectories that is awaited where the rest is carried into the next step.

Why: A choice: the rest is the tail of long trajectories.

- `loop_predictions`
"""
