"""Evidence about sequences of unequal lengths."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True)
class Redistribution:
    """The run with another distribution of the sequences of each step over the ranks."""

    change: str
    """``by-cost``, ``by-cost-same-memory``, ``by-tokens``, ``blocks``, or ``split-evenly``. The last two have not the
    time for keys and values of other ranks: they are bounds."""
    saving_s: float
    """Seconds by which the run would be shorter, below 0 where it would be longer."""
    tokens: float | None
    """Tokens of the rank that has most, as a multiple of the most that any has now; None where sequences are cut
    anywhere."""
    received: float | None = None
    """Where sequences are cut: tokens whose keys and values the rank that gets most gets from others, in the step with
    most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenLengths(Flat):
    """What the sequences of a finding's ranks are and cost, in an average step of those whose lengths are known."""

    attention_times: float
    """Sum of the squares of the lengths, as a multiple of that of the median rank."""
    token_times: float
    """The same of the sum of the lengths."""
    is_attention: bool = False
    """Whether it is for the squares that these ranks are late, rather than for the sum."""
    equal_tokens: bool = False
    in_turn: bool = False
    """Whether it is another rank in each step; the multiples are then those of the rank that has most."""
    lengths_from: str
    """Kind of the argument that says the lengths."""
    lengths_file: str
    """Where the model is called with it."""
    lengths_line: int
    second_per_token: float
    second_per_square: float
    """Of a length."""
    longest: float
    """Tokens of the longest sequence."""
    fit: float
    """Part of the variance of the seconds of ranks in steps that these explain."""
    fitted_steps: int
    redistributions: list[Redistribution]
    """The first is packing by cost."""
