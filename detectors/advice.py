"""Words about a whole run: what a reader should know of it before its findings."""

from __future__ import annotations

UNBALANCED = "the delay costs miss {missing_s:.3f} s of {wait_s:.3f} s of waiting: please report this"
FAILED = (
    "{part} failed ({error}), and what it finds is missing here: please report this "
    "(SCALANA_STRICT=1 SCALANA_DEBUG=1 scalana report shows where)"
)
NO_CORE = "ranks waited for a CPU core in {share:.0f} % of the time outside communication{where}"
NO_CORE_IN_CALLS = "{shared}: part of the time in calls (transfer) is waiting for a core"
