"""Which steps a run has, and what of it is start-up, steady state and end.

Users think of a job as start-up, so many steps of so long each, and an end.
:func:`~scalana.graphs.steps.find_steps.find_steps` asks the sources of steps one after the other;
:class:`~scalana.graphs.steps.steps.Steps` is what it finds.
"""
