"""Writes the wrappers of the native recorder that follow from the table of operations, for the header of one MPI:
one C function per call of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalana.runtime.mpi.prototypes import Prototype, prototypes
from scalana.runtime.mpi.slots import names
from scalana.runtime.operations import BY_CODE, BY_NAME, MpiCall, Role, Waits, mpi_call


@dataclass(frozen=True)
class Wrapper:
    """One function to be wrapped: its row in the table, its declaration, and the names of its arguments."""

    call: MpiCall
    prototype: Prototype

    def argument(self, *what: str) -> str:
        """Name of the first argument that is one of these, empty if there is none."""
        position = self.call.position(*what)
        return f"a{position}" if position >= 0 else ""

    def second(self, what: str) -> str:
        positions = [number for number, word in enumerate(self.call.parameters) if word == what]
        return f"a{positions[1]}" if len(positions) > 1 else ""

    @property
    def arguments(self) -> list[str]:
        return [f"a{number}" for number in range(len(self.prototype.types))]

    def forwarded(self, **replaced: str) -> str:
        """The call of the library, with some arguments replaced."""
        words = [replaced.get(word, word) for word in self.arguments]
        return f"P{self.prototype.name}({', '.join(words)})"

    def nbytes(self) -> str:
        """Size of what is sent, or received where nothing is sent."""
        words = self.call.parameters
        if "partitions" in words:
            elements = f"(int64_t){self.argument('partitions')} * {self.argument('large_count')}"
            return f"volume({elements}, {self.argument('type')})"
        own = self._volume("count", "counts", "type", "types")
        other = self._volume("rcount", "rcounts", "rtype", "rtypes")
        if "Neighbor" in self.call.name or "neighbor" in self.call.name:
            return own if self.argument("count") else "0"  # a vector is as long as there are neighbours
        if "root" in words and "comm" in words and own and other and self.call.operation == BY_NAME["scatter"].code:
            # What is sent is told at the root alone.
            return f"(is_at_root({self.argument('comm')}, {self.argument('root')}) ? {own} : {other})"
        if own and other and "in" in words:
            return f"({self.argument('in')} == MPI_IN_PLACE ? {other} : {own})"
        volume = own or other or "0"
        return f"({self.argument('root')} == MPI_PROC_NULL ? 0 : {volume})" if "root" in words else volume

    def _volume(self, count: str, counts: str, kind: str, kinds: str) -> str:
        number, vector = self.argument(count), self.argument(counts)
        single, several = self.argument(kind), self.argument(kinds)
        if not single and count.startswith("r") and "op" in self.call.parameters:
            single = self.argument("type")  # a reduction has one datatype
        if number and single:
            return f"volume({number}, {single})"
        comm = self.argument("comm")
        if vector and comm and (single or several):
            large = "MPI_Count" in self.prototype.types[int(vector[1:])]
            function = "large_volumes" if large else "volumes"
            return f"{function}({vector}, {single or 'MPI_DATATYPE_NULL'}, {several or 'NULL'}, {comm})"
        return ""


def wrappers(header: str) -> str:
    """C source of the wrappers for the MPI whose header this is."""
    declared = prototypes(header)
    made: list[str] = []
    functions: list[str] = []
    for name in names():
        prototype = declared.get(name)
        call = mpi_call(name)
        if prototype is None or (call is not None and len(call.parameters) != len(prototype.types)):
            continue
        body = list(_special(name) if call is None else _body(Wrapper(call, prototype)))
        if not body:
            continue
        functions.append(name)
        made.append(f"static int wrap_{name}({prototype.parameters()})\n{{")
        made += [f"    {line}" for line in body]
        made.append("}\n")
    made.append("const agent_wrapper generated_wrappers[] = {")
    made += [f'    {{"{name}", (void *)wrap_{name}}},' for name in functions]
    made += ["    {NULL, NULL},", "};", ""]
    return "\n".join(['#include "calls/wrappers.h"', "", *made])


_MADE_APART = (
    "MPI_Comm_create_group",
    "MPI_Intercomm_create",
    "MPI_Comm_create_from_group",
    "MPI_Intercomm_create_from_groups",
)
_COLLECTIVES = {Waits.ALL, Waits.ROOT, Waits.AT_ROOT, Waits.LOWER}


def _special(name: str) -> Iterator[str]:
    if name == "MPI_Request_free":
        yield "request_freed(*a0, CALLER);"
        yield "return PMPI_Request_free(a0);"
    elif name == "MPI_Cancel":
        yield "request_cancelled(*a0);"
        yield "return PMPI_Cancel(a0);"
    elif name == "MPI_Type_free":
        yield "datatype_gone();"
        yield "return PMPI_Type_free(a0);"
    else:
        yield "flush_record();"
        yield "return PMPI_Abort(a0, a1);"


def _body(w: Wrapper) -> Iterator[str]:
    call = w.call
    operation = BY_CODE[call.operation]
    yield from _short_way(w)
    enter = "ENTER_FIRST" if operation.name == "init" else "ENTER"
    yield f"call_state s; {enter}(s, {w.forwarded()});"
    if call.name == "MPI_Session_init":
        yield f"int result = {w.forwarded()};"
        yield "MPI_Group world = MPI_GROUP_NULL;"
        yield "if (result == MPI_SUCCESS) {"
        yield '    PMPI_Group_from_session_pset(*a2, "mpi://WORLD", &world);'
        yield "}"
        yield "leave_session_init(&s, result == MPI_SUCCESS ? HANDLE(*a2) : 0, world);"
        yield "return result;"
    elif call.name == "MPI_Session_finalize":
        yield "begin_session_finalize(&s, HANDLE(*a0));"
        yield from (f"int result = {w.forwarded()};", "leave_plain(&s);", "return result;")
    elif operation.name == "init":
        yield from ("begin_init(&s);", f"int result = {w.forwarded()};", "leave_init(&s);", "return result;")
    elif operation.name == "finalize":
        yield from ("begin_finalize(&s);", f"int result = {w.forwarded()};", "leave_collective(&s);", "return result;")
    elif call.role is Role.COMPLETE:
        yield from _completion(w)
    elif call.role is Role.TEST and "win" not in call.parameters:
        yield from _test(w)
    elif call.role is Role.START and "handle" in call.parameters:
        ready = {"MPI_Pready": "1", "MPI_Pready_range": "a1 - a0 + 1", "MPI_Pready_list": "a0"}[call.name]
        yield f"begin_plain(&s, {call.operation}, 0, -1);"
        yield f"int result = {w.forwarded()};"
        yield f"leave_ready(&s, {w.argument('handle')}, result == MPI_SUCCESS ? {ready} : 0);"
        yield "return result;"
    elif call.role is Role.START:
        several = "n" in call.parameters
        requests = w.argument("request", "requests")
        number = w.argument("n") if several else "1"
        yield f"begin_plain(&s, {call.operation}, 0, -1);"
        yield f"int result = {w.forwarded()};"
        yield f"leave_start(&s, {number}, {requests});"
        yield "return result;"
    elif operation.name == "comm_create":
        yield from _creation(w)
    elif operation.name == "fence" and "newwin" in call.parameters:
        yield from _window(w)
    elif operation.name == "file_collective":
        yield from _file(w)
    elif "win" in call.parameters:
        yield from _one_sided(w)
    elif "message" in call.parameters and "source" not in call.parameters:
        yield from _matched_receive(w)
    elif operation.name == "probe":
        yield from _probe(w)
    elif operation.name == "sendrecv":
        sent = w.nbytes()
        yield f"begin_sendrecv(&s, {w.argument('comm')}, {w.argument('dest')}, {w.argument('tag')}, "
        yield f"               {w.argument('source')}, {w.argument('rtag')}, {sent});"
        if call.role is Role.POST:
            yield f"int result = {w.forwarded()};"
            yield f"leave_isendrecv(&s, result, *{w.argument('request')});"
            yield "return result;"
            return
        yield from _with_status(w, "leave_sendrecv(&s, {status});")
    elif "dest" in call.parameters or "source" in call.parameters:
        yield from _message(w)
    else:
        root = w.argument("root") or "-1"
        comm = w.argument("comm")
        if operation.name == "wait":  # for messages that are buffered
            yield f"begin_plain(&s, {call.operation}, 0, -1);"
            yield f"int result = {w.forwarded()};"
            yield "leave_plain(&s);"
        elif call.role is Role.INIT:
            yield f"begin_plain(&s, {call.operation}, group_of({comm}), -1);"
            yield f"int result = {w.forwarded()};"
            ends = f"{comm}, {root}, 0, {w.nbytes()}, PREPARED_COLLECTIVE, 0"
            yield f"leave_prepared(&s, *{w.argument('request')}, {ends});"
        else:
            yield f"begin_collective(&s, {call.operation}, {comm}, {root}, {w.nbytes()});"
            yield f"int result = {w.forwarded()};"
            if call.role is Role.POST:
                yield f"leave_post(&s, result, *{w.argument('request')});"
            else:
                yield "leave_collective(&s);"
        yield "return result;"


def _counted(w: Wrapper, counts: str, leave: str) -> Iterator[str]:
    """The short way of a call that is only counted: ``counts`` tells such a call, here without its first arguments."""
    function, arguments = counts.split("(", 1)
    yield f"counted_call counted; if (MAY_ONLY_COUNT && {function}(&counted, CALLER, {arguments}) {{"
    yield f"    int result = {w.forwarded()};"
    yield f"    {leave}"
    yield "    return result;"
    yield "}"


def _short_way(w: Wrapper) -> Iterator[str]:
    """Of the kinds of calls of which a program may make very many."""
    call, words = w.call, w.call.parameters
    operation = BY_CODE[call.operation]
    comm, nbytes = w.argument("comm"), w.nbytes()
    leave = "leave_only_counted(&counted);"
    if call.role is Role.POST:
        tag = w.argument("tag") if "source" in words else "NO_RECEIVE"
        leave = f"leave_counted_post(&counted, result, *{w.argument('request')}, {tag});"
    if call.name in ("MPI_Wait", "MPI_Waitall"):
        number = w.argument("n") or "1"
        yield from _counted(w, f"counts_wait({call.operation}, {number}, {w.argument('request', 'requests')})", leave)
    elif call.name == "MPI_Test":
        yield from _counted(
            w, f"counts_test({call.operation}, *a0)", "leave_counted_test(&counted, result == MPI_SUCCESS && *a1);"
        )
    elif call.role not in (Role.CALL, Role.POST) or {"win", "message", "file"} & set(words) or not comm:
        return
    elif operation.name == "sendrecv":
        if call.role is not Role.POST:
            ends = ", ".join(w.argument(word) for word in ("dest", "tag", "source", "rtag"))
            yield from _counted(w, f"counts_sendrecv({comm}, {ends}, {nbytes})", leave)
    elif "dest" in words or "source" in words:
        if operation.name != "probe":
            sends = "dest" in words
            peer, tag = w.argument("dest", "source"), w.argument("tag")
            ends = f"{comm}, {peer}, {tag}, {nbytes}, {'true' if sends else 'false'}"
            yield from _counted(w, f"counts_message({call.operation}, {ends})", leave)
    elif operation.name not in ("init", "finalize", "comm_create", "file_collective", "fence", "wait"):
        root = w.argument("root") or "-1"
        yield from _counted(w, f"counts_collective({call.operation}, {comm}, {root}, {nbytes})", leave)


def _message(w: Wrapper) -> Iterator[str]:
    call = w.call
    sends = "dest" in call.parameters
    peer, tag, comm = w.argument("dest", "source"), w.argument("tag"), w.argument("comm")
    if call.role is Role.INIT:
        kind = "PREPARED_SEND" if sends else "PREPARED_RECEIVE"
        yield f"begin_plain(&s, {call.operation}, group_of({comm}), -1);"
        yield f"int result = {w.forwarded()};"
        ends = f"{comm}, {peer}, {tag}, {w.nbytes()}, {kind}, {w.argument('partitions') or '0'}"
        yield f"leave_prepared(&s, *{w.argument('request')}, {ends});"
        yield "return result;"
        return
    yield f"begin_message(&s, {call.operation}, {comm}, {peer}, {tag}, {w.nbytes()}, {'true' if sends else 'false'});"
    if call.role is Role.POST:
        yield f"int result = {w.forwarded()};"
        yield f"leave_post(&s, result, *{w.argument('request')});"
        yield "return result;"
    elif sends:
        yield f"int result = {w.forwarded()};"
        yield "leave_send(&s);"
        yield "return result;"
    else:
        yield from _with_status(w, "leave_receive(&s, {status});")


def _with_status(w: Wrapper, after: str) -> Iterator[str]:
    """The call with a status of our own where the program wants none."""
    status = w.argument("status")
    yield f"MPI_Status own; MPI_Status *status = {status} == MPI_STATUS_IGNORE ? &own : {status};"
    yield f"int result = {w.forwarded(**{status: 'status'})};"
    yield after.format(status="result == MPI_SUCCESS ? status : NULL")
    yield "return result;"


def _probe(w: Wrapper) -> Iterator[str]:
    message = w.argument("message")
    yield f"begin_probe(&s, {w.argument('comm')}, {w.argument('source')}, {w.argument('tag')}, {1 if message else 0});"
    after = "leave_mprobe(&s, {status}, *" + message + ");" if message else "leave_probe(&s, {status});"
    yield from _with_status(w, after)


def _matched_receive(w: Wrapper) -> Iterator[str]:
    message = w.argument("message")
    yield f"begin_mrecv(&s, *{message}, {w.nbytes()});"
    yield f"int result = {w.forwarded()};"
    if w.call.role is Role.POST:
        yield f"leave_imrecv(&s, result, *{w.argument('request')});"
    else:
        yield "leave_mrecv(&s);"
    yield "return result;"


def _completion(w: Wrapper) -> Iterator[str]:
    single = "requests" not in w.call.parameters
    requests = w.argument("request", "requests")
    statuses = w.argument("status", "statuses")
    number = "1" if single else w.argument("n")
    name = w.call.name
    yield f"begin_wait(&s, {w.call.operation}, {number}, {requests});"
    if name == "MPI_Wait":
        yield from _with_status(w, "leave_wait(&s, 1, NULL, {status});")
    elif name == "MPI_Waitall":
        yield f"MPI_Status *statuses = own_statuses(&s, {number}, {statuses});"
        yield f"int result = {w.forwarded(**{statuses: 'statuses'})};"
        yield f"leave_wait(&s, {number}, NULL, result == MPI_SUCCESS ? statuses : NULL);"
        yield "return result;"
    elif name == "MPI_Waitany":
        yield from _with_status(w, "leave_wait(&s, *a2 == MPI_UNDEFINED ? 0 : 1, a2, {status});")
    else:  # Waitsome: n requests outcount indices statuses
        yield f"MPI_Status *statuses = own_statuses(&s, {number}, {statuses});"
        yield f"int result = {w.forwarded(**{statuses: 'statuses'})};"
        yield "leave_wait(&s, *a2 == MPI_UNDEFINED ? 0 : *a2, a3, result == MPI_SUCCESS ? statuses : NULL);"
        yield "return result;"


def _test(w: Wrapper) -> Iterator[str]:
    name = w.call.name
    if name == "MPI_Iprobe":
        yield f"begin_plain(&s, {w.call.operation}, group_of(a2), -1);"
        yield f"int result = {w.forwarded()};"
        yield "leave_counted(&s);"
        yield "return result;"
        return
    if name == "MPI_Improbe":
        yield "begin_probe(&s, a2, a0, a1, 1);"
        yield from _with_status(w, "leave_improbe(&s, *a3, {status}, *a4);")
        return
    single = "requests" not in w.call.parameters
    handle = w.argument("handle")
    requests = f"&{handle}" if handle else w.argument("request", "requests")
    number = "1" if single else w.argument("n")
    yield f"begin_wait(&s, {w.call.operation}, {number}, {requests});"
    if name.startswith("MPI_Request_get_status") or name == "MPI_Parrived":  # completes nothing
        yield from (f"int result = {w.forwarded()};", "leave_counted(&s);", "return result;")
        return
    if single:
        yield from _with_status(w, "leave_test(&s, *a1 ? 1 : 0, NULL, {status});")
        return
    if name == "MPI_Testany":
        yield from _with_status(w, "leave_test(&s, *a3 && *a2 != MPI_UNDEFINED ? 1 : 0, a2, {status});")
        return
    statuses = w.argument("statuses")
    yield f"MPI_Status *statuses = own_statuses(&s, {number}, {statuses});"
    yield f"int result = {w.forwarded(**{statuses: 'statuses'})};"
    if name == "MPI_Testall":
        yield f"leave_test(&s, *a2 ? {number} : 0, NULL, result == MPI_SUCCESS ? statuses : NULL);"
    else:
        yield "leave_test(&s, *a2 == MPI_UNDEFINED ? 0 : *a2, a3, result == MPI_SUCCESS ? statuses : NULL);"
    yield "return result;"


def _creation(w: Wrapper) -> Iterator[str]:
    name, words = w.call.name, w.call.parameters
    operation = w.call.operation
    new = w.argument("newcomm")
    if name in ("MPI_Comm_free", "MPI_Comm_disconnect"):
        yield "MPI_Comm before = *a0;"
        yield f"begin_collective(&s, {operation}, before, -1, 0);"
        yield f"int result = {w.forwarded()};"
        yield "leave_collective(&s);"
        yield "communicator_gone(before);"
    elif name in _MADE_APART:
        # Not all of the parent's ranks take part: the new communicator itself is where they meet.
        yield f"begin_plain(&s, {operation}, 0, -1);"
        yield f"int result = {w.forwarded()};"
        tag = w.argument("tag") or "0"
        yield f"leave_creation_apart(&s, result == MPI_SUCCESS ? *{new} : MPI_COMM_NULL, {tag});"
    elif w.call.role is Role.POST:
        yield f"begin_creation(&s, {operation}, {w.argument('comm')});"
        yield f"int result = {w.forwarded()};"
        yield f"leave_creation_post(&s, result, *{w.argument('request')}, {new});"
    elif "comm" in words:
        yield f"begin_creation(&s, {operation}, {w.argument('comm')});"
        yield f"int result = {w.forwarded()};"
        yield f"leave_creation(&s, result == MPI_SUCCESS ? *{new} : MPI_COMM_NULL);"
    else:
        yield f"begin_plain(&s, {operation}, 0, -1);"
        yield f"int result = {w.forwarded()};"
        yield "leave_plain(&s);"
    yield "return result;"


def _window(w: Wrapper) -> Iterator[str]:
    new = w.argument("newwin")
    if w.call.name == "MPI_Win_free":
        yield "MPI_Win before = *a0;"
        yield f"begin_on_handle(&s, {w.call.operation}, HANDLE(before), -1, 0, true);"
        yield f"int result = {w.forwarded()};"
        yield "leave_collective(&s);"
        yield "handle_gone(HANDLE(before));"
    else:
        yield f"begin_creation(&s, {w.call.operation}, {w.argument('comm')});"
        yield f"int result = {w.forwarded()};"
        yield f"leave_handle(&s, result == MPI_SUCCESS ? HANDLE(*{new}) : 0);"
    yield "return result;"


def _one_sided(w: Wrapper) -> Iterator[str]:
    win = w.argument("win")
    target = w.argument("target") or "-1"
    operation = BY_CODE[w.call.operation]
    exposure = "true" if operation.name in ("win_post", "win_wait") else "false"
    if "group" in w.call.parameters:
        yield f"begin_epoch(&s, {operation.code}, {win}, {w.argument('group')}, {exposure});"
    elif operation.name in ("win_complete", "win_wait"):
        yield f"begin_epoch_end(&s, {operation.code}, {win}, {exposure});"
    elif operation.name == "win_lock":
        lock = w.argument("lock")
        exclusive = f"{lock} == MPI_LOCK_EXCLUSIVE" if lock else "false"
        yield f"begin_lock(&s, {operation.code}, {win}, {target}, {exclusive});"
    else:
        fence = "true" if operation.waits in _COLLECTIVES else "false"
        yield f"begin_on_handle(&s, {operation.code}, HANDLE({win}), {target}, {w.nbytes()}, {fence});"
    yield f"int result = {w.forwarded()};"
    if w.call.role is Role.TEST:
        yield "leave_epoch_test(&s, result == MPI_SUCCESS && *a1);"
    elif w.call.role is Role.POST:
        yield f"leave_post(&s, result, *{w.argument('request')});"
    else:
        yield "leave_collective(&s);"
    yield "return result;"


def _file(w: Wrapper) -> Iterator[str]:
    name = w.call.name
    if name == "MPI_File_open":
        yield f"begin_creation(&s, {w.call.operation}, a0);"
        yield f"int result = {w.forwarded()};"
        yield f"leave_handle(&s, result == MPI_SUCCESS ? HANDLE(*{w.argument('newfile')}) : 0);"
    elif name == "MPI_File_close":
        yield "MPI_File before = *a0;"
        yield f"begin_on_handle(&s, {w.call.operation}, HANDLE(before), -1, 0, true);"
        yield f"int result = {w.forwarded()};"
        yield "leave_collective(&s);"
        yield "handle_gone(HANDLE(before));"
    else:
        yield f"begin_on_handle(&s, {w.call.operation}, HANDLE({w.argument('file')}), -1, {w.nbytes()}, true);"
        yield f"int result = {w.forwarded()};"
        if w.call.role is Role.POST:
            yield f"leave_post(&s, result, *{w.argument('request')});"
        else:
            yield "leave_collective(&s);"
    yield "return result;"
