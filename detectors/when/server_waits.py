"""How long ranks wait for servers that left no record."""

from __future__ import annotations

import numpy as np

from scalana.graphs.dependences.servers import ServerWaits
from scalana.graphs.steps.periods import Periods


def seconds_of(servers: ServerWaits, ranks: int, some: list[int]) -> dict[str, float]:
    """Seconds that some ranks wait for each server, of an average one, the longest first."""
    each = {
        name: float(waits_for(servers, ranks, row).rank_s()[some].sum()) / max(len(some), 1)
        for row, name in enumerate(servers.names)
    }
    return {name: seconds for name, seconds in sorted(each.items(), key=lambda pair: -pair[1]) if seconds > 0.0}


def waits_for(servers: ServerWaits, ranks: int, server: int = -1) -> Periods:
    """When ranks wait for any server, or for one."""
    rows = np.flatnonzero((servers.server == server) | (server < 0))
    return Periods.joined(servers.rank[rows], servers.start_s[rows], servers.end_s[rows], ranks)
