"""The end of a job that was started on several hosts: one start reports, when the others have ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scalana.job import meeting
from scalana.job.meeting import Place
from scalana.job.parts import Part
from scalana.runtime.record import layout

LEAST_PATIENCE_S = 30.0
PATIENCE = 0.1
"""Part of the run, by which the others may be late."""
_QUIET_S = 2.0
"""A shorter wait is not announced."""
_LOOK_S = 0.2


@dataclass(frozen=True)
class Others:
    """The other starts of a job, as the folder shows them."""

    going: tuple[str, ...]
    """Hosts of those that began here and have not ended."""
    absent: int
    """How many never began here."""

    @property
    def none(self) -> bool:
        """Whether all have ended."""
        return not self.going and not self.absent

    def __str__(self) -> str:
        named = ", ".join(dict.fromkeys(self.going))
        unknown = f"{self.absent} that did not start here" if self.absent else ""
        return " and ".join(part for part in (named, unknown) if part)


def reports(place: Place, part: Part, seconds: float, say: Callable[[str], None]) -> bool:
    """Whether the report is the task of a start that has ended; then the others have ended, or are not waited for.

    Args:
        place: Where it recorded.
        part: What it started.
        seconds: How long that took.
        say: Writes a line for the user.
    """
    if not place.name or not os.path.isdir(place.folder):
        return True
    if place.reports:
        try:
            lacking = wait_for_others(place, part, patience_s(seconds), say)
        except KeyboardInterrupt:
            lacking = others_of(place, part)
        if not lacking.none:
            say(f"reporting without the records of {lacking}")
        return True
    head = head_of(place)
    if head:
        say(f"recorded; {head} reports ({place.folder})")
    else:
        say(
            f"recorded in {os.uname().nodename}:{place.folder}; copy this folder to the host of the first start, and "
            f"there: scalana report DIR {os.path.basename(place.folder)}"
        )
    return False


def say_start(place: Place, info: Mapping[str, object]) -> None:
    """Write into the run folder how a start goes; the one that reports does so for the run.

    Raises:
        OSError: it cannot be written.
    """
    if place.name:
        said = {**info, **_read_host(place)}
        layout.write_json(layout.start_file(place.folder, place.name), said)
    if place.reports or ("exit_code" in info and not os.path.exists(layout.info_file(place.folder))):
        layout.write_info(place.folder, info)


def others_of(place: Place, part: Part) -> Others:
    """The other starts that have not ended."""
    starts = meeting.starts_in(place.folder)
    going = tuple(
        str(start.get("host") or name)
        for name, start in starts.items()
        if name != place.name and "exit_code" not in start
    )
    return Others(going, max(part.count - len(starts), 0))


def wait_for_others(place: Place, part: Part, patience_s: float, say: Callable[[str], None]) -> Others:
    """Wait until all other starts have ended, at most for so long. Returns those that have not."""
    begin, announced = time.monotonic(), False
    while not (others := others_of(place, part)).none:
        waited_s = time.monotonic() - begin
        if waited_s > patience_s:
            break
        if not announced and waited_s > min(_QUIET_S, patience_s / 2):
            announced = True
            say(f"waiting for {others}, up to {patience_s:.0f} s (Ctrl-C: report now)")
        time.sleep(min(_LOOK_S, patience_s))
    return others


def head_of(place: Place) -> str:
    """Host of the start that reports, empty where it is not in the folder."""
    starts = meeting.starts_in(place.folder).values()
    return next((str(start.get("host", "")) for start in starts if start.get("reports")), "")


def patience_s(seconds: float) -> float:
    """How long a job of so many seconds is waited for."""
    return max(LEAST_PATIENCE_S, PATIENCE * seconds)


def _read_host(place: Place) -> dict[str, Any]:
    return {"host": os.uname().nodename, "reports": place.reports}
