"""Jobs of several programs in different languages: C ranks and mpi4py ranks in one world, and in one graph."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import scalana
from scalana.graphs.structure.psg import VertexKind
from scalana.runtime.operations import BY_NAME
from tests.long import also_rows

from .conftest import PROGRAMS, Mpi, under_one_mpi

pytestmark = pytest.mark.slow
SCRIPT, SOURCE = PROGRAMS / "coupled.py", PROGRAMS / "coupled.c"


def python_of(mpi: Mpi) -> Path:
    """The Python of an MPI that has mpi4py; the test is skipped where there is none."""
    python = Path(mpi.folder) / "python"
    if not python.exists() or subprocess.run([python, "-c", "import mpi4py, numpy"], capture_output=True).returncode:
        pytest.skip(f"no Python with mpi4py and numpy in {mpi.folder}")
    return python


@pytest.mark.measured
@pytest.mark.parametrize(("slow", "rank"), [*also_rows(("python", 3)), ("c", 1)])
@under_one_mpi
def test_two_programs_have_one_graph(mpi: Mpi, slow: str, rank: int) -> None:
    python, program = python_of(mpi), mpi.compile("coupled.c")
    run = mpi.record(2, program, ":", "-n", "2", python, SCRIPT, SLOW=slow)
    report = scalana.analyze(run)
    finding, psg = report.findings[0], report.ppg.psg
    late, function = {"python": (SCRIPT, "interpolate"), "c": (SOURCE, "advance")}[slow]
    assert (finding.file, finding.function, finding.ranks) == (str(late), function, [rank])
    text = late.read_text().splitlines()
    assert any("for " in line or "the work" in line for line in text[finding.line - 1 : finding.end_line])

    tops = {(psg[child].place.file, psg[child].place.name) for child in psg[0].children}
    assert {(str(SCRIPT), "<module>"), (str(SOURCE), "main")} <= tops
    for file in (SCRIPT, SOURCE):
        static = [v for v in psg.walk() if v.place.file == str(file) and v.index not in psg.added]
        assert len([v for v in static if v.kind is VertexKind.LOOP]) == 2
        meets = [
            v
            for v in psg.walk()
            if v.kind is VertexKind.COMM and v.place.file == str(file) and v.operation == BY_NAME["allreduce"].code
        ]
        assert len(meets) == 1
        (around,) = [v for v in psg.ancestors(meets[0].index) if v.kind is VertexKind.LOOP]
        assert "step" in around.place.name


@pytest.mark.long
@pytest.mark.measured
@under_one_mpi
def test_a_script_around_a_program_does_not_hide_it(mpi: Mpi) -> None:
    python, program = python_of(mpi), mpi.compile("coupled.c")
    code = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], close_fds=False).returncode)"
    finding = scalana.analyze(mpi.record(2, python, "-c", code, program, SLOW="c")).findings[0]
    assert (finding.file, finding.function, finding.ranks) == (str(SOURCE), "advance", [1])


@pytest.mark.measured
@under_one_mpi
def test_work_in_a_library_is_named_where_python_calls_it(mpi: Mpi) -> None:
    """Paths of Python processes end in Python: of a library of the user's there are no frames."""
    python, library = python_of(mpi), mpi.compile("coupled.c", "-shared", "-fPIC", name="libwork.so")
    script = PROGRAMS / "in_library.py"
    finding = scalana.analyze(mpi.record(2, python, script, library)).findings[0]
    assert (finding.file, finding.ranks) == (str(script), [1])
    assert "the work" in script.read_text().splitlines()[finding.line - 1]
