"""What a kind of finding is: its name, what is said of one, and what its seconds are."""

from __future__ import annotations

from dataclasses import dataclass

OF_WAITING = "of waiting"
OF_LONGER_WORK = "of extra task time"
OF_IDLE_THREADS = "of idle threads"
OF_GENERATING = "of generating"
OF_IDLING = "of pipeline idle time"
OF_DATA = "of waiting for data"
OF_EXPERTS = "of waiting for experts"
OF_ALL = "of all ranks"
OF_LOSS = "more than with ideal scaling"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said of a finding, in one sentence."""

    text: str
    needs: tuple[str, ...] = ()
    """Keys of the evidence without which it cannot be said."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of finding."""

    name: str
    meaning: str
    """What ``docs/report.md`` says of it, after its name."""
    rule: str
    """Short description as a rule (SARIF)."""
    claims: tuple[Claim, ...]
    """The first that the evidence allows is made; the last needs nothing. None where the report compares sizes."""
    compares: bool = False
    """Whether the claim is what the ranks spend at the place beside the others, where that is known."""
    spends: bool = True
    """Whether what the ranks spend at the place is put behind other claims."""
    advice: str = ""
    """What to do about any finding of this kind; empty where its evidence decides."""
    arrival: str = "is late"
    """What a rank does at the end of the way from the symptom to the cause."""
    unit: str = OF_WAITING
    """What the seconds of ``lost_s`` are."""
    predicts: bool = True
    """Whether a saving can be predicted at all."""
    mended: str = "without it"
    """When the run would be as much shorter as is predicted."""
    unmended: str = "Fixing only this would not shorten the run: another delay takes its place"
    """What is said where nothing would be saved."""
    is_on_device: bool = False
    """Whether it is devices that take longer, rather than the ranks' hosts."""
    is_shared: bool = False
    """Whether it is what all ranks spend, rather than what some do more than others."""
    is_last: bool = False
    """Whether it comes after all faults, whatever it would save: it may be what the program is for."""
    is_fault: bool = True
    """Whether something is wrong; else it is known what would be better, and it comes after all faults."""
