"""Relative differences: how far something may be from what it is compared with, as a part of that."""

ROUNDING = 1e-9
"""Relative difference that may be the rounding of a computation.

Why: Doubles have 16 digits, of which a fit loses half.

- `models`
"""
SUM_TOLERANCE = 1e-6
"""Relative error that the sum of all blame may have.

Why: Seconds are conserved: what is more is a fault of the analysis.

- `run`
"""
CONSTANT = 0.0001
"""Relative variation below which a kind of cost is constant, compared with others, and is left out of a fit.

Why: The fit could not separate it from the constant term.

- `decode`
"""
UNCHANGED = 0.02
"""Relative difference below which a cost has not changed.

Why: A choice: runs seldom repeat better.

- `cost_trend`: part of the usual cost up to which deviations say nothing
- `diff`: part of a place's own seconds below which a change is none
"""
NOISE_OF_A_RUN = 0.03
"""Relative noise of a whole run, as long as nothing better is known.

Why: A choice, for quiet machines.

- `diff`: relative change of nearly all places from which the machine itself is suspected
- `loss`: relative noise of a run before deviations are seen
- `models`: relative noise of a run that is assumed as long as nothing better is known
"""
DEAD_BAND = 0.05
"""Relative difference below which a difference is no finding.

Why: Clocks, caches and frequencies make ranks with equal work differ by some percent.

- `attribution`: part of all rank-time: less waiting than this has no root worth naming
- `input_bound`: part of what the best number of workers saves, by which fewer may save less
- `late_ranks`: part of all recorded rank-seconds below which a candidate is not looked at, if it is not steady and
  alone
- `scaling.detector`: part of a place's own seconds below which its loss is none
- `significance`: differences below this part of the stretch are no finding
- `worker_bound`: part of what the best number of workers saves, by which fewer may save less
- `slow_source`: part by which a way to load may be longer than the best one and be named first
- `expert_waits`: part by which another way to load may be longer than the best one and be named first
"""
TRUSTED_REPLAY = 0.05
"""Relative error of a replay, or a model, of what was recorded, above which it predicts nothing.

Why: A prediction is no better than the replay of what is known.

- `attribution`: above this replay error no advice is given
- `call_pools`: part of the recorded time by which the replay of what was recorded may be off
- `findings`: error of the model above which a finding has no saving
- `job_causes`
- `rl.account`: error of a model, relative to a step, up to which what it predicts is used in advice
- `mixture`: part by which a model of loaders may be off
- `expert_waits`: part by which a model of lookups may be off
- `exchanging_heads`: part by which the replay may be off, up to which a ring is predicted
"""
EVEN = 0.1
"""Relative difference between messages, or actions of one kind, that do the same.

Why: What actions of a kind and stage usually differ by.

- `message_groups`: parts of a message follow each other this much faster than messages do; and messages of another
  number of parts than usual that are fewer than this are none
- `messages`: unevenness of the actions above which another order is looked for
"""
CLEAR_OF_THE_MIDDLE = 0.15
"""Distance of an exponent from the middle between weak and strong scaling, below which the answer is uncertain.

Why: A choice: a few runs show an exponent no better.

- `ideal`
"""
ORDINARY = 0.2
"""Part by which like work may take longer than is ordinary.

Why: A choice: cores that share caches, or that others use as well for a while, differ.

- `peers`: part by which a process takes longer than others of its role, to be late among them
- `roles`: part by which one rank may compute more than is ordinary among those that have the same work
- `shared_cause`: part by which a rank may spend more at a place than the middle one, where all share it
- `significance`: part of what its stretches ordinarily take by which a rank must be late for a while (next to a single
  other one, half as long again as that one takes): a core that others use as well may be slow for a while, too
- `source_costs`: part by which a step without garbage collection may save more than the rank that collects longest
- `slow_ranks`: part by which a rank must take longer for everything to be slow
- `rank_work`: part by which a rank must take longer in a step to be late in it
- `task_farms`: part by which a rank's pieces may take longer than is usual
- `compile_bound`: part by which a rank may compile more than the middle one, where all share it
- `device_causes`: part by which a rank may spend more than the middle one, up to which all of it is what all share
- `worker_bound`: part by which a worker may be busy less than the busiest, where all are busy alike
- `unmarked`: part by which marked steps may take longer than others even without their marks
"""
ONE_FACTOR = 0.25
"""Part of an excess by which one kind of work may differ from all, where everything is slower by one factor.

Why: A choice: short kernels are timed less well than long ones.

- `late_devices`
- `slow_ranks`
"""
STANDS_OUT = 0.3
"""Part of the ordinary by which something must exceed it to stand out, where few repetitions show the noise.

Why: More than like work differs on shared cores (ORDINARY).

- `cost_trend`: part of the smaller cost that a change must be to be worth a word, as that by which a step stands out
  from others
- `significance`: part of the ordinary stretch by which a lateness must exceed it where nothing repeats
"""
UNEXPLAINED_NOISE = 0.3
"""Relative noise of lateness that nothing explains, of which it is unknown whether it comes again.

Why: A choice: what is not understood need not come again.

- `costs`: relative error of what waiting for turns on shared cores is taken to be
- `diff`: relative noise of what ranks are late with, where none is measured
- `loss`: relative noise of lateness that the samples do not explain: what is not understood need not come again
"""
FLAT = 0.35
"""Power of the number of ranks within which the time of an average rank does not shrink.

Why: A choice, between none (0) and the full division of work (1).

- `scaling.causes`
"""
SLOW_IN_A_POOL = 0.5
"""Part by which pieces of a slow rank of a pool take longer.

Why: More than ORDINARY, so that unequal pieces make no rank slow.

- `task_farms`
"""
NOISE_ON_SHARED_CORES = 0.5
"""UNEXPLAINED_NOISE where ranks outnumber cores.

Why: A choice: whose turn it is on a core decides much of a short lateness.

- `loss`: relative noise of lateness; part of what communication takes, for the question of how it grows
- `scaling.detector`: relative noise of lateness where ranks outnumber cores
"""
STANDS_OUT_AT_START = 1.0
"""STANDS_OUT of what lies between the start of the record and the first meeting.

Why: Processes start and import at very different speeds on a busy machine, which says little about the program.

- `significance`
"""
