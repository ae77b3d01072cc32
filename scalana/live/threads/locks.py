"""Which threads of a process wait for a lock that another one holds, and where that one took it.

A lock is known by its address in the kernel: that of the futex that a thread waits for. Python keeps no holder of a
``Lock``, so one is said where it is certain alone: an ``RLock`` names its owner; a frame that is inside of a ``with``
block keeps the end of that block, with the object; and of ``acquire``, the source says that it was called on the way,
and the frame which object its name stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalana.live.blocked import blocked_in, futex_of
from scalana.live.threads.interpreter import (
    MOST_THREADS,
    PythonFrame,
    PythonThread,
    entered,
    layout_of,
    local,
    named,
    threads_of,
)
from scalana.live.threads.lock_source import Name, asked, taken
from scalana.live.threads.memory import Memory, UnreadableError
from scalana.live.threads.objects import Layout, Objects
from scalana.report import names

_LOCK, _RECURSIVE, _CONDITION = "_thread.lock", "_thread.RLock", "Condition"
_SEMAPHORE, _OWNER = 16, 24
"""Where a lock has the address of its semaphore, and a recursive one the thread that owns it."""
_LIBRARY = "/threading.py"
_WAITS = "Condition.wait"
"""In there, a condition has released its lock."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A lock that a thread holds."""

    tid: int
    frame: PythonFrame
    """The function that took it, where that is now."""
    line: int
    """At which it took it; the one that it is at, where that is not known."""


@dataclass(frozen=True, slots=True)
class LockWait:
    """A thread that waits for a lock."""

    tid: int
    holder: int
    """The thread that holds it; 0 where none is seen to, -1 for one that is not in this process."""
    taken: Taken | None


def lock_waits(pid: int, layout: Layout) -> tuple[list[LockWait], dict[int, PythonThread]]:
    """All threads of a process that wait for a lock, and all of its threads by their numbers; nothing where its memory
    may not be read, or where its interpreter has its objects is not known."""
    try:
        with Memory(pid) as memory:
            return _Locks(Objects(memory, layout), pid).waits()
    except (UnreadableError, KeyError):
        return [], {}


class _Locks:
    """The locks of a process."""

    def __init__(self, objects: Objects, pid: int) -> None:
        self._objects = objects
        self._cwd = _link(f"/proc/{pid}/cwd")
        self._threads = {thread.tid: thread for thread in threads_of(objects)}
        self._futexes = {tid: futex for tid in self._threads if (futex := futex_of(pid, tid))}

    def waits(self) -> tuple[list[LockWait], dict[int, PythonThread]]:
        if not self._futexes:
            return [], self._threads
        held: dict[int, list[Taken]] = {}
        for thread in self._threads.values():
            for lock, one in self._held(thread):
                held.setdefault(lock, []).append(one)
        found = [wait for tid, futex in self._futexes.items() if (wait := self._wait(tid, futex, held)) is not None]
        return sorted(found, key=lambda wait: wait.tid), self._threads

    def _wait(self, tid: int, futex: int, held: Mapping[int, Sequence[Taken]]) -> LockWait | None:
        """What a thread waits for; None where that is no lock."""
        frames = self._threads[tid].frames
        candidates = {*held, *self._asked(frames)}
        lock = next((lock for lock in candidates if self._semaphore(lock) == futex), 0)
        if not lock:
            return None
        holders = held.get(lock, ())
        if self._objects.type_name(lock) == _RECURSIVE:
            holder = self._owner(self._objects.memory.word(lock + _OWNER))
        else:
            several = {one.tid for one in holders}
            holder = several.pop() if len(several) == 1 else 0
        return LockWait(tid, holder, next((one for one in holders if one.tid == holder), None))

    def _owner(self, ident: int) -> int:
        """The thread that Python knows by a number: -1 where this process has none."""
        if not ident or len(self._threads) >= MOST_THREADS:
            return 0
        return next((thread.tid for thread in self._threads.values() if thread.ident == ident), -1)

    def _asked(self, frames: Sequence[PythonFrame]) -> Iterator[int]:
        """Locks that the innermost frame of a thread may ask for."""
        if frames and frames[0].file.endswith(_LIBRARY):
            yield self._lock_in(local(self._objects, frames[0], "self"))
        elif frames:
            for name in asked(os.path.join(self._cwd, frames[0].file), frames[0].line):
                yield self._lock_in(self._object(frames[0], name))

    def _held(self, thread: PythonThread) -> Iterator[tuple[int, Taken]]:
        """The locks that a thread has taken, by what its frames keep."""
        released = set()
        for frame in thread.frames:
            try:
                if frame.function == _WAITS and frame.file.endswith(_LIBRARY):
                    released.add(self._lock_in(local(self._objects, frame, "self")))
                    continue
                lines = dict(self._named_locks(frame))
                for lock in {*lines, *map(self._lock_in, entered(self._objects, frame))} - released - {0}:
                    yield lock, Taken(thread.tid, frame, lines.get(lock, frame.line))
            except UnreadableError:
                continue

    def _named_locks(self, frame: PythonFrame) -> Iterator[tuple[int, int]]:
        """Locks that the source of a frame says are held, and the lines that took them."""
        for name, line in taken(os.path.join(self._cwd, frame.file), frame.line):
            if lock := self._lock_in(self._object(frame, name)):
                yield lock, line

    def _object(self, frame: PythonFrame, name: Name) -> int:
        found = named(self._objects, frame, name[0])
        for attribute in name[1:]:
            found = self._objects.attribute(found, attribute) if found else 0
        return found

    def _lock_in(self, address: int) -> int:
        """An object that is a lock, or the lock of a condition; 0 for anything else."""
        kind = self._objects.type_name(address)
        if kind in (_LOCK, _RECURSIVE):
            return address
        return self._lock_in(self._objects.attribute(address, "_lock")) if kind == _CONDITION else 0

    def _semaphore(self, lock: int) -> int:
        try:
            return self._objects.memory.word(lock + _SEMAPHORE)
        except UnreadableError:
            return 0


