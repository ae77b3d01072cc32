"""Evidence about attention of which a mask leaves unequal parts to ranks."""

from __future__ import annotations

from dataclasses import dataclass

from scalana.detectors.evidence.flat import Flat


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenMask(Flat):
    """What of a causal mask is left to the ranks of a finding, which divide sequences with others."""

    mask_times: float
    """Pairs of a query and a key that these ranks compute, as a multiple of what ranks compute on average."""
    mask_way: str
    """How keys and values come to all ranks: ``ring`` or ``gather``."""
    mask_ranks: int
    """Ranks that divide a sequence."""
    mask_bytes: int
    """Of a message with keys or values, or of what each rank gives to a collective."""
    mask_file: str
    """Where they are sent."""
    mask_line: int
    block_s: float
    """Mean seconds of a block that is not masked: all queries of a part with all keys of another one."""
    mask_share: float
    """Part of how ranks differ in the rounds that the mask explains."""
