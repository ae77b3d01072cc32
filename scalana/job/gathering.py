"""The end of a job that was started on several hosts: one start reports, when the others have ended."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalana.job import meeting, transfer
from scalana.job.meeting import Place
from scalana.job.parts import Part
from scalana.job.receiving import Receiver
from scalana.runtime.record import layout

LEAST_PATIENCE_S = 30.0
GRACE_S = 5.0
"""The same after a SIGTERM: the report has to be written, too, before a SIGKILL comes."""
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
        unknown = f"{self.absent} start{'s' * (self.absent > 1)} of the job on other hosts" if self.absent else ""
        return " and ".join(part for part in (named, unknown) if part)


@dataclass(frozen=True)
class Ended:
    """A start that has ended."""

    place: Place
    part: Part
    seconds: float
    exit_code: int
    wants_report: bool = True
    collect: str = ""
    """``HOST:PORT`` where the first start listens, if the user says so; ``no`` forbids it."""

    is_to_leave: bool = False
    """Whether a batch system has asked for the end of the job, and kills what is left after a while."""

    @property
    def address(self) -> tuple[str, list[int]]:
        """The host of the first start, and the ports at which it may listen; none where records stay where they are."""
        if self.collect == "no":
            return "", []
        host, _, port = self.collect.rpartition(":")
        if host and port.isdecimal():
            return host.strip("[]"), [int(port)]
        return self.part.head, transfer.ports_of(self.part.job) if self.part.head else []

    @property
    def patience_s(self) -> float:
        """How long the others are waited for."""
        return GRACE_S if self.is_to_leave else max(LEAST_PATIENCE_S, PATIENCE * self.seconds)


def reports(ended: Ended, say: Callable[[str], None]) -> bool:
    """Whether the report is the task of a start that has ended; then the others have ended, or are not waited for.

    ``say`` writes a line for the user.
    """
    place = ended.place
    if not place.name or not os.path.isdir(place.folder):
        return True
    try:
        return _lead(ended, say) if place.reports else _follow(ended, say)
    except KeyboardInterrupt:
        if not place.reports:
            _say_where(place, say)
        return place.reports


def _lead(ended: Ended, say: Callable[[str], None]) -> bool:
    """Wait for the others, and take the records of those that have none of this folder."""
    place, part = ended.place, ended.part
    _, ports = ended.address
    others = others_of(place, part)
    if others.none or not (ended.wants_report or others.absent):
        return True
    receiver = Receiver(place.folder, ports if others.absent else [])
    try:
        with receiver.open():
            lacking = wait_for_others(ended, say, lambda: receiver.receives, listens=receiver.listens)
    except KeyboardInterrupt:
        lacking = others_of(place, part)
    if lacking.absent:
        say(f"reporting without the records of {Others((), lacking.absent)}")
    if lacking.going:
        say(f"reporting although the job has not ended on {Others(lacking.going, 0)}: records may lack their end")
    return True


def _follow(ended: Ended, say: Callable[[str], None]) -> bool:
    """Leave the report to the first start, once it has the records."""
    place = ended.place
    if head := head_of(place):
        say(f"recorded; {head} reports ({place.folder})")
        return False
    host, ports = ended.address
    sender = transfer.Sender(place.name, os.uname().nodename, ended.exit_code, ended.seconds)
    if ports and send(place.folder, sender, host, ports, ended.patience_s):
        say(f"recorded, and sent to {host}, which reports (kept in {place.folder})")
    else:
        _say_where(place, say)
    return False


def _say_where(place: Place, say: Callable[[str], None]) -> None:
    name = os.path.basename(place.folder)
    here = f"{os.uname().nodename}:{place.folder}"
    say(
        f"the records of this start are in {here}; to put the job together, on the host of the first start: "
        f"rsync -a {here}/ {name}-{place.name} && scalana report {name} {name}-{place.name}"
    )


def others_of(place: Place, part: Part) -> Others:
    """The other starts that have not ended."""
    starts = meeting.starts_in(place.folder)
    going = tuple(
        str(start.get("host") or name)
        for name, start in starts.items()
        if name != place.name and "exit_code" not in start
    )
    return Others(going, max(part.count - len(starts), 0))


def wait_for_others(
    ended: Ended,
    say: Callable[[str], None],
    receives: Callable[[], bool] = lambda: False,
    *,
    listens: bool = True,
) -> Others:
    """Wait until all other starts have ended, at most as long as there is patience, and while records come.

    One that never began in the folder can come by the network only: without a listener there is little to wait for.

    Returns those that have not.
    """
    begin, announced = time.monotonic(), False
    while not (others := others_of(ended.place, ended.part)).none or receives():
        waited_s = time.monotonic() - begin
        patience_s = ended.patience_s if listens or others.going else min(ended.patience_s, GRACE_S)
        if waited_s > patience_s and not receives():
            break
        if not announced and waited_s > _QUIET_S:
            announced = True
            say(f"waiting for {others}, up to {patience_s:.0f} s (Ctrl-C: report now)")
        time.sleep(_LOOK_S)
    return others


def head_of(place: Place) -> str:
    """Host of the start that reports, empty where it is not in the folder."""
    starts = meeting.starts_in(place.folder).values()
    return next((str(start.get("host", "")) for start in starts if start.get("reports")), "")


_CONNECT_S = 2.0
_SILENCE_S = 30.0
"""How long the other end may say nothing."""
_AGAIN_S = 0.5


def send(folder: str, sender: transfer.Sender, address: str, ports: Sequence[int], patience_s: float) -> bool:
    """Send the records of a folder. Returns whether all have arrived.

    Args:
        folder: The run folder of this start.
        sender: What it is called, and how it ended.
        address: Host of the first start.
        ports: Where that may listen.
        patience_s: How long to try: it listens only when its own part of the job has ended.
    """
    identities = layout.worlds(folder)
    until = time.monotonic() + patience_s
    while identities:
        for port in ports:
            with contextlib.suppress(OSError, transfer.TransferError):
                with socket.create_connection((address, port), _CONNECT_S) as connection:
                    connection.settimeout(_SILENCE_S)
                    _send_all(connection, folder, sender, identities)
                    return True
        if time.monotonic() > until:
            return False
        time.sleep(_AGAIN_S)
    return False


def _send_all(connection: socket.socket, folder: str, sender: transfer.Sender, identities: Sequence[str]) -> None:
    """Send everything over one connection.

    Raises:
        TransferError: at the other end is no start of this job.
        OSError: the connection is lost.
    """
    with transfer.closed(connection.makefile("rwb")) as stream:  # type: ignore[arg-type]
        greeting = transfer.read_line(stream)
        if greeting.get("greeting") != transfer.GREETING:
            raise transfer.TransferError("another program listens there")
        challenge = os.urandom(16).hex()
        proofs = [transfer.proof(one, "sends", str(greeting.get("challenge"))) for one in identities]
        transfer.write_line(stream, {"proofs": proofs, "challenge": challenge})
        answer = transfer.read_line(stream)
        if not transfer.known_by([str(answer.get("proof"))], identities, "receives", challenge):
            raise transfer.TransferError("a start of another job listens there")
        transfer.write_line(stream, vars(sender))
        transfer.send_files(stream, folder, _names(folder))
        if not transfer.read_line(stream).get("kept"):
            raise transfer.TransferError("the other end could not keep the records")


def _names(folder: str) -> list[str]:
    """What is sent: records with what lies beside them, and what the run was."""
    found = ["run.json"]
    for part in (layout.RECORDS, layout.WORLDS):
        with contextlib.suppress(OSError):
            found += sorted(f"{part}/{name}" for name in os.listdir(os.path.join(folder, part)))
    return found