def lock_lines(pid: int, meta: Mapping[str, str]) -> list[str]:
    """What to say of the locks that threads of a process wait for, a line each; those in a circle last.

    Args:
        pid: the process.
        meta: what its record says of it.
    """
    waits, threads = lock_waits(pid, layout_of(meta.get("interpreter", "")))
    words = _Words(pid, meta, threads)
    lines = [words.wait(wait) for wait in waits]
    waiting = {wait.tid: wait.holder for wait in waits}
    lines += [words.holder(tid) for tid in dict.fromkeys(waiting.values()) if tid > 0 and tid not in waiting]
    circle = circle_of(waiting)
    return [*lines, words.circle(circle)] if len(circle) > 1 else lines


def circle_of(holders: Mapping[int, int]) -> list[int]:
    """Threads that wait for each other in a circle, by the holder of what each waits for.

    >>> circle_of({1: 2, 2: 3, 3: 2})
    [2, 3]
    >>> circle_of({1: 2, 2: 0})
    []
    """
    for first in holders:
        seen: list[int] = []
        at = first
        while at in holders and at not in seen:
            seen.append(at)
            at = holders[at]
        if at in seen:
            return seen[seen.index(at) :]
    return []


class _Words:
    """Words for the threads of a process."""

    def __init__(self, pid: int, meta: Mapping[str, str], threads: Mapping[int, PythonThread]) -> None:
        self._pid = pid
        self._cwd = meta.get("cwd", "")
        self._libraries = tuple(folder for folder in meta.get("lib_dirs", "").split(os.pathsep) if folder)
        self._threads = threads

    def wait(self, wait: LockWait) -> str:
        """What a thread waits for."""
        head = f"{self._who(wait.tid)} waits{self._place(wait.tid)} for a lock that "
        if wait.holder < 0:
            return head + "a thread holds that is not in this process: it was held when the process was forked"
        if not wait.holder:
            return head + "no thread of this process is seen to hold"
        who = "it holds itself" if wait.holder == wait.tid else f"{self._who(wait.holder)} holds"
        taken = wait.taken
        return f"{head}{who}, taken at {self._line(taken.frame, taken.line)}" if taken is not None else head + who

    def holder(self, tid: int) -> str:
        """Where a thread is that holds a lock and waits for none."""
        words = blocked_in(self._pid, tid).words
        return f"{self._who(tid)} is{self._place(tid)}" + (f", {words}" if words else "")

    def circle(self, tids: Sequence[int]) -> str:
        """Threads that wait for each other."""
        pairs = zip(tids, (*tids[1:], tids[0]), strict=True)
        return "deadlock: " + ", ".join(f"{self._who(one)} waits for {self._who(other)}" for one, other in pairs)

    def _who(self, tid: int) -> str:
        return "the main thread" if tid == self._pid else f"thread {tid}"

    def _place(self, tid: int) -> str:
        """The innermost line of the user's own code that a thread is in."""
        frames = self._threads[tid].frames
        own = (frame for frame in frames if not frame.file.startswith(("<", *self._libraries)))
        frame = next(own, frames[0] if frames else None)
        return f" at {self._line(frame, frame.line)} {frame.function}" if frame is not None else ""

    def _line(self, frame: PythonFrame, line: int) -> str:
        return names.place(names.relative(frame.file, self._cwd), line)


def _link(file: str) -> str:
    try:
        return os.readlink(file)
    except OSError:
        return ""
