"""Changes of which an account knows what they would bring."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A change of the program, or of how it is run."""

    text: str
    """What is changed, in words."""
    step_s: float
    """What a step takes."""
    then_s: float
    """What a step would take with the change, as predicted."""
    steps: int
    """Of the run."""
    heading: str
    """Of the section that has more."""
    enlarges_job: bool = False
    """Whether it makes the job larger than the run was: more processes, devices or microbatches."""

    @property
    def run_s(self) -> float:
        """What all steps take."""
        return self.step_s * self.steps

    @property
    def saving_s(self) -> float:
        """By how much the run would be shorter."""
        return (self.step_s - self.then_s) * self.steps
