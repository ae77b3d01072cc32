"""What to do about a call that never returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.runtime.operations import BY_CODE

if TYPE_CHECKING:
    from scalana.graphs.dependences.unmatched import OpenCall
    from scalana.graphs.lost_hosts import LostHost


_RESULT = "result"
UNENDED = (
    "A process that has put objects into a queue of multiprocessing ends only when somebody has taken them: call get() "
    "for all of them before join()."
)
"""About processes that have done their work, and do not end."""


def advise(
    rank: int,
    operation: str,
    by_rank: dict[int, OpenCall],
    circle: list[int],
    asks: bool,
    names: ProcessNames,
    for_child: bool = False,
) -> str:
    """Return what to do about a hang: a deadlock, different operations, or a rank that is elsewhere."""
    who = names.one(rank)
    if for_child:
        return (
            f"{who[0].upper()}{who[1:]} never reached this {operation}: it waits for its own process or thread, which "
            "does not return from here. If that is a forked process and waits for a lock, a thread may have held the "
            "lock at the fork: start workers with spawn or forkserver."
        )
    if circle:
        following = zip(circle, [*circle[1:], circle[0]], strict=True)
        if names.several:
            pairs = ", ".join(f"{names.one(waiting)} for {names.one(awaited)}" for waiting, awaited in following)
        else:
            pairs = "rank " + ", ".join(f"{waiting} for {awaited}" for waiting, awaited in following)
        return f"A deadlock: {pairs}. One of them must do what the other waits for before it waits itself."
    if rank in by_rank and by_rank[rank].awaited.is_untaken:
        return (
            f"{who[0].upper()}{who[1:]} waits for a call that no process has begun: compare the resources that it asks "
            "for with those of the cluster that are free, and check whether all workers wait themselves."
        )
    if rank in by_rank and operation != _RESULT:
        other = BY_CODE[by_rank[rank].operation].name
        if other == operation:
            return f"{who[0].upper()}{who[1:]} is in another {operation}: compare the sizes and types of the tensors."
        return f"Ranks disagree on the next operation: {operation} here, {other} on {who}."
    if operation == _RESULT:
        return f"{who[0].upper()}{who[1:]} never returned from this call: check what it does there."
    if asks:
        return f"{who[0].upper()}{who[1:]} never reached this {operation}: it asked for something that did not arrive."
    return f"{who[0].upper()}{who[1:]} never reached this {operation}: check what it was doing, or whether it ended."


def advise_host(host: LostHost) -> str:
    """Return what to do where the ranks that others wait for were on a host that died."""
    return (
        f"{host.name} was last heard of at {host.last_heard_s:.1f} s, and other hosts went on until "
        f"{host.others_last_s:.1f} s: the host or its network failed. Check this host, not this line."
    )
