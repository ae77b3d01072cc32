"""The table of communication operations: what each one is, and what it waits for.

One row per operation, shared by the recorders (which write a row's code into a record), the front ends (which find
the calls in source code) and the detectors (which derive from :class:`Waits` who waited for whom). Codes are part of
the record format: a row is never renumbered.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Waits(IntEnum):
    """What a call of an operation waits for (the release of ``BACKTRACKING``, section 1)."""

    NOBODY = 0
    """Returns without any other rank: a post, a buffered send."""
    ALL = 1
    """Every member: barrier, allreduce, allgather and kin."""
    ROOT = 2
    """Everybody but the root waits for the root: broadcast, scatter."""
    AT_ROOT = 3
    """The root waits for every member, the others for nobody: reduce, gather."""
    LOWER = 4
    """Lower ranks of the communicator: scan."""
    SENDER = 5
    """The matched sender: receive, probe."""
    RECEIVER = 6
    """The matched receiver, where the send is synchronous or large (late receiver)."""
    REQUESTS = 7
    """All the requests that it completes: wait, waitall."""
    ANY_REQUEST = 8
    """The earliest of the requests that it completes: waitany, waitsome."""
    NEIGHBOURS = 9
    """The neighbours in the topology of the communicator."""
    NAMED = 10
    """Ranks that the call names, or the epoch of its window: post, start, complete, wait, lock, flush."""
    GIVER = 11
    """The call, of whatever process or thread, that gives what this one takes: both have the same id."""


class Operation(NamedTuple):
    """One row of the table."""

    code: int
    """Number in the record."""
    name: str
    """Name in reports."""
    waits: Waits
    torch_ops: tuple[str, ...] = ()
    """Names of the c10d dispatcher operators."""
    torch_functions: tuple[str, ...] = ()
    """Names of the functions of ``torch.distributed`` that lead to it."""
    awaited: str = ""
    """What is said to be waited for in it, where its name would not tell."""


OPERATIONS: tuple[Operation, ...] = (
    Operation(0, "unknown", Waits.NOBODY),
    Operation(1, "barrier", Waits.ALL, ("barrier", "monitored_barrier_"), ("barrier", "monitored_barrier")),
    Operation(
        2,
        "allreduce",
        Waits.ALL,
        ("allreduce_", "allreduce_coalesced_"),
        ("all_reduce", "all_reduce_coalesced", "all_reduce_inplace"),
    ),
    Operation(
        3,
        "allgather",
        Waits.ALL,
        ("allgather_", "_allgather_base_", "allgather_coalesced_", "allgather_into_tensor_coalesced_"),
        (
            "all_gather",
            "all_gather_into_tensor",
            "all_gather_coalesced",
            "all_gather_object",
            "all_gather_tensor",
            "all_gather_single",
        ),
    ),
    Operation(
        4,
        "reduce_scatter",
        Waits.ALL,
        ("reduce_scatter_", "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_"),
        ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"),
    ),
    Operation(
        5,
        "alltoall",
        Waits.ALL,
        ("alltoall_", "alltoall_base_"),
        ("all_to_all", "all_to_all_single", "permute_tensor"),
    ),
    Operation(6, "broadcast", Waits.ROOT, ("broadcast_",), ("broadcast", "broadcast_object_list")),
    Operation(7, "scatter", Waits.ROOT, ("scatter_",), ("scatter", "scatter_object_list")),
    Operation(8, "reduce", Waits.AT_ROOT, ("reduce_",), ("reduce",)),
    Operation(9, "gather", Waits.AT_ROOT, ("gather_",), ("gather", "gather_object")),
    Operation(10, "send", Waits.NOBODY, ("send",), ("send", "isend", "send_object_list")),
    Operation(11, "recv", Waits.SENDER, ("recv_", "recv_any_source_"), ("recv", "irecv", "recv_object_list")),
    Operation(12, "wait", Waits.REQUESTS, (), ("wait",)),
    Operation(13, "batch_isend_irecv", Waits.NOBODY, (), ("batch_isend_irecv",)),
    Operation(14, "init_process_group", Waits.ALL, (), ("init_process_group",)),
    Operation(
        15,
        "new_group",
        Waits.ALL,
        (),
        ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group", "init_device_mesh"),
    ),
    Operation(16, "store", Waits.NOBODY, (), ()),
    Operation(17, "init", Waits.ALL),
    Operation(18, "finalize", Waits.ALL),
    Operation(19, "comm_create", Waits.ALL),
    Operation(20, "scan", Waits.LOWER),
    Operation(21, "blocking_send", Waits.RECEIVER),
    Operation(22, "sendrecv", Waits.SENDER),
    Operation(23, "probe", Waits.SENDER),
    Operation(24, "waitany", Waits.ANY_REQUEST),
    Operation(25, "test", Waits.NOBODY),
    Operation(26, "start", Waits.NOBODY),
    Operation(27, "neighbor_collective", Waits.NEIGHBOURS),
    Operation(28, "one_sided", Waits.NOBODY),
    Operation(29, "fence", Waits.ALL),
    Operation(30, "file_collective", Waits.ALL),
    Operation(31, "win_post", Waits.NAMED),
    Operation(32, "win_start", Waits.NAMED),
    Operation(33, "win_complete", Waits.NAMED),
    Operation(34, "win_wait", Waits.NAMED),
    Operation(35, "win_lock", Waits.NAMED),
    Operation(36, "win_unlock", Waits.NAMED),
    Operation(37, "win_flush", Waits.NAMED),
    Operation(38, "submit", Waits.NOBODY),
    Operation(39, "take", Waits.GIVER, awaited="a call"),
    Operation(40, "reply", Waits.NOBODY),
    Operation(41, "result", Waits.GIVER, awaited="a result"),
    Operation(42, "put", Waits.NOBODY),
    Operation(43, "get", Waits.GIVER, awaited="a message"),
    Operation(44, "blocked_put", Waits.GIVER, awaited="room in a queue"),
    Operation(45, "next_batch", Waits.GIVER, awaited="data"),
)

BY_CODE: dict[int, Operation] = {row.code: row for row in OPERATIONS}
BY_NAME: dict[str, Operation] = {row.name: row for row in OPERATIONS}
BY_TORCH_OP: dict[str, Operation] = {op: row for row in OPERATIONS for op in row.torch_ops}
BY_TORCH_FUNCTION: dict[str, Operation] = {f: row for row in OPERATIONS for f in row.torch_functions}

GIVING = tuple(BY_NAME[name].code for name in ("submit", "reply", "put"))
"""Operations of remote calls and of queues that give something; see :mod:`scalana.runtime.remote.calls`."""
TAKING = tuple(row.code for row in OPERATIONS if row.waits == Waits.GIVER)
"""Those that take it."""
SETUP = tuple(BY_NAME[name].code for name in ("init", "init_process_group", "store", "new_group"))
"""Operations by which processes set up their communication."""
IN_VAIN = 1
"""The tag of a wait for something that had not been given when it ended: one that was given up, and began anew."""
MESSAGES = (*(row.code for row in OPERATIONS if row.name.endswith("send")), *GIVING)
"""Operations by which one process hands something to one other; the instance of a message carries that of its send."""


class Role(IntEnum):
    """How a call of MPI takes part in communication."""

    CALL = 0
    """Begins it and ends it."""
    POST = 1
    """Begins it; a completion on its request ends it."""
    INIT = 2
    """Prepares it (persistent communication); a start begins it."""
    START = 3
    """Begins what was prepared."""
    COMPLETE = 4
    """Waits until what was begun has ended."""
    TEST = 5
    """Asks whether it has."""


class MpiCall(NamedTuple):
    """One function of MPI that communicates, by its C binding."""

    name: str
    """With its prefix: ``MPI_Send``."""
    operation: int
    """Code of its row in :data:`OPERATIONS`."""
    role: Role
    parameters: tuple[str, ...]
    """What each parameter is, in order; the words are the keys of :data:`MPI_TYPES`."""
    large: bool
    """Whether MPI-4 has a variant with ``MPI_Count`` counts, of the same name with ``_c`` behind it."""

    def position(self, *what: str) -> int:
        """Position of the first parameter that is one of these words, -1 if there is none."""
        return next((number for number, word in enumerate(self.parameters) if word in what), -1)

    @property
    def peer(self) -> int:
        """Position of the rank that is sent to, received from or the root; -1 if there is none."""
        return self.position("dest", "source", "root", "target")

    @property
    def elements(self) -> int:
        """Position of the number of elements that is sent (received, where nothing is sent), or of its vector."""
        return self.position("count", "large_count", "counts", "rcount", "rcounts")

    @property
    def datatype(self) -> int:
        """Position of the datatype of :attr:`elements`'s elements."""
        return self.position("type", "types", "rtype", "rtypes")

    @property
    def communicator(self) -> int:
        """Position of the communicator, or of the window or file that stands for one."""
        return self.position("comm", "win", "file")

    @property
    def request(self) -> int:
        """Position of the request or the requests."""
        return self.position("request", "requests")


