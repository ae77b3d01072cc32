"""The factors of the POP model, from what ranks did in some stretches of time.

Of ``n`` ranks that were there for ``t`` seconds each, and outside communication for ``o`` of them (POP's *useful*
time), of which ``c`` on a core and ``w`` ready to run without one; ``T0`` is the longest time of a rank on an ideal
network:

    load balance   = mean(o) / max(o)            parallel = load balance x communication = mean(o) / max(t)
    serialisation  = max(o) / T0                 communication = serialisation x transfer = max(o) / max(t)
    transfer       = T0 / max(t)
    stall          = sum(c + w) / sum(o)         useful = parallel x stall x core = sum(c) / (n max(t))
    core           = sum(c) / sum(c + w)
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scalana.graphs.arrays.types import FloatArray


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """Parts of one, of all ranks in one stretch of time."""

    useful: float
    """Part of the time of all ranks in which they compute: parallel x stall x core."""
    parallel: float
    """Load balance x communication: the part that is spent outside communication."""
    load_balance: float
    """Time outside communication of the mean rank, as a part of that of the rank with most."""
    communication: float
    """Serialisation x transfer: part of its time that the rank with most is outside communication."""
    serialisation: float
    """The same on an ideal network: what is missing are dependences between ranks."""
    transfer: float
    """What the stretch takes on an ideal network, as a part of what it takes."""
    stall: float
    """Part of the time outside communication in which ranks run, or are ready to."""
    core: float
    """Part of that in which they have a core."""


FACTORS = tuple(field.name for field in fields(Efficiencies))


@dataclass(frozen=True, slots=True)
class Totals:
    """What ranks did in some windows of time, each ``[windows]``; ranks that were not there are left out."""

    ranks: FloatArray
    """How many were there."""
    longest_s: FloatArray
    """How long the rank was there that was longest."""
    ideal_s: FloatArray
    """The same on an ideal network."""
    most_outside_s: FloatArray
    """Outside communication, of the rank that was so longest."""
    outside_s: FloatArray
    """Outside communication, of all ranks."""
    cpu_s: FloatArray
    """Of this on a core."""
    core_wait_s: FloatArray
    """Of this ready to run, without a core."""

    def efficiencies(self) -> list[Efficiencies | None]:
        """Those of every window; None where no rank was there, or nobody did anything outside communication."""
        known = (self.longest_s > 0.0) & (self.outside_s > 0.0)
        table = self._table(np.where(known, self.longest_s, 1.0), np.where(known, self.outside_s, 1.0))
        return [Efficiencies(*row) if is_known else None for row, is_known in zip(table, known.tolist(), strict=True)]

    def _table(self, longest_s: FloatArray, outside_s: FloatArray) -> list[list[float]]:
        """All factors ``[windows, factors]``."""
        most_s = np.clip(self.most_outside_s, outside_s / np.maximum(self.ranks, 1.0), longest_s)
        ideal_s = np.clip(self.ideal_s, most_s, longest_s)
        cpu_s = np.clip(self.cpu_s, 0.0, outside_s)
        busy_s = np.clip(self.cpu_s + self.core_wait_s, cpu_s, outside_s)
        balance = outside_s / (np.maximum(self.ranks, 1.0) * most_s)
        serialisation, transfer = most_s / ideal_s, ideal_s / longest_s
        stall, core = busy_s / outside_s, np.divide(cpu_s, busy_s, out=np.ones(len(busy_s)), where=busy_s > 0.0)
        communication = serialisation * transfer
        parallel = balance * communication
        columns = parallel * stall * core, parallel, balance, communication, serialisation, transfer, stall, core
        return np.stack(columns, axis=1).tolist()
