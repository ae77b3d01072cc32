"""What the calls in a line of the program say of the time that is spent there: one table, for one rank and for all."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceCall:
    """Calls that mean the same."""

    nature: str
    """What the line does, as a word of its own."""
    pattern: re.Pattern[str]
    advice: str
    """What to do where a rank is late by it."""
    is_rest: bool = False
    """Whether it says something of time off the CPU alone."""

    def is_in(self, line: str) -> bool:
        """Whether a line of source makes such a call."""
        return self.pattern.search(line) is not None


SOURCE_CALLS: tuple[SourceCall, ...] = (
    SourceCall(
        "collecting",
        re.compile(r"\bgc\.collect\("),
        "Garbage collection visits every object of the rank: call gc.freeze() after the set-up, collect less often, "
        "and check which objects only this rank keeps.",
    ),
    SourceCall(
        "locking",
        re.compile(r"\b(flock|lockf)\(|\bFileLock\("),
        "Ranks serialise on this file lock: do less while it is held, or give each rank its own.",
    ),
    SourceCall(
        "writing",
        re.compile(
            r"\b(fsync|fdatasync|os\.sync)\(|\btorch\.save\(|\bsave_(checkpoint|pretrained|state|model)\(|"
            r"\bnp\.savez?(_compressed)?\(|\bto_(csv|parquet|json|pickle)\("
        ),
        "Writing to disk blocks the rank: write less often, or in a background thread or process.",
    ),
    SourceCall(
        "pickling",
        re.compile(r"\b(all_gather_object|gather_object|\w+_object_list)\(|\bpickle\.(dump|load)s?\("),
        "This pickles objects and unpickles them on arrival: send less, or send tensors.",
    ),
    SourceCall(
        "allocating",
        re.compile(r"\bempty_cache\("),
        "Each call makes PyTorch allocate the memory again: call this less often.",
    ),
    SourceCall(
        "starting programs",
        re.compile(r"\b(subprocess\.(run|call|check_\w+)|os\.system|popen|system|waitpid)\("),
        "The rank waits for a program that it starts here: start it earlier, less often, or in the background.",
    ),
    SourceCall(
        "sleeping",
        re.compile(r"\b((u|nano|clock_nano|thrd_)?sleep|sleep_(for|until))\("),
        "The program itself sleeps here: wait for the actual event instead, or do not sleep on ranks that others "
        "wait for.",
    ),
    SourceCall(
        "locking",
        re.compile(
            r"\b(\w+_(lock|rdlock|wrlock)|sem_wait|lock|acquire)\(|\b(lock_guard|unique_lock|scoped_lock)\b|"
            r"\bwith\s+[\w.]*(?i:lock)\b"
        ),
        "The rank waits here for a lock that others hold: hold it for less time, or let fewer share it.",
        is_rest=True,
    ),
    SourceCall(
        "joining",
        re.compile(r"\b(pthread|thrd)_join\(|\.join\(\)|\b(pthread_)?cond_(timed)?wait\("),
        "The rank waits here for its own threads: give them less work, or let the rank work meanwhile.",
        is_rest=True,
    ),
    SourceCall(
        "writing",
        re.compile(r"\.flush\(\)|\bflush\s*=\s*True\b|\bos\.p?write\(|\.writelines?\("),
        "The rank waits here until what it writes is taken: write less often, or in a background thread.",
        is_rest=True,
    ),
    SourceCall(
        "reading",
        re.compile(r"\b(p?read|readv|recv(from|msg)?|fread|fgets|fscanf|getline|accept|poll|select|epoll_wait)\("),
        "The rank blocks on input here (a file, a pipe, a socket): read ahead, or in a background thread.",
        is_rest=True,
    ),
)
"""The first that is in a line has the word."""


def source_call(line: str, rests: bool = False) -> SourceCall | None:
    """What calls in a line say of the time there; with ``rests`` also of what can only be time off the CPU."""
    return next((call for call in SOURCE_CALLS if (rests or not call.is_rest) and call.is_in(line)), None)


def source_line(file: str, line: int) -> str:
    """A line of source as it stands today, empty where there is none."""
    return linecache.getline(file, line)