MPI_TYPES: dict[str, str] = {
    # buffers; of two, the first is sent from and the second received into
    "in": "const void *",
    "out": "void *",
    "count": "int",
    "counts": "const int *",
    "large_count": "MPI_Count",
    "partitions": "int",
    "rcount": "int",
    "rcounts": "const int *",
    "displs": "const int *",
    "type": "MPI_Datatype",
    "types": "const MPI_Datatype *",
    "rtype": "MPI_Datatype",
    "rtypes": "const MPI_Datatype *",
    "op": "MPI_Op",
    # partners
    "dest": "int",
    "source": "int",
    "root": "int",
    "target": "int",
    "tag": "int",
    "rtag": "int",
    "comm": "MPI_Comm",
    "win": "MPI_Win",
    "file": "MPI_File",
    # what is completed
    "n": "int",
    "request": "MPI_Request *",
    "handle": "MPI_Request",
    "requests": "MPI_Request *",
    "message": "MPI_Message *",
    "status": "MPI_Status *",
    "statuses": "MPI_Status *",
    # the rest
    "value": "int",
    "values": "const int *",
    "result": "int *",
    "address": "MPI_Aint",
    "offset": "MPI_Offset",
    "addresses": "const MPI_Aint *",
    "text": "const char *",
    "group": "MPI_Group",
    "lock": "int",
    "info": "MPI_Info",
    "infos": "const MPI_Info *",
    "errors": "MPI_Errhandler",
    "session": "MPI_Session",
    "newsession": "MPI_Session *",
    "newcomm": "MPI_Comm *",
    "newwin": "MPI_Win *",
    "newfile": "MPI_File *",
    "argc": "int *",
    "argv": "char ***",
    "arguments": "char **",
}
"""C type of each kind of parameter. Counts and displacements are ``MPI_Count`` and ``MPI_Aint`` in a ``_c`` variant."""

