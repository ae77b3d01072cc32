"""Ranks on other hosts preload the recorder only where their host has it.

The loader of programs complains on standard error about what it is to preload and does not find, in every process. So
where a command of ``mpirun`` names hosts, its ranks are started through a shell on their host, which looks first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from scalana.runtime.mpi.forwarding import launcher_at
from scalana.runtime.mpi.job import in_path
from scalana.runtime.record import layout

_SHELL = "/bin/sh"
_LOOK = (
    f'if [ -e "${layout.PRELOAD_VARIABLE}" ]; then '
    f'export LD_PRELOAD="${layout.PRELOAD_VARIABLE}${{LD_PRELOAD:+:$LD_PRELOAD}}"; fi; exec "$@"'
)
_LISTS = frozenset("H host hosts".split())
_FILES = frozenset("hostfile machinefile f".split())
_OF_HOSTS = _LISTS | _FILES
_WITH_VALUE = _OF_HOSTS | frozenset(
    "n np c N ppn perhost npernode npersocket launcher launcher-exec bootstrap bootstrap-exec rmk iface bind-to map-by "
    "rank-by wd wdir x timeout output-filename envlist genvlist".split()
)
_WITH_TWO = frozenset("mca gmca pmca prtemca pmixmca env genv".split())
_ALONE = frozenset(
    "allow-run-as-root oversubscribe nooversubscribe use-hwthread-cpus report-bindings display-map tag-output "
    "timestamp-output prepend-rank l q v quiet verbose genvall genvnone envall envnone pernode bynode byslot".split()
)


def hosts_named(command: Sequence[str]) -> list[str]:
    """The hosts that an ``mpirun`` names on its command line, each once, without numbers of slots.

    >>> hosts_named(["mpirun", "-H", "node0:2,node1:2", "./app", "-H", "mine"])
    ['node0', 'node1']
    """
    hosts: dict[str, None] = {}
    for option, value in _options_of(command):
        if option in _LISTS:
            hosts |= dict.fromkeys(one.partition(":")[0] for one in value.split(",") if one)
        elif option in _FILES:
            hosts |= dict.fromkeys(_hosts_in(value))
    return list(hosts)


def _hosts_in(path: str) -> list[str]:
    """The hosts that a file lists, one a line; none where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError:
        return []
    return [words[0].partition(":")[0] for words in lines if words]


def guarded(
    command: Sequence[str], environ: Mapping[str, str], before: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """A command and its environment, of which ``LD_PRELOAD`` begins with the recorder and ``before`` is the user's own,
    so that each rank preloads the recorder only where its host has it. Both as they are where the command names no
    hosts, or is not understood to the last word.

    Args:
        command: what starts the job.
        environ: its environment.
        before: its environment without the recorder.
    """
    recorder, _, _ = environ.get("LD_PRELOAD", "").partition(":")
    of_hosts = any(option in _OF_HOSTS for option, _ in _options_of(command))
    mentioned = any("LD_PRELOAD" in word for word in command)
    programs = _programs_at(command)
    if not recorder or mentioned or not of_hosts or not programs or not os.access(_SHELL, os.X_OK):
        return [*command], {**environ}
    if not all(os.sep in command[at] or in_path(command[at], environ) for at in programs):
        return [*command], {**environ}
    words = [*command]
    for at in reversed(programs):
        words[at:at] = [_SHELL, "-c", _LOOK, _SHELL]
    ours = {name: value for name, value in environ.items() if name != "LD_PRELOAD"} | {
        layout.PRELOAD_VARIABLE: recorder
    }
    return words, {**ours, "LD_PRELOAD": before["LD_PRELOAD"]} if before.get("LD_PRELOAD") else ours


def _programs_at(command: Sequence[str]) -> list[int]:
    """Where the programs of an ``mpirun`` stand, of each part between colons; none where an option is not known."""
    found, begin = [], launcher_at(command) + 1
    while 0 < begin < len(command):
        end = next((at for at in range(begin, len(command)) if command[at] == ":"), len(command))
        at = begin
        while at < end and command[at].startswith("-"):
            size = _size_of(command[at])
            if not size:
                return []
            at += size
        if at >= end:
            return []
        found.append(at)
        begin = end + 1
    return found


def _options_of(command: Sequence[str]) -> list[tuple[str, str]]:
    """The options of an ``mpirun`` before its first program, and the word behind each."""
    found, at = [], launcher_at(command) + 1
    while 0 < at < len(command) and command[at].startswith("-"):
        name, _, value = command[at].lstrip("-").partition("=")
        found.append((name, value or (command[at + 1] if at + 1 < len(command) else "")))
        at += _size_of(command[at]) or 1
    return found


def _size_of(word: str) -> int:
    """How many words an option has, 0 where it is not known."""
    name, equals, _ = word.lstrip("-").partition("=")
    if name in _ALONE:
        return 1
    if name in _WITH_TWO:
        return 3
    return (1 if equals else 2) if name in _WITH_VALUE else 0
