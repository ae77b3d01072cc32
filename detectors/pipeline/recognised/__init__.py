"""Pipelines written by hand: recognised by the messages between their ranks.

Each reader proposes hypotheses (:class:`~.hypotheses.Hypothesis`): for every message, at both ends, the action, stage
and microbatch that it is of. One check (``is_possible``) rejects those in which a message lacks an end, both ends
disagree, something is sent before that came of which it is made, or a gradient has another size than its forward. One
score (``unevenness``) says how much actions of a kind and stage differ in length; ``evenest`` takes the simplest
hypothesis, unless another one leaves less than half of these differences.

| module | its hypotheses |
|---|---|
| :mod:`.messages` | one stage a rank along a line, in any order; forwards alone, whose tokens may come back |
| :mod:`.rings` | several stages a rank round and round, in rounds of any size |
| :mod:`.placed` | several stages a rank on two ranks or in a V: standard schedules, and rounds with forwards ahead |
| :mod:`.own_orders` | two stages a rank in a V, in any order |

Three steps do not compete by the score. A pipeline in the very order of a standard schedule is taken at once. Rounds in
a ring are the smallest that are possible, and in a pipeline of forwards nothing else is proposed. :mod:`.streams`
makes no hypotheses: two ranks of which one sends to the other may be no pipeline.
"""