_COLLECTIVES = """
Barrier          barrier        : comm
Bcast            broadcast      c out count type root comm
Gather           gather         c in count type out rcount rtype root comm
Gatherv          gather         c in count type out rcounts displs rtype root comm
Scatter          scatter        c in count type out rcount rtype root comm
Scatterv         scatter        c in counts displs type out rcount rtype root comm
Allgather        allgather      c in count type out rcount rtype comm
Allgatherv       allgather      c in count type out rcounts displs rtype comm
Alltoall         alltoall       c in count type out rcount rtype comm
Alltoallv        alltoall       c in counts displs type out rcounts displs rtype comm
Alltoallw        alltoall       c in counts displs types out rcounts displs rtypes comm
Reduce           reduce         c in out count type op root comm
Allreduce        allreduce      c in out count type op comm
Reduce_scatter   reduce_scatter c in out rcounts type op comm
Reduce_scatter_block reduce_scatter c in out rcount type op comm
Scan             scan           c in out count type op comm
Exscan           scan           c in out count type op comm
Neighbor_allgather  neighbor_collective c in count type out rcount rtype comm
Neighbor_allgatherv neighbor_collective c in count type out rcounts displs rtype comm
Neighbor_alltoall   neighbor_collective c in count type out rcount rtype comm
Neighbor_alltoallv  neighbor_collective c in counts displs type out rcounts displs rtype comm
Neighbor_alltoallw  neighbor_collective c in counts addresses types out rcounts addresses rtypes comm
"""
"""Each is also there with ``I`` in front and a request behind, and as ``_init`` with an info and a request."""

