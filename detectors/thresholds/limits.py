"""Bounds of work, and of what is shown. None decides whether something is found, unless a run is larger than the
bound."""

SHOWN_IN_BRIEF = 3
"""Entries of a list inside a finding, or a section, that is about something else.

Why: They fit on one line.

- `modules`: operators that only these ranks run which are named
- `slow_steps`: steps, the longest, of which the report says what made them slow
"""
SHOWN_OPERATORS = 4
"""Operators that are named for a finding.

Why: They fit on one line.

- `operators`
"""
NAMED = 5
"""Things that are named one by one.

Why: More are a number.

- `findings`: trajectories that are named at most
- `steps`: steps that are named one by one, if nearly all is lost in them
- `late_ranks.advice`: ranks of which the advice says how large their parts are
"""
MOST_FINDINGS = 10
"""Findings that are reported.

Why: What remains is in the blame table.

- `causal_profile`: places that are replayed
- `late_ranks`: findings about late ranks
- `scaling.detector`: findings about scaling loss
"""
LONGEST_PATH = 12
"""Hops shown of the way from a symptom to its cause.

Why: A longer way is cut before its end.

- `paths`: hops shown; a longer way is cut before its end
"""
MOST_CHANGES = 20
"""Changes between two runs that are reported.

Why: A change is one line.

- `diff`
"""
DRAWN = 120
"""Numbers that show what a finding cost over the steps.

Why: A chart is not wider.

- `trend`
"""
STAGES_PER_RANK = 4
"""Stages a rank that are looked for in hand-written pipelines.

Why: A bound of time.

- `placed`
"""
CHANGES_AT_ONCE = 4
"""Changes that are replayed in one pass.

Why: Each takes memory for the entries of all calls.

- `replay`
"""
ROUNDS_OF_FIT = 6
"""Rounds of fitting in turn the model, given how fast processes are, and how fast they are, given the model.

Why: A bound of time: each round refines the last.

- `decode`
"""
TRIED_AT_MOST = 8
"""Alternatives that are looked at for one question, the most likely first.

Why: A bound of time: the most likely come first.

- `placed`: ways to be ahead that are looked at for the same stages and rounds, the tightest first
- `task_farms`: earlier messages that a rank asks for at most before it hands in what it has computed
"""
BLOCKS = 8
"""Successive blocks into which the repetitions of a place are divided, to see how their means vary.

Why: A choice: each should have several repetitions, and their variance needs several blocks.

- `verdict`
"""
SAMPLED_WAITERS = 24
"""Waiters of a group, and members that did not wait, whose stretches are looked at.

Why: A bound of time; enough for a median.

- `classes`
"""
POOLED_WAITERS = 48
"""Waiters of one comparison above which they are one group.

Why: Twice SAMPLED_WAITERS: a group of fewer saves nothing.

- `classes`
"""
RANKS_OF_A_FINDING = 64
"""Ranks of a finding, and others, whose work in every step is looked at.

Why: Of more, some at equal distances show the same.

- `step_costs`: ranks of a finding, and others, whose work in every step is looked at; of more, some at equal distances
"""
FURTHEST_BACK = 200
"""Common operations back that the lateness of a device, or of a host, is followed.

Why: A bound of time.

- `delay_costs`
"""
VALUES_OF_A_SERIES = 240
"""Values of a series that are looked at, pair by pair.

Why: Of more steps, neighbours are one value, their mean: the pairs grow with the square.

- `cost_trend`: values that are looked at, pair by pair; of more steps, neighbours are one value, their mean
"""
RANKS_AT_ONCE = 256
"""Ranks whose columns are worked on at once.

Why: It bounds memory, and changes no answer.

- `steady`
- `courses`
"""
SEARCHED_BEHIND = 256
"""Calls walked back behind a common operation that two ranks did not leave together.

Why: A choice: further back, little that ranks did is comparable.

- `sync_intervals`
"""
ORDERS_REPLAYED = 400
"""Replays of one order of a pipeline with other cuts.

Why: A bound of time.

- `means`
"""
CUTS_REPLAYED = 3000
"""Cuts of a model into stages up to which all of them are replayed.

Why: A bound of time: of more, an estimate chooses.

- `predictions`
"""
FLOW_STEPS = 10_000
"""Hops after which waiting that is still handed on is left unresolved.

Why: It goes around a circle of waits.

- `delay_costs`
"""
SEARCHED_BACK = 100_000
"""Calls walked back in search of a common operation of two ranks.

Why: Ranks that have met none for so long are compared from the start of the record.

- `sync_intervals`
"""
TASKS_REPLAYED = 300_000
"""Tasks of a pool that are replayed.

Why: Each takes some microseconds a replay.

- `call_pools`
- `task_farms`
- `task_tails`
"""
ACTIONS_REPLAYED = 500_000
"""Actions of a pipeline that are looked at; of longer records, the last.

Why: They are replayed up to 256 times.

- `replayable`: actions that are looked at; of longer records, those at the end
"""
PIECE_OF_A_LAYER = 0.25
"""Part of the mean load of a rank that a piece of a split layer has in plans.

Why: A choice: smaller pieces fit into gaps no better than other layers.

- `proposal`
"""
HEAVY_LAYER = 0.6
"""Part of the mean load of a rank from which plans treat a layer on its own: split, or with a rank of its own.

Why: Two of them are more than the mean load of a rank.

- `seeds`: of the mean load of a rank: a layer that costs more is given a rank of its own, among others
- `proposal`: of the mean load of a rank: a layer from here on is worth splitting
"""
FINALISTS = 12
"""Plans of an annealing that go into the last round.

Why: A bound of time.

- `search`
"""
TURNS_OF_ANNEALING = 20
"""Turns that an annealing has at least.

Why: A choice: fewer would be a random one.

- `search`
"""
ACTIONS_PER_CANDIDATE = 1500.0
"""Actions that could be scheduled in the time that a candidate takes otherwise.

Why: An estimate, for copying and rating a plan.

- `search`
"""
