"""The own work of all ranks that a finding of late ranks is about."""

from __future__ import annotations

import numpy as np

from scalana.detectors.delays.choices import with_alternatives
from scalana.detectors.delays.contexts import with_contexts_of_others
from scalana.detectors.facts import Facts
from scalana.detectors.finding import Finding
from scalana.graphs.arrays.types import BoolArray


def work_of(finding: Finding, facts: Facts) -> BoolArray:
    """The rows of own work that a finding is about, on all ranks."""
    table, timeline = facts.blame, facts.timeline
    targets = np.unique(table.target[finding.entries])
    activities = targets[targets < table.numbering.transfer]
    activities = with_contexts_of_others(activities, finding.ranks, table.work, timeline)
    activities = with_alternatives(activities, finding.ranks, table.choice, timeline)
    return np.isin(timeline.own.activity, activities)
