"""The threads and the communication of one trace: kernels and threads of libraries, and what of the host began them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalana.graphs.arrays.types import BoolArray, IntArray
from scalana.importers.collectives import Call, group_of, nbytes_of, operation_of
from scalana.importers.kineto import COMMUNICATION
from scalana.importers.nesting import innermost, nested
from scalana.importers.trace import Kind, RankTrace
from scalana.runtime.operations import BY_NAME

_HOST_CALLS = ("c10d::", "record_param_comms")
_THREAD_CALLS = ("gloo:", "mpi:")
"""Annotations of threads that communicate for the program."""
_BACKWARD = ("autograd::engine::", "torch::autograd::")
_LAUNCHED_BEFORE_NS = 1_000


@dataclass(slots=True)
class Host:
    """The threads of a trace, and what is inside of what on them."""

    start_ns: IntArray
    end_ns: IntArray
    kind: IntArray
    track: IntArray
    name: IntArray
    around: IntArray
    """Row of the event around each, of a kernel that of its launch, -1 for none ``[events]``."""
    order: dict[int, IntArray] = field(default_factory=dict)
    """Rows of the events of every thread of the program, outer ones first, by track."""
    communicating: list[int] = field(default_factory=list)
    """Tracks that communicate for the program, and do nothing else."""
    main: int = -1
    """Track of the main thread, -1 if there is none."""

    def first_inside(self) -> IntArray:
        """The first event inside of each, -1 for none ``[events]``."""
        first = np.full(len(self.around), -1, np.int64)
        for order in self.order.values():
            inner = order[self.around[order] >= 0][::-1]
            first[self.around[inner]] = inner  # the last that is put there stays, which is the first of all
        return first


def host_of(trace: RankTrace) -> Host:
    """Sort the threads of a trace out."""
    events = trace.events
    start, duration = np.array(events.start_ns, np.int64), np.array(events.duration_ns, np.int64)
    kind, track = np.array(events.kind, np.int64), np.array(events.track, np.int64)
    name, correlation = np.array(events.name, np.int64), np.array(events.correlation, np.int64)
    host = Host(start, start + duration, kind, track, name, np.full(len(events), -1, np.int64))
    for_program = _names(trace, _THREAD_CALLS)[name]
    for number, where in enumerate(trace.tracks):
        if where.device:
            continue
        rows = np.flatnonzero(track == number)
        if for_program[rows].all():
            host.communicating.append(number)
            continue
        order, around = nested(start[rows], host.end_ns[rows])
        host.order[number] = rows[order]
        host.around[rows] = np.where(around >= 0, rows[around], -1)
    host.main = max(
        host.order,
        key=lambda number: (trace.tracks[number].process == trace.tracks[number].thread, len(host.order[number])),
        default=-1,
    )
    _put_backward_below(trace, host)
    launches = np.flatnonzero((kind == Kind.RUNTIME) & (correlation >= 0))
    known, first = np.unique(correlation[launches], return_index=True)
    on_device = np.flatnonzero((kind <= Kind.COPY) & (correlation >= 0))
    if len(known) and len(on_device):
        at = np.minimum(np.searchsorted(known, correlation[on_device]), len(known) - 1)
        fits = known[at] == correlation[on_device]
        host.around[on_device[fits]] = launches[first[at[fits]]]
    return host


def _put_backward_below(trace: RankTrace, host: Host) -> None:
    """Let what threads of the autograd engine do be inside of what the main thread did then: it asked for it."""
    if host.main < 0:
        return
    backward = _names(trace, _BACKWARD)
    for track, order in host.order.items():
        if track == host.main or not backward[host.name[order]].any():
            continue
        outer = order[host.around[order] < 0]
        outer = outer[host.kind[outer] != Kind.RUNTIME]
        host.around[outer] = innermost(host.start_ns, host.end_ns, host.order[host.main], host.start_ns[outer])


def calls_of(trace: RankTrace, host: Host) -> list[Call]:
    """The communication of a trace, in the order in which it began."""
    kernels = np.flatnonzero((host.kind == Kind.KERNEL) & _matching(trace)[host.name])
    calls = [_of_kernel(trace, host, row) for row in kernels[np.argsort(host.start_ns[kernels])].tolist()]
    if not calls:
        calls = _of_threads(trace, host)
    numbers = [(call.group, call.ranks, call.seq) for call in calls]
    if len(set(numbers)) < len(numbers):  # one number for several kernels tells nothing
        for call in calls:
            call.seq = -1
    return calls


def _names(trace: RankTrace, beginnings: tuple[str, ...]) -> BoolArray:
    return np.array([name.startswith(beginnings) for name in trace.names], np.bool_)


def _matching(trace: RankTrace) -> BoolArray:
    return np.array([COMMUNICATION.search(name) is not None for name in trace.names], np.bool_)


def _of_kernel(trace: RankTrace, host: Host, row: int) -> Call:
    """The call that a kernel is the device's side of."""
    arguments: dict[str, Any] = dict(trace.arguments.get(row, {}))
    names = [str(arguments.get("Collective name", ""))]
    caller, above = -1, int(host.around[row])
    while above >= 0:
        name = trace.names[host.name[above]]
        if name.startswith(_HOST_CALLS) or COMMUNICATION.match(name):
            names.append(name)
            if name.startswith(_HOST_CALLS):
                caller = above
                arguments = {**trace.arguments.get(above, {}), **arguments}
        elif caller >= 0:
            break
        above = int(host.around[above])
    names = [*dict.fromkeys((str(arguments.get("Collective name", "")), *names)), trace.names[host.name[row]]]
    group, ranks = group_of(arguments, trace.groups)
    operation = operation_of(*filter(None, names))
    seq = arguments.get("Seq", -1)
    return Call(
        operation,
        group,
        ranks,
        int(host.start_ns[row]),
        int(host.end_ns[row]),
        caller if caller >= 0 else int(host.around[row]),
        row,
        nbytes_of(arguments),
        seq if isinstance(seq, int) else -1,
        _peer(operation, arguments, ranks),
        str(arguments.get("Comms Id", "")),
    )


