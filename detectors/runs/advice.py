"""Words about several runs: what a reader should know of them before their comparison."""

from __future__ import annotations

EXITED = "ended with exit code {code}: its work may be incomplete"

SIZES_DIFFER = (
    "the runs have {before} and {after} ranks: seconds are those of an average rank; scalana scaling shows the loss by "
    "size"
)
NOT_SHARED = "the runs share hardly any code: are they of the same program?"
DIFFERENT_PROGRAMS = "the runs are of different programs ({before}, {after}): only what both share can be compared"
EVERYWHERE = "most work took {change:.0%} {direction} everywhere: the machine may have been in another state"
"""Of two runs."""

STRANGE = "{share:.0%} of {run} are spent at places that {reference} does not have: is it the same program?"
DISTURBED = (
    "nearly everything in {run} took {times:.2g} times as long as the other runs suggest: it is excluded, as the "
    "machine may have been in another state; run {ranks} ranks again"
)
NO_SCALING = "no place of the program worked at two sizes: its scaling is unknown"
ASSUMED = (
    "assumed {scaling} scaling, but the total work of p ranks grows as p^{exponent:.2f}: set --scaling weak or "
    "--scaling strong"
)
TWO_SIZES = "two sizes show the loss, but not its growth: no prediction for {at} ranks; record a third size"
FAR = "{at} ranks are {times:.0f} times the largest recorded size"
NO_CORE = (
    "ranks waited for a CPU core, or for others that did ({shown} ranks): `no core` shows this time, and the cost of "
    "places does not include it"
)
CROWDED = (
    "ranks outnumbered the cores of a host on {ranks} ranks: communication times there say little about runs with one "
    "core per rank"
)
"""Of runs of several sizes."""
SHARE_WAITING = "Balance this over the ranks, or let the others continue meanwhile."
"""What to do about a place that others wait for ever longer."""
