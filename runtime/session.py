"""The recording of this process, for all that add to it: whether there is one, and what this process is in the job.

:mod:`.recorder` begins and ends it.
"""

from __future__ import annotations

import os
import sys

from scalana.runtime.record import layout
from scalana.runtime.typed import Any, Callable

LAUNCHER_RATE_HZ = 10.0
PARENT_VARIABLE = "SCALANA_PARENT"
"""``<pid>:<record file>:<1 once the process group is initialised>`` of the rank from which a process descends."""

_LAUNCHES = frozenset(("torchrun", "accelerate", "torch.distributed.run", "torch.distributed.launch"))
"""What stands at the beginning of the command line of a process that starts ranks of torch."""

core: Any = None
"""The extension ``scalana.runtime._core`` while this process records, else ``None``."""
run_folder = ""
record_path = ""
process_role = "process"
"""What this process is: ``rank``, ``member``, ``spare``, ``child``, ``launcher`` or ``process``."""
part = ""
"""The role of this process in the job, such as ``rollout``; empty while nothing tells."""
rate_hz = layout.DEFAULT_RATE_HZ
SOURCES = ("recorder", "framework", "torchrun", "environment", "program")
"""Who tells what a process is, the weakest first: a recorder that sees it take part, the framework that starts it for
something, launchers, and the program."""
began_at = (0, 0)
"""When the record began, and what the CPU clock of the thread that began it showed, in ns."""
_part_source = ""
_made = 0
on_start: list[Callable[[], None]] = []
on_stop: list[Callable[[], None]] = []
ends: list[Callable[[], None]] = []
"""What ends the record of this process, for those that the recorder itself needs."""


def active() -> bool:
    """Whether this process is being recorded."""
    return core is not None


def folder() -> str:
    """Run folder of the recording, empty while there is none."""
    return run_folder if core is not None else ""


def note(text: str) -> None:
    """Tell once, in the record, that something could not be recorded."""
    try:
        if core is not None:
            core.note(text)
    except Exception:
        pass


def pass_on(failure: BaseException) -> None:
    """Raise again what a handler of signals raised, which came while something of ours was done: it is the program's.
    To be called where a failure would be left alone."""
    signal = sys.modules.get("signal")
    if signal is None or failure.__traceback__ is None:
        return
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {getattr(getattr(handler, "__func__", handler), "__code__", None) for handler in handlers}
    place = failure.__traceback__.tb_next
    while place is not None:
        if place.tb_frame.f_code in codes:
            raise failure
        place = place.tb_next


def when_started(function: Callable[[], None]) -> None:
    """Call ``function`` at each later start of a record in this process (after a fork, in a new ``profile``)."""
    on_start.append(function)


def when_stopping(function: Callable[[], None]) -> None:
    """Call ``function`` each time before a record of this process ends."""
    on_stop.append(function)


def end_record() -> None:
    """This process is none of the program's: record no more of it."""
    for function in ends:
        function()


def tell_part(name: str, rank: int = -1, source: str = "recorder") -> None:
    """The role of this process in the job, and its number in it (-1 where that is not known).

    ``source`` is one of :data:`SOURCES`; what a stronger one said stays, and what a recorder guessed first.
    """
    global part, _part_source
    if core is None or _part_source and _strength(source) < _strength(_part_source) + (source == "recorder"):
        return
    if name and (name, source) != (part, _part_source):
        part, _part_source = name, source
        core.meta("part", name)
        core.meta("part_source", source)
    if rank >= 0:
        core.meta("part_rank", str(rank))


def _strength(source: str) -> int:
    return SOURCES.index(source)


def forget_part() -> None:
    """What was told was of another process, from which this one was forked."""
    global part, _part_source
    part = _part_source = ""


def become_member(name: str, rank: int = -1, world: str = "", source: str = "recorder", first: int = 0) -> None:
    """This process has a role of its own in the job, and is told apart in its report, if it has no rank.

    A rank is one already, and only takes the name of a role from who says it on purpose. ``first``: what the one of
    rank 0 is called by, where they are not counted from 0.
    """
    global process_role
    if core is None or process_role == "launcher" or (process_role == "rank" and source == "recorder"):
        return
    tell_part(name, rank, source)
    if world:
        core.meta("world", world)
    if first:
        core.meta("part_first", str(first))
    if process_role == "spare":
        core.set_rate(rate_hz)
    if process_role in ("process", "child", "spare"):
        process_role = "member"
        core.meta("role", "member")


def made(what: int) -> None:
    """This process had another one made, which knows itself by ``what``: by the order of this they are numbered."""
    global _made
    if core is not None:
        core.meta(f"made {what}", str(_made))
        _made += 1


def made_as(what: int) -> None:
    """Who had this process made knows it by ``what``."""
    if core is not None:
        core.meta("made_as", str(what))


def become_spare() -> None:
    """This process waits until it is given something to do, which may never come."""
    if core is not None and process_role == "spare":
        core.set_rate(min(rate_hz, LAUNCHER_RATE_HZ) or LAUNCHER_RATE_HZ)
        core.flush()  # it may be ended at any time


def become_rank(rank: int, world_size: int, world: str = "") -> None:
    """This process was told its rank by ``init_process_group``.

    ``world`` tells the process group from others; it counts where no launcher started the ranks.

    A process that descends from a rank keeps being that rank's child, unless its ancestor never joined a process
    group: then the ancestor only wrapped the program, and this process is the rank.
    """
    global process_role
    if core is None:
        return
    parent = os.environ.get(PARENT_VARIABLE, "").split(":")
    if process_role == "child" and (len(parent) < 3 or parent[2] == "1"):
        return
    if process_role == "spare":
        core.set_rate(rate_hz)
    if process_role in ("member", "spare") and world:
        core.meta("world", world)
    process_role = "rank"
    core.meta("role", "rank")
    core.meta("rank", str(rank))
    core.meta("world_size", str(world_size))
    core.meta("local_rank", os.environ.get("LOCAL_RANK", ""))
    core.meta("rank_source", "init_process_group")
    tell_children(initialised=True)


def belong_to(identity: str, key: str) -> None:
    """This process has an identity in common with others of its job, which may have other folders: they are put
    together by it. ``key`` is where the record says it."""
    if core is None or "/" in identity:
        return
    core.meta(key, identity)
    try:
        layout.note_world(run_folder, identity)
    except OSError:  # the record says it, too
        pass


def become_launcher() -> None:
    """This process starts the ranks, so a rank in its environment (of a job manager's task) is not its own."""
    global process_role
    if core is None or process_role == "child":
        return
    if os.environ.get("RANK") and not _LAUNCHES.intersection(map(os.path.basename, sys.orig_argv[:4])):
        return  # a rank that imports what launches; the rank in the environment of torchrun is that of its pod
    process_role = "launcher"
    core.meta("role", "launcher")
    core.meta("rank", "")
    # It only waits for the ranks, on a core that one of them needs.
    core.set_rate(min(rate_hz, LAUNCHER_RATE_HZ) or LAUNCHER_RATE_HZ)
    if os.environ.get(PARENT_VARIABLE, "").startswith(f"{os.getpid()}:"):
        del os.environ[PARENT_VARIABLE]


def tell_children(initialised: bool) -> None:
    """Let processes that this one starts know whose children they are."""
    os.environ[PARENT_VARIABLE] = f"{os.getpid()}:{os.path.basename(record_path)}:{initialised:d}"
