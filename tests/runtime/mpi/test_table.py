"""The table of calls against all that the header of an MPI declares."""

from __future__ import annotations

import re
import subprocess

from scalana.runtime.mpi import generate
from scalana.runtime.mpi.prototypes import Prototype, prototypes
from scalana.runtime.mpi.slots import names
from scalana.runtime.operations import mpi_call

from .conftest import Mpi

_NO_COMMUNICATION = re.compile(
    r"""MPI_(
      (T|Type|Group|Info|Attr|Op|Errhandler|Error|Keyval|Status|Abi|Aint)_\w+    # objects of this process alone
    | \w+_(c2f|f2c|fromint|toint|c2f08|f2c08|f082c|f082f|f2f08)                  # handles in other languages
    | (Comm|Win|File|Session)_(get|set|create_keyval|create_errhandler|free_keyval|delete|call_errhandler)\w*
    | Comm_(rank|size|group|compare|test_inter|remote_size|remote_group)
    | (Add|Remove)_error_\w+ | Get_\w+ | Address | (Un)?[Pp]ack\w* | Register_datarep(_c)?
    | (Cart|Graph|Cartdim|Graphdims)_(coords|get|map|rank|shift|neighbors|neighbors_count) | Dims_create | Topo_test
    | Dist_graph_neighbors(_count)?
    | Alloc_mem | Free_mem | (Comm_|Session_)?([Bb]uffer_)?attach(_buffer)?(_c)?
    | Initialized | Finalized | Is_thread_main | Query_thread | Pcontrol | Reduce_local(_c)? | Test_cancelled
    | Win_(attach|detach|shared_query(_c)?|sync)
    | (Open|Close)_port | (Publish|Unpublish|Lookup)_name
    | File_(seek|delete)
    )""",
    re.VERBOSE,
)
_LEFT_OUT = {
    "calls of one process alone that wait for a disk, which samples show": re.compile(
        r"MPI_File_i?(read|write)(_at|_shared)?(_c)?"
    ),
    "requests that the program completes itself": re.compile(r"MPI_Grequest_(start|complete)"),
    "posts of a wait for buffered messages, MPI-4.1": re.compile(r"MPI_((Comm|Session)_iflush_buffer|Buffer_iflush)"),
}
"""Calls that are not recorded, and why."""


def declared(mpi: Mpi) -> dict[str, Prototype]:
    words = [f"{mpi.folder}/mpicc", "-E", "-P", "-x", "c", "-"]
    done = subprocess.run(words, input="#include <mpi.h>\n", capture_output=True, text=True, check=True)
    return prototypes(done.stdout)


def test_every_call_that_communicates_is_in_the_table(mpi: Mpi) -> None:
    known = set(names())
    missing = [
        name
        for name in declared(mpi)
        if name not in known
        and not _NO_COMMUNICATION.fullmatch(name)
        and not any(reason.fullmatch(name) for reason in _LEFT_OUT.values())
    ]
    assert missing == []


def test_every_call_of_the_table_that_is_declared_is_wrapped(mpi: Mpi) -> None:
    words = [f"{mpi.folder}/mpicc", "-E", "-P", "-x", "c", "-"]
    header = subprocess.run(words, input="#include <mpi.h>\n", capture_output=True, text=True, check=True).stdout
    found, source = prototypes(header), generate.wrappers(header)
    assert len(found) > 300
    for name in names():
        call = mpi_call(name)
        if name in found and call is not None:
            assert len(found[name].types) == len(call.parameters), name
            assert f'{{"{name}", (void *)wrap_{name}}}' in source
