"""Which functions of libraries communicate, by their dotted names. A library is a row of :data:`LIBRARIES`.

A name goes on behind what a call returned: ``torch.distributed.all_reduce.wait`` is ``wait`` of what ``all_reduce``
returned, ``mpi4py.MPI.COMM_WORLD.Split.Bcast`` a broadcast in a communicator that was split off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scalana.runtime.operations import BY_TORCH_FUNCTION, BY_TORCH_OP, Operation, mpi_call

_VARIANTS = ("", "_autograd", "_tensor", "_inplace", "_coalesced", "_")
"""Ends of names of functions that communicate like those without."""
_MPI_CLASSES = ("Win", "File", "Session", "Comm")


def operation_of(name: str) -> int:
    """The code of the operation that a function of a library is, by its dotted name; 0 if it is none."""
    for prefix, find in LIBRARIES:
        if name.startswith(prefix):
            return find(name.removeprefix(prefix).split("."))
    return 0


def communicates(name: str) -> bool:
    """Whether what has a dotted name is part of a library that communicates."""
    return any(name.startswith(prefix) for prefix, _ in LIBRARIES)


def _of_torch(path: Sequence[str]) -> int:
    """Functions of ``torch.distributed``, of the module of functional collectives, and methods of process groups."""
    *before, last = path
    if last == "wait":  # of a request, not of a store
        return BY_TORCH_FUNCTION[last].code if "Work" in before or any(map(_torch_row, before)) else 0
    row = _torch_row(last)
    return row.code if row is not None else 0


def _torch_row(name: str) -> Operation | None:
    rows = (BY_TORCH_FUNCTION.get(name.removesuffix(variant)) for variant in _VARIANTS)
    return next((row for row in rows if row is not None), BY_TORCH_OP.get(name + "_"))


def _of_torch_ops(path: Sequence[str]) -> int:
    """Operators, ``torch.ops.NAMESPACE.NAME`` and an overload of one, as compiled programs call them."""
    namespace, *names = path
    if "c10d" not in namespace or not names:
        return 0
    row = BY_TORCH_OP.get(names[0]) or _torch_row(names[0])
    return row.code if row is not None else 0


def _of_mpi4py(path: Sequence[str]) -> int:
    """Methods of the classes of ``mpi4py.MPI``; those in lower case pickle what they send."""
    name = path[-1]
    made_by = next((word for word in _MPI_CLASSES if word in path[:-1]), "Comm")
    topology = name.removeprefix("Create_")
    for candidate in (_capital(name), f"{made_by}_{name.lower()}", f"{_capital(topology)}_create"):
        row = mpi_call(f"MPI_{candidate}")
        if row is not None:
            return row.operation
    return 0


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


LIBRARIES: tuple[tuple[str, Callable[[Sequence[str]], int]], ...] = (
    ("torch.distributed.", _of_torch),
    ("torch._C._distributed_c10d.", _of_torch),
    ("torch.ops.", _of_torch_ops),
    ("mpi4py.MPI.", _of_mpi4py),
)
"""What the names of a library begin with, and what finds the operation by the rest."""
