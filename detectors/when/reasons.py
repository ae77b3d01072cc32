"""Why the same place takes longer on one rank than on others, as far as its work is known."""

from __future__ import annotations

import enum


class Reason(enum.Enum):
    """What is different, with what to do about it."""

    INPUTS = "What it is given is not what others are: balance lengths, tokens or batches over the ranks."
    NUMBER = "It is given more to do than others: balance what it is given, or how often it runs."
    TIME = (
        "It does as much as others, and takes longer: look at its clock, temperature and power limit, at what else "
        "runs on it, and at kernels whose time depends on the values."
    )
    MODULE = (
        "Only this takes longer there, not all that its device does: look at what it does there and elsewhere, and at "
        "what it is given. SCALANA_KERNELS=1 records its kernels on some steps, and shows whether there are more."
    )
