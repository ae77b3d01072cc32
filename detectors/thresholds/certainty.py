"""What must be seen not to be chance: standard errors, probabilities, criteria of models."""

CHANCE = 0.001
"""Probability of as steady a change without any, below which there is one.

Why: A report looks at dozens of series: at 5 %, most reports would err.

- `cost_trend`
"""
USUAL_RANGE = 0.9
"""Part of a distribution, as a probability, that its usual values cover.

Why: The usual level of a prediction interval.

- `between_messages`: quantile of the pauses between calls that lies among those in which ranks compute
- `message_groups`: quantile of the pauses on a channel that is the usual one
- `models`: probability that lies between the ends of a predicted range
"""
CORRELATED = 0.95
"""Correlation of neighbours in a series that is assumed at most.

Why: How long a series keeps is not known better.

- `cost_trend`
"""
ASSUMED_WEIGHT = 2.0
"""Measurements that an assumed noise counts for, next to those of the runs.

Why: Two runs are the least that show any noise.

- `loss`: measurements that the assumed noise of a run counts for, next to the deviations seen
- `models`: measurements that the assumed noise counts for
"""
MORE_SAMPLES = 2.0
"""Standard deviations of a number of samples by which an excess of CPU time is more computing.

Why: The usual level of 95 %.

- `description`
- `slow_ranks`: by which the time at a place may differ from that of all, where everything takes longer by one factor
"""
CERTAIN = 2.5
"""Standard deviations of the noise of runs that a change, or a loss, must exceed.

Why: Nearly 99 %: a report looks at many places.

- `diff`: standard deviations that a change must exceed
- `scaling.detector`: standard deviations of the runs' noise that a loss must exceed
"""
BY_CHANCE = 3.0
"""Standard errors by which pieces of a rank may take longer by chance.

Why: The usual three sigma.

- `even_work`: standard errors by which the microbatches of a replica may be longer by chance
- `task_farms`
"""
OUTLYING = 5.0
"""Standard errors, or deviations, by which something stands out among all ranks, places and calls.

Why: Normal noise exceeds it in less than one of a million cases.

- `disturbed`: times the noise by which they must be off
- `length_costs`: standard deviations of what a fit leaves, from which a step of a rank is left out of it
- `significance`: standard errors by which a rank's mean lateness must differ from zero to be its own; standard
  deviations of the ordinary stretch by which a single lateness must stand out
"""
DECIDED = 6.0
"""By how much the criteria of a line and of two levels must differ, to say which of them it is.

Why: "Strong" evidence (Kass, Raftery 1995).

- `cost_trend`
"""
DECISIVE = 10.0
"""By how much the criterion of one level must exceed that of a change.

Why: "Very strong" evidence (Kass, Raftery 1995).

- `cost_trend`
- `length_costs`: by how much the criterion without any cost of lengths must exceed that with one
"""
OTHERS_COST = 1.0
"""What the model ``b (p - 1)`` costs: something is done for every other rank, or waited for.

Why: The less common a model is in parallel programs, the more must speak for it.

- `models`
"""
DIVIDED_COST = 2.0
"""What the model costs that grows next to work that is divided.

Why: It has a second term.

- `models`
"""
