"""Why the same place takes longer on one rank than on others, as far as its work is known."""

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