_OTHERS = """
Send      blocking_send CALL c in count type dest tag comm
Ssend     blocking_send CALL c in count type dest tag comm
Rsend     blocking_send CALL c in count type dest tag comm
Bsend     send          CALL c in count type dest tag comm
Isend     send          POST c in count type dest tag comm request
Issend    send          POST c in count type dest tag comm request
Irsend    send          POST c in count type dest tag comm request
Ibsend    send          POST c in count type dest tag comm request
Send_init send          INIT c in count type dest tag comm request
Ssend_init send         INIT c in count type dest tag comm request
Rsend_init send         INIT c in count type dest tag comm request
Bsend_init send         INIT c in count type dest tag comm request
Psend_init send         INIT : in partitions large_count type dest tag comm info request
Recv      recv          CALL c out count type source tag comm status
Irecv     recv          POST c out count type source tag comm request
Recv_init recv          INIT c out count type source tag comm request
Precv_init recv         INIT : out partitions large_count type source tag comm info request
Mrecv     recv          CALL c out count type message status
Imrecv    recv          POST c out count type message request
Probe     probe         CALL : source tag comm status
Mprobe    probe         CALL : source tag comm message status
Iprobe    test          TEST : source tag comm result status
Improbe   test          TEST : source tag comm result message status
Sendrecv  sendrecv      CALL c in count type dest tag out rcount rtype source rtag comm status
Sendrecv_replace sendrecv CALL c out count type dest tag source rtag comm status
Isendrecv sendrecv      POST c in count type dest tag out rcount rtype source rtag comm request
Isendrecv_replace sendrecv POST c out count type dest tag source rtag comm request
Wait      wait          COMPLETE : request status
Waitall   wait          COMPLETE : n requests statuses
Waitany   waitany       COMPLETE : n requests result status
Waitsome  waitany       COMPLETE : n requests result result statuses
Test      test          TEST : request result status
Testall   test          TEST : n requests result statuses
Testany   test          TEST : n requests result result status
Testsome  test          TEST : n requests result result statuses
Request_get_status      test TEST : handle result status
Request_get_status_all  test TEST : n requests result statuses
Request_get_status_any  test TEST : n requests result result status
Request_get_status_some test TEST : n requests result result statuses
Start     start         START : request
Startall  start         START : n requests
Pready       start      START : value handle
Pready_range start      START : value value handle
Pready_list  start      START : value values handle
Parrived     test       TEST  : handle value result
Init         init        CALL : argc argv
Init_thread  init        CALL : argc argv value result
Finalize     finalize    CALL :
Session_init     init     CALL : info errors newsession
Session_finalize finalize CALL : newsession
Buffer_detach         wait CALL c out result
Comm_detach_buffer    wait CALL c comm out result
Session_detach_buffer wait CALL c session out result
Buffer_flush          wait CALL :
Comm_flush_buffer     wait CALL : comm
Session_flush_buffer  wait CALL : session
Comm_dup              comm_create CALL : comm newcomm
Comm_dup_with_info    comm_create CALL : comm info newcomm
Comm_idup             comm_create POST : comm newcomm request
Comm_idup_with_info   comm_create POST : comm info newcomm request
Comm_create           comm_create CALL : comm group newcomm
Comm_create_group     comm_create CALL : comm group tag newcomm
Comm_split            comm_create CALL : comm value value newcomm
Comm_split_type       comm_create CALL : comm value value info newcomm
Comm_free             comm_create CALL : newcomm
Comm_accept           comm_create CALL : text info root comm newcomm
Comm_connect          comm_create CALL : text info root comm newcomm
Comm_disconnect       comm_create CALL : newcomm
Comm_spawn            comm_create CALL : text arguments value info root comm newcomm result
Comm_spawn_multiple   comm_create CALL : value arguments argv values infos root comm newcomm result
Comm_join             comm_create CALL : value newcomm
Comm_create_from_group       comm_create CALL : group text info errors newcomm
Intercomm_create_from_groups comm_create CALL : group value group value text info errors newcomm
Cart_create           comm_create CALL : comm value values values value newcomm
Cart_sub              comm_create CALL : comm values newcomm
Graph_create          comm_create CALL : comm value values values value newcomm
Dist_graph_create     comm_create CALL : comm value values values values values info value newcomm
Dist_graph_create_adjacent comm_create CALL : comm value values values value values values info value newcomm
Intercomm_create      comm_create CALL : comm value comm value tag newcomm
Intercomm_merge       comm_create CALL : comm value newcomm
Win_create            fence     CALL c out address value info comm newwin
Win_allocate          fence     CALL c address value info comm out newwin
Win_allocate_shared   fence     CALL c address value info comm out newwin
Win_create_dynamic    fence     CALL : info comm newwin
Win_free              fence     CALL : newwin
Win_fence             fence     CALL : value win
Win_start             win_start    CALL : group value win
Win_complete          win_complete CALL : win
Win_post              win_post     CALL : group value win
Win_wait              win_wait     CALL : win
Win_test              win_wait     TEST : win result
Win_lock              win_lock     CALL : lock target value win
Win_unlock            win_unlock   CALL : target win
Win_lock_all          win_lock     CALL : value win
Win_unlock_all        win_unlock   CALL : win
Win_flush             win_flush    CALL : target win
Win_flush_all         win_flush    CALL : win
Win_flush_local       one_sided CALL : target win
Win_flush_local_all   one_sided CALL : win
Put                   one_sided CALL c in count type target address rcount rtype win
Get                   one_sided CALL c out count type target address rcount rtype win
Accumulate            one_sided CALL c in count type target address rcount rtype op win
Get_accumulate        one_sided CALL c in count type out rcount rtype target address rcount rtype op win
Fetch_and_op          one_sided CALL : in out type target address op win
Compare_and_swap      one_sided CALL : in in out type target address win
Rput                  one_sided POST c in count type target address rcount rtype win request
Rget                  one_sided POST c out count type target address rcount rtype win request
Raccumulate           one_sided POST c in count type target address rcount rtype op win request
Rget_accumulate       one_sided POST c in count type out rcount rtype target address rcount rtype op win request
File_open             file_collective CALL : comm text value info newfile
File_close            file_collective CALL : newfile
File_set_view         file_collective CALL : file offset type type text info
File_set_size         file_collective CALL : file offset
File_read_all         file_collective CALL c file out count type status
File_read_at_all      file_collective CALL c file offset out count type status
File_read_ordered     file_collective CALL c file out count type status
File_write_all        file_collective CALL c file in count type status
File_write_at_all     file_collective CALL c file offset in count type status
File_write_ordered    file_collective CALL c file in count type status
File_read_all_begin   file_collective CALL c file out count type
File_read_all_end     file_collective CALL : file out status
File_read_at_all_begin file_collective CALL c file offset out count type
File_read_at_all_end  file_collective CALL : file out status
File_read_ordered_begin file_collective CALL c file out count type
File_read_ordered_end file_collective CALL : file out status
File_iread_all        file_collective POST c file out count type request
File_iread_at_all     file_collective POST c file offset out count type request
File_write_all_begin  file_collective CALL c file in count type
File_write_all_end    file_collective CALL : file in status
File_write_at_all_begin file_collective CALL c file offset in count type
File_write_at_all_end file_collective CALL : file in status
File_write_ordered_begin file_collective CALL c file in count type
File_write_ordered_end file_collective CALL : file in status
File_iwrite_all       file_collective POST c file in count type request
File_iwrite_at_all    file_collective POST c file offset in count type request
File_sync             file_collective CALL : file
File_preallocate      file_collective CALL : file offset
File_seek_shared      file_collective CALL : file offset value
File_set_atomicity    file_collective CALL : file value
File_set_info         file_collective CALL : file info
"""


