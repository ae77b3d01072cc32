"""What the processes of a run are called: "rank 3", or "rollout 3" where there are several worlds of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

RANK = "rank"
"""What a process is called where all are of one world."""
_MOST_NUMBERS = 12
_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class ProcessNames:
    """Names of processes by their number in the run, which all arrays count by.

    Without a row a process is "rank N".
    """

    role: tuple[str, ...] = ()
    """Role of each ``[processes]``; empty where there is one world, and no more to say than a rank."""
    number: tuple[int, ...] = ()
    """Its number in its role ``[processes]``: its rank in its world, behind the worlds of the same role before it; -1
    for one that is alone and was never numbered."""
    of: tuple[int, ...] = ()
    """The process in whose name it has its number, -1 for none ``[processes]``; empty where all have -1."""
    host: tuple[str, ...] = ()
    """Name of the host of each, "" where unknown ``[processes]``; empty where the run has one host."""
    _total: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for role in self.role:
            self._total[role] = self._total.get(role, 0) + 1

    @property
    def several(self) -> bool:
        """Whether processes have roles."""
        return bool(self.role)

    def role_of(self, process: int) -> str:
        """Role of one, "rank" where there are none."""
        return self.role[process] if 0 <= process < len(self.role) else RANK

    def role_numbers(self) -> list[int]:
        """A number for the role of each process; empty where all have the same.

        >>> ProcessNames(("driver", "rollout", "rollout"), (-1, 0, 1)).role_numbers()
        [0, 1, 1]
        """
        numbers = {role: number for number, role in enumerate(dict.fromkeys(self.role))}
        return [numbers[role] for role in self.role] if len(numbers) > 1 else []

    def number_of(self, process: int) -> int:
        """Its number in its role."""
        return self.number[process] if 0 <= process < len(self.number) else int(process)

    def of_whom(self, process: int) -> int:
        """The process that it belongs to, -1 for none."""
        return self.of[process] if 0 <= process < len(self.of) else -1

    def one(self, process: int) -> str:
        """The name of one.

        >>> ProcessNames().one(3)
        'rank 3'
        >>> ProcessNames(("driver", "rollout", "rollout"), (-1, 0, 1)).one(2)
        'rollout 1'
        >>> ProcessNames(("driver", "rollout", "rollout"), (-1, 0, 1)).one(0)
        'the driver'
        >>> ProcessNames(("rank", "pool worker", "pool worker"), (0, 0, 1), (-1, 0, 0)).one(2)
        'pool worker 1 of rank 0'
        """
        role, number = self.role_of(process), self.number_of(process)
        return self._belonging(f"{role} {number}" if number >= 0 else f"the {role}", process)

    def _belonging(self, name: str, process: int) -> str:
        """A name, with whom it belongs to."""
        whom = self.of_whom(process)
        return f"{name} of {self.one(whom)}" if whom >= 0 else name

    def many(self, processes: Iterable[int], total: int = 0) -> str:
        """Names of some, consecutive ones as a range. ``total``: how many the run has, 0 not to say "all".

        >>> ProcessNames().many([0, 1, 2, 5, 7], 16)
        'ranks 0-2, 5, 7'
        >>> ProcessNames().many(range(4), 4)
        'all 4 ranks'
        >>> names = ProcessNames(("driver", "rollout", "rollout", "trainer", "trainer"), (-1, 0, 1, 0, 1))
        >>> names.many([1, 2, 4])
        'rollout 0, 1 and trainer 1'
        >>> names.many([1, 2], 5)
        'all 2 rollout processes'
        >>> names = ProcessNames(("rank", "pool worker", "pool worker", "pool worker"), (0, 0, 1, 2), (-1, 0, 0, 0))
        >>> names.many([0, 2, 3], 5)
        'rank 0 and pool worker 1, 2 of rank 0'
        """
        ordered = sorted(set(processes))
        if not ordered:
            return "no rank" if not self.several else "no process"
        if len(ordered) == 1:
            return self.one(ordered[0])
        if not self.several:
            return f"all {total} ranks" if len(ordered) == total else f"ranks {numbers(ordered)}"
        if len(ordered) == total:
            return f"all {total} processes"
        parts = []
        for role in dict.fromkeys(self.role_of(process) for process in ordered):
            mine = [process for process in ordered if self.role_of(process) == role]
            if len(mine) == 1:
                parts.append(self.one(mine[0]))
            elif total and len(mine) == self._total.get(role):
                parts.append(f"all {len(mine)} {role} processes")
            else:
                for whom in dict.fromkeys(self.of_whom(process) for process in mine):
                    some = [process for process in mine if self.of_whom(process) == whom]
                    name = f"{role} {numbers(sorted(self.number_of(process) for process in some))}"
                    parts.append(self.one(some[0]) if len(some) == 1 else self._belonging(name, some[0]))
        if len(parts) > _MOST_LISTED:
            parts = [*parts[: _MOST_LISTED - 1], f"{len(parts) - _MOST_LISTED + 1} more"]
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"

    def placed(self, processes: Iterable[int], total: int = 0) -> str:
        """Names of some, with their host where all are on one of several.

        >>> names = ProcessNames(host=("a", "a", "b", "b"))
        >>> names.placed([2]), names.placed([2, 3], 4), names.placed([1, 2], 4)
        ('rank 2 (b)', 'ranks 2, 3 (all of host b)', 'ranks 1, 2')
        """
        some = sorted(set(processes))
        text = self.many(some, total)
        on = {self.host[process] if 0 <= process < len(self.host) else "" for process in some}
        if len(on) != 1 or "" in on or not self.host:
            return text
        (host,) = on
        whole = len(some) > 1 and len(some) == self.host.count(host)
        return f"{text} (all of host {host})" if whole else f"{text} ({host})"

    def on_hosts(self, hosts: Sequence[str]) -> ProcessNames:
        """The same names, with the hosts of all, where there are several."""
        several = len({host for host in hosts if host}) > 1
        return ProcessNames(self.role, self.number, self.of, tuple(hosts)) if several else self

    def listed(self, processes: Iterable[int]) -> str:
        """Names of some, one by one where there is one world.

        >>> ProcessNames().listed([2, 1, 0])
        'ranks 0, 1, 2'
        """
        ordered = sorted(set(processes))
        if self.several or len(ordered) < 2:
            return self.many(ordered)
        return f"ranks {', '.join(map(str, ordered[:_MOST_LISTED]))}{', ...' * (len(ordered) > _MOST_LISTED)}"

    def count(self, processes: int) -> str:
        """How many processes a run has.

        >>> ProcessNames().count(1), ProcessNames().count(8)
        ('1 rank', '8 ranks')
        >>> ProcessNames(("driver", "rollout", "rollout"), (-1, 0, 1)).count(3)
        '3 processes (1 driver, 2 rollout)'
        """
        if not self.several:
            return "1 rank" if processes == 1 else f"{processes} ranks"
        return f"{processes} processes ({', '.join(f'{count} {role}' for role, count in self._total.items())})"


def numbers(ordered: list[int]) -> str:
    """Ascending numbers as words, consecutive ones as a range.

    >>> numbers([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7, 8'
    """
    spans: list[list[int]] = []
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [
        str(first) if first == last else (f"{first}, {last}" if last == first + 1 else f"{first}-{last}")
        for first, last in spans
    ]
    return ", ".join([*words[:_MOST_NUMBERS], "..."] if len(words) > _MOST_NUMBERS else words)
