"""The rows of MPI's functions, against the headers of the MPI in use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalana.runtime.operations import (
    BY_CODE,
    BY_MPI_NAME,
    BY_NAME,
    MPI_CALLS,
    MPI_TYPES,
    MpiCall,
    Role,
    Waits,
    mpi_call,
)


def test_rows_are_unique_and_complete() -> None:
    assert len(BY_MPI_NAME) == len(MPI_CALLS)
    assert len({row.code for row in BY_CODE.values()}) == len(BY_NAME) == len(BY_CODE)
    for call in MPI_CALLS:
        assert call.operation in BY_CODE
        assert set(call.parameters) <= set(MPI_TYPES), call


def test_positions_of_what_matters() -> None:
    send = BY_MPI_NAME["MPI_Send"]
    assert (send.elements, send.datatype, send.peer, send.position("tag"), send.communicator, send.request) == (
        1, 2, 3, 4, 5, -1,
    )  # fmt: skip
    assert BY_MPI_NAME["MPI_Irecv"].request == 6
    assert (BY_MPI_NAME["MPI_Gatherv"].peer, BY_MPI_NAME["MPI_Gatherv"].communicator) == (7, 8)
    assert BY_MPI_NAME["MPI_Waitall"].request == 1
    assert BY_MPI_NAME["MPI_Reduce_scatter"].elements == 2
    assert BY_MPI_NAME["MPI_Barrier"].elements == -1


@pytest.mark.parametrize(
    ("name", "waits", "role"),
    [
        ("MPI_Send", Waits.RECEIVER, Role.CALL),
        ("MPI_Isend", Waits.NOBODY, Role.POST),
        ("MPI_Recv", Waits.SENDER, Role.CALL),
        ("MPI_Mprobe", Waits.SENDER, Role.CALL),
        ("MPI_Allreduce", Waits.ALL, Role.CALL),
        ("MPI_Iallreduce", Waits.ALL, Role.POST),
        ("MPI_Bcast", Waits.ROOT, Role.CALL),
        ("MPI_Gather", Waits.AT_ROOT, Role.CALL),
        ("MPI_Exscan", Waits.LOWER, Role.CALL),
        ("MPI_Waitall", Waits.REQUESTS, Role.COMPLETE),
        ("MPI_Waitsome", Waits.ANY_REQUEST, Role.COMPLETE),
        ("MPI_Test", Waits.NOBODY, Role.TEST),
        ("MPI_Comm_split", Waits.ALL, Role.CALL),
    ],
)
def test_what_calls_wait_for(name: str, waits: Waits, role: Role) -> None:
    call = BY_MPI_NAME[name]
    assert (BY_CODE[call.operation].waits, call.role) == (waits, role)


def test_variants_of_names() -> None:
    assert mpi_call("PMPI_Send_c") is mpi_call("MPI_Send")
    assert mpi_call("MPI_Comm_rank") is None
    assert mpi_call("MPI_Ialltoallw") is not None
    assert mpi_call("send") is None


def prototypes() -> dict[str, list[str]]:
    """Types of the parameters of the functions that the MPI in use declares; empty where there is none."""
    from scalana.frontend.cpp.source.flags import mpi_includes

    found: dict[str, list[str]] = {}
    for folder in mpi_includes():
        for header in sorted(Path(folder).rglob("mpi*.h")):
            text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(errors="replace"), flags=re.DOTALL)
            for match in re.finditer(r"\bint\s+(MPI_\w+)\s*\(([^;{]*?)\)\s*[\w()\s,]*;", text):
                words = [word.strip() for word in re.split(r",(?![^()]*\))", match.group(2))]
                found.setdefault(match.group(1), [] if words == ["void"] else words)
    return found


DECLARED = prototypes()


@pytest.mark.skipif(not DECLARED, reason="there is no MPI here")
@pytest.mark.parametrize("call", [c for c in MPI_CALLS if c.name in DECLARED], ids=lambda call: str(call.name))
def test_parameters_are_those_of_the_header(call: MpiCall) -> None:
    declared = DECLARED[call.name]
    assert len(declared) == len(call.parameters), declared
    for word, text in zip(call.parameters, declared):
        expected, given = shape(MPI_TYPES[word]), shape(text)
        if word == "in" or given[0] == "void" or expected[0] == "void":
            assert given[0] == "void", (word, text)
        else:
            assert given == expected, (word, text)


def shape(text: str) -> tuple[str, int]:
    """A type without qualifiers and the name of its parameter: what it is, and how many pointers lead to it."""
    pointers = text.count("*") + text.count("[")
    words = [word for word in re.findall(r"\w+", text.partition("[")[0]) if word not in ("const", "restrict", "struct")]
    return words[0], pointers
