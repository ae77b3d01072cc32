"""Which files can be read as a workload, and how each is recognised: one row a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scalana.workload import workload_file
from scalana.workload.costs import Decode
from scalana.workload.errors import WorkloadError
from scalana.workload.formats import areal, polytrace, slime, xtuner
from scalana.workload.formats.entries import EntryFile
from scalana.workload.trajectories import Workload


@dataclass(frozen=True, slots=True)
class Format:
    """What a tool writes."""

    name: str
    recognises: Callable[[dict[str, Any]], bool]
    """Whether a file is one, by its first entry."""
    rows: Callable[[Sequence[EntryFile]], Iterable[dict[str, Any]]]
    unit: str = "token"
    decode: Decode | None = None
    """What generation costs, where lengths are times."""


FORMATS = (
    Format("PolyTrace's lengths", polytrace.has_lengths, polytrace.lengths),
    Format("PolyTrace's turns", polytrace.has_turns, polytrace.turns),
    Format("AReaL's sessions", areal.is_session, areal.sessions, areal.UNIT, Decode(1e-3)),
    Format("slime's rollouts", slime.is_sample, slime.samples),
    Format("xtuner's rollouts", xtuner.is_rollout, xtuner.rollouts),
)
"""In the order in which they are asked."""


def read_files(files: Sequence[EntryFile]) -> Workload:
    """The workload of some files of one format.

    Raises:
        WorkloadError: they are of no known format, or of several, or damaged.
    """
    first = {file.name: file.entries[0][1] for file in files}
    own = [file for file in files if workload_file.is_workload(first[file.name])]
    if own:
        if len(files) > 1:
            raise WorkloadError(f"{own[0].name}: a workload is one file; give it alone")
        return workload_file.read(own[0].entries, own[0].name)
    formats = {file.name: next((one for one in FORMATS if one.recognises(first[file.name])), None) for file in files}
    known = {form.name: form for form in formats.values() if form is not None}
    if not known:
        names = ", ".join(["workloads of scalana", *(one.name for one in FORMATS)])
        raise WorkloadError(f"{files[0].name}: not a known format ({names}); docs/workloads.md describes scalana's own")
    if len(known) > 1:
        raise WorkloadError(f"files of different formats are no one workload: {', '.join(known)}; give one of them")
    ((form),) = known.values()
    mine = [file for file in files if formats[file.name] is form]
    try:
        rows = list(form.rows(mine))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise WorkloadError(f"{mine[0].name}: not as {form.name} are: {reason}") from error
    if not rows:
        raise WorkloadError(f"{mine[0].name}: {form.name} without a trajectory of known length")
    source = mine[0].name if len(mine) == 1 else f"{mine[0].name} and {len(mine) - 1} more"
    return workload_file.made_of(rows, form.unit, source, form.decode)