def _peer(operation: int, arguments: dict[str, Any], ranks: tuple[int, ...]) -> int:
    key = {BY_NAME["send"].code: "Dst Rank", BY_NAME["recv"].code: "Src Rank"}.get(operation)
    peer = arguments.get(key) if key else None
    if not isinstance(peer, int) or peer < 0:
        return -1
    return ranks[peer] if peer < len(ranks) else peer


def _of_threads(trace: RankTrace, host: Host) -> list[Call]:
    """Calls that threads of a library carry out, as gloo's do, each with the operator that began it."""
    begun = np.flatnonzero((host.kind == Kind.OPERATOR) & _names(trace, ("c10d::",))[host.name])
    begun = begun[np.argsort(host.start_ns[begun])]
    waiting = [(row, operation_of(trace.names[host.name[row]])) for row in begun.tolist()]
    rows = np.flatnonzero((host.kind == Kind.ANNOTATION) & _names(trace, _THREAD_CALLS)[host.name])
    calls = []
    for row in rows[np.argsort(host.start_ns[rows])].tolist():
        operation = operation_of(trace.names[host.name[row]].partition(":")[2])
        latest = host.start_ns[row] + _LAUNCHED_BEFORE_NS
        found = next(
            (one for one in waiting if one[1] == operation and host.start_ns[one[0]] <= latest),
            None,
        )
        if found is not None:
            waiting.remove(found)
        group, ranks = group_of(trace.arguments.get(row, {}), trace.groups)
        start, end = int(host.start_ns[row]), int(host.end_ns[row])
        calls.append(Call(operation, group, ranks, start, end, found[0] if found else -1, row))
    return calls
