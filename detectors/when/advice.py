"""Words about work in time: why the same place takes longer on one rank than on others, and what is not known."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """What is different, with what to do about it."""

    INPUTS = "Its inputs differ from those of others: balance lengths, tokens or batches over the ranks."
    NUMBER = "It has more work than others: balance its input, or how often it runs."
    TIME = (
        "It does as much as others, but takes longer: check its clock, temperature and power limit, other jobs on "
        "it, and kernels whose time depends on values."
    )
    MODULE = (
        "Only this takes longer there, not everything on its device: compare its work and its inputs with those of "
        "others. SCALANA_KERNELS=1 records its kernels on some steps, and shows whether there are more."
    )


FROM_CACHE = (
    "most compiled code came from torch's cache, and its source lines are unknown: with "
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, torch compiles it again, and they are known"
)
"""About compiled code of whose kernels no source is known."""
HAS_STEPS = "it has steps {} to {}"
"""About a run that lacks the steps that are asked for."""
