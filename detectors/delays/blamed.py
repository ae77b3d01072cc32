"""A recorded run together with what its waiting is blamed on: what every question about a cause is asked of."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.delays.blame import BlameTable
from scalana.graphs.structure.psg import PSG
from scalana.graphs.timeline import Timeline


@dataclass(frozen=True, slots=True)
class BlamedRun:
    """The three that belong together: a blame table has a timeline's activities, at vertices of a structure."""

    timeline: Timeline
    psg: PSG
    table: BlameTable