def _mpi_calls() -> tuple[MpiCall, ...]:
    calls = []
    for line in _COLLECTIVES.strip().splitlines():
        name, operation, large, *words = line.split()
        code, variant = BY_NAME[operation].code, large == "c"
        calls += [
            MpiCall(f"MPI_{name}", code, Role.CALL, tuple(words), variant),
            MpiCall(f"MPI_I{name.lower()}", code, Role.POST, (*words, "request"), variant),
        ]
        calls.append(MpiCall(f"MPI_{name}_init", code, Role.INIT, (*words, "info", "request"), variant))
    for line in _OTHERS.strip().splitlines():
        name, operation, role, large, *words = line.split()
        calls.append(MpiCall(f"MPI_{name}", BY_NAME[operation].code, Role[role], tuple(words), large == "c"))
    return tuple(calls)


MPI_CALLS: tuple[MpiCall, ...] = _mpi_calls()
"""What of MPI 4 communicates. Names that only ask or define something (``MPI_Comm_rank``) are not here."""
BY_MPI_NAME: dict[str, MpiCall] = {call.name: call for call in MPI_CALLS}


_BY_FORTRAN_NAME = {name.lower(): call for name, call in BY_MPI_NAME.items()}


def mpi_call_of_fortran(name: str) -> MpiCall | None:
    """The row of a function by its name in Fortran, in whatever case, with or without what ``mpi_f08`` adds to it."""
    name = name.lower().rstrip("_")
    for suffix in ("", "_f08", "_f08ts"):
        row = _BY_FORTRAN_NAME.get(name.removesuffix(suffix).removeprefix("p"))
        if row is not None:
            return row
    return None


def mpi_call(name: str) -> MpiCall | None:
    """The row of a function by its name in C, with or without the ``P`` of the profiling interface and a ``_c``."""
    if name.startswith("PMPI_"):
        name = name[1:]
    return BY_MPI_NAME.get(name) or BY_MPI_NAME.get(name.removesuffix("_c"))
