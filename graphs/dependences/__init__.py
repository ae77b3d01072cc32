"""Operations in which a rank waits for some others, not for all of a communicator.

In a neighbourhood collective each rank waits for its neighbours; in an epoch of a window origins wait for the post of
each target, and targets for the completion of each origin; who takes a lock waits for whoever holds it, and an access
may have to wait until its target is in MPI. Each of these becomes *signals*: a call that gives one, and the calls that
wait for it. The wait states are those of Hermanns et al., "Understanding the formation of wait states in applications
with one-sided communication" (EuroMPI 2013).
"""

from scalana.graphs.dependences.find_dependences import add_progress, add_signals
from scalana.graphs.dependences.rows import SIGNALLING

__all__ = ["SIGNALLING", "add_progress", "add_signals"]
