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
        ("all_to_all", "all_to_all_single"),
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
    Operation(15, "new_group", Waits.ALL, (), ("new_group",)),
    Operation(16, "store", Waits.NOBODY, (), ()),
)

BY_CODE: dict[int, Operation] = {row.code: row for row in OPERATIONS}
BY_NAME: dict[str, Operation] = {row.name: row for row in OPERATIONS}
BY_TORCH_OP: dict[str, Operation] = {op: row for row in OPERATIONS for op in row.torch_ops}
BY_TORCH_FUNCTION: dict[str, Operation] = {f: row for row in OPERATIONS for f in row.torch_functions}
