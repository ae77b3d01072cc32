"""What is found in a model, whichever way it was captured: operators in the order in which they run.

Each operator knows the scopes around it (modules, and the arms of captured control flow); :mod:`.build` makes the tree
out of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scalana.graphs.structure.psg import NOWHERE, Place, VertexKind

UNKNOWN = -1
"""A number that depends on data, or that there were no example inputs for."""


class ModelError(ValueError):
    """A model cannot be had; the message names it, says why and what to write."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Something that operators stand in."""

    key: str
    """Identity of one call of it: two calls of a module have two keys."""
    name: str
    """Qualified name of a module ("" for the model itself), or name of an arm."""
    class_name: str = ""
    """Qualified name of a module's class."""
    kind: VertexKind = VertexKind.REGION
    site: Place | None = None
    """Where a module is called, where that is known."""


@dataclass(slots=True)
class Operator:
    """One operator of a captured model; or, without a name, a module that is called and was not looked into."""

    name: str
    """As torch calls it, such as ``aten.linear``."""
    scopes: tuple[Scope, ...]
    """From the model inwards."""
    place: Place = NOWHERE
    """The innermost line that ran it, outside of torch's machinery for calling modules."""
    shape: tuple[int | str, ...] | None = None
    """Of the (first) output, a name where it depends on data; None where unknown, or where there is no tensor."""
    dtype: str = ""
    """Of the same, such as ``float32``."""
    flops: int = UNKNOWN
    """By the formulas of ``torch.utils.flop_counter``, which knows products, convolutions and attention; else 0."""
    bytes: int = UNKNOWN
    """Of the tensors that go in and come out; 0 for a view."""
    inputs: Sequence[int] = ()
    """Numbers of the operators whose results it reads."""


@dataclass(slots=True)
class Captured:
    """A model, as far as it could be captured."""

    operators: list[Operator] = field(default_factory=list)
    way: str = ""
    """How: ``export``, ``fx`` or ``modules``."""
    warnings: list[str] = field(default_factory=list)
    """Why not better, and what is missing."""
