"""Programs in Fortran: their structure is what debug information says of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.frontend.cpp.binary.elf import Binary
from scalana.frontend.cpp.binary.skeleton import skeleton
from scalana.frontend.cpp.binary.symbols import Symbols
from scalana.runtime.operations import BY_NAME, mpi_call_of_fortran
from tests.frontend.cpp.programs import build
from tests.frontend.cpp.test_symbols import addresses

COMPILER = shutil.which("gcc") or shutil.which("clang")
SOURCE = "/src/field.f90"


@pytest.fixture
def library(tmp_path: Path) -> str:
    """Of a module that was compiled by gfortran to what any compiler assembles."""
    if COMPILER is None:
        pytest.skip("there is no compiler")
    made = tmp_path / "libfield.so"
    assembled = Path(__file__).with_name("fortran") / "field.s"
    done = subprocess.run([COMPILER, "-shared", "-o", str(made), str(assembled)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not assembled here: {done.stderr}")
    return str(made)


def test_procedures_and_calls_of_mpi_come_from_debug_information(library: str) -> None:
    with Binary(library) as binary:
        (unit,) = skeleton(binary, [SOURCE])
    assert [(f.place.name, f.place.line, f.place.end_line) for f in unit.functions] == [
        ("field::relax", 4, 10),
        ("field::step", 11, 16),
    ]
    calls = [(node.place.name, node.place.line, node.operation) for node in unit.functions[1].nodes[1:]]
    assert calls == [("field::relax", 14, 0), ("mpi_allreduce", 15, BY_NAME["allreduce"].code)]

    psg = build([Path(library)], None, uncalled=True)
    assert len(psg.warnings) == 1 and f"{SOURCE} is Fortran; its functions" in psg.warnings[0]
    (reduction,) = (v for v in psg.vertices if v.operation == BY_NAME["allreduce"].code)
    assert (reduction.place.file, reduction.place.line) == (SOURCE, 15)


def test_addresses_are_lines_of_procedures(library: str) -> None:
    with Symbols(library) as symbols:
        found = {symbols.frames(address)[0] for address in addresses(library, "__field_MOD_relax")}
    assert {(frame.file, frame.name) for frame in found} == {(SOURCE, "field::relax")}
    assert {7, 8} <= {frame.line for frame in found} <= set(range(4, 11))


@pytest.mark.parametrize("name", ["mpi_send", "MPI_Send", "mpi_send_", "mpi_send__", "pmpi_send_", "mpi_send_f08_"])
def test_names_of_mpi_in_fortran(name: str) -> None:
    row = mpi_call_of_fortran(name)
    assert row is not None and row.name == "MPI_Send"


def test_other_names_are_none_of_mpi() -> None:
    assert mpi_call_of_fortran("send") is None and mpi_call_of_fortran("mpi_exchange") is None
