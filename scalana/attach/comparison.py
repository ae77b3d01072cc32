"""Sampled ranks, compared: which lines each is in for how much of its time, and who differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from scalana.attach.spy import Frame, Path
from scalana.attach.stacks import own_frame

_SHOWN = 0.02
"""Of the time of a rank, from which a line is shown."""
_DIFFERS = 0.1
"""Of its time, by which a rank's share differs from that of the middle rank to be named: samples of some seconds vary
by a few percent."""


@dataclass(frozen=True, slots=True)
class LineShare:
    """What part of its time each rank is in a line of the user's own, or in what that calls."""

    place: Frame
    shares: Mapping[int, float]
    """By rank, of all that were sampled."""

    @property
    def mean(self) -> float:
        """Of all ranks."""
        return sum(self.shares.values()) / len(self.shares)

    @property
    def spread(self) -> float:
        """Between the rank that is there most, and the one that is there least."""
        return max(self.shares.values()) - min(self.shares.values())

    def different(self) -> list[int]:
        """Ranks that are there for longer or shorter than most."""
        usual = median(self.shares.values())
        return [rank for rank, share in sorted(self.shares.items()) if abs(share - usual) >= _DIFFERS]


def compared(samples: Mapping[int, Mapping[Path, int]]) -> list[LineShare]:
    """The lines in which ranks were seen, those first in which ranks differ most; ``samples`` are by rank."""
    by_rank: dict[int, Counter[Frame]] = {}
    for rank, paths in samples.items():
        lines: Counter[Frame] = Counter()
        for path, count in paths.items():
            if path:
                lines[path[max(own_frame(path), 0)]] += count
        if lines:
            by_rank[rank] = lines
    whole = {rank: sum(lines.values()) for rank, lines in by_rank.items()}
    places = dict.fromkeys(place for lines in by_rank.values() for place in lines)
    rows = [LineShare(place, {rank: lines[place] / whole[rank] for rank, lines in by_rank.items()}) for place in places]
    shown = [row for row in rows if max(row.shares.values()) >= _SHOWN]
    return sorted(shown, key=lambda row: (-row.spread if row.different() else 0.0, -row.mean))


def ranks_of(rows: Sequence[LineShare]) -> list[int]:
    """The ranks that were sampled."""
    return sorted(rows[0].shares) if rows else []
