"""Other tools on the same samples, and programs that others wrote."""

from __future__ import annotations

import re

from ..readers import column, number
from ..rows import Command, Need, Reader
from .topic import Topic, claimed, measured

DOCUMENT = "docs/appendix/peers.md"
REAL_CODE = "docs/appendix/real-code.md"
REAL_MPI = "docs/appendix/real-mpi.md"

PEERS = Need("PEERS", "an environment with py-spy, HTA and TraceML (see tests/benchmarks/peers.py)")
ANSWERS = Command(("python tests/benchmarks/peers.py --peers $PEERS/bin/python --out $WORK",), needs=(PEERS,))
COST = Command(
    ("python tests/benchmarks/peers.py --peers $PEERS/bin/python --out $WORK --cost 3 --sample balanced_transformer",),
    quiet=True,
    needs=(PEERS,),
)
DLB = Need("DLB", "the folder with libdlb_mpi.so of DLB 3.6, built for the Open MPI of `make mpi`")
FACTORS = Command(("python tests/benchmarks/efficiencies.py $MPI/mpicc --seconds 0.5 --rounds 5",), quiet=True)
FACTORS_OF_TALP = Command(
    ("python tests/benchmarks/efficiencies.py $MPI/mpicc --seconds 0.5 --rounds 5 --talp $DLB/libdlb_mpi.so",),
    quiet=True,
    needs=(DLB,),
)
SCALED_FACTORS = Command(
    ("python tests/benchmarks/scaling_factors.py $MPI/mpicc --rounds 5 --talp $DLB/libdlb_mpi.so",),
    quiet=True,
    needs=(DLB,),
)
TABLE = "| of the samples"
PROGRAMS = "the programs are not part of this repository; recorded and read by hand"


def answers(place: int, tool: str) -> Reader:
    """A cell of the last table, by row and tool (cells read ``15 of 16``)."""

    def read(output: str) -> float:
        head = next((line for line in output.splitlines() if line.startswith(TABLE)), "")
        titles = [title.strip() for title in head.split("|")]
        if tool not in titles:
            raise ValueError(f"no column {tool!r} in the table of answers")
        found = re.match(r"\d+", column(output, TABLE, titles.index(tool))[place])
        if not found:
            raise ValueError(f"no number of answers of {tool}")
        return float(found[0])

    return read


def ratio(output: str) -> float:
    """Seconds of the loop with scalana to those without."""
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if cells[2:3] == ["scalana"]:
            return float(cells[5])
    raise ValueError("no row of scalana in the output")


TOPIC = Topic(
    "Other tools, and programs of others",
    (
        *measured(
            DOCUMENT,
            ANSWERS,
            (
                "peers-scalana-line",
                "of 16 samples, scalana names rank and line",
                ">= 16",
                "of 16",
                answers(1, "scalana"),
            ),
            ("peers-scalana-lost", "of 16 samples, lost seconds within 15 %", ">= 15", "of 16", answers(2, "scalana")),
            ("peers-scalana-saving", "of 16 samples, saving within 15 %", ">= 14", "of 16", answers(3, "scalana")),
            (
                "peers-scalana-silent",
                "of 2 balanced samples, scalana says nothing",
                ">= 2",
                "of 2",
                answers(4, "scalana"),
            ),
            (
                "peers-py-spy",
                "of 16 samples, py-spy names rank and line, read by a program",
                "<= 15",
                "of 16",
                answers(1, "py-spy"),
            ),
            ("peers-traceml", "of 16 samples, TraceML names the rank", "<= 4", "of 16", answers(0, "TraceML")),
        ),
        *measured(
            DOCUMENT,
            COST,
            ("peers-cost", "loop of 4 ranks on 2 cores, seconds with scalana to without", "<= 1.07", "x", ratio),
        ),
        *measured(
            DOCUMENT,
            FACTORS,
            (
                "efficiency-own",
                "POP factors of six MPI programs, off from the programs' own clocks in the median of 5 runs, at most",
                "<= 1.0",
                "points",
                number(r"most that scalana is off: .* program ([\d.]+) points"),
            ),
        ),
        *measured(
            DOCUMENT,
            FACTORS_OF_TALP,
            (
                "efficiency-talp",
                "of six MPI programs, POP factors agree with TALP's to one point",
                ">= 6",
                "of 6",
                number(r"agree to one point: (\d+) of 6"),
            ),
        ),
        *measured(
            DOCUMENT,
            SCALED_FACTORS,
            (
                "efficiency-talp-scaling",
                "POP's scaling tables of three MPI programs on 1, 2, 4 and 8 ranks: sizes at which all factors agree "
                "with TALP's to one point",
                ">= 12",
                "of 12",
                number(r"agree to one point: (\d+) of 12"),
            ),
        ),
        *claimed(
            REAL_CODE,
            PROGRAMS,
            ("real-code", "of 17 runs of trainers of others, reports that are right", ">= 17", "of 17"),
        ),
        *claimed(
            REAL_MPI,
            PROGRAMS,
            (
                "real-mpi-first",
                "of 201 faults in MPI programs of others, found first with line and ranks",
                ">= 135",
                "of 201",
            ),
            ("real-mpi-missed", "of the same, missed (most cost less than 1 %)", "<= 55", "of 201"),
            ("real-mpi-balanced", "of 95 balanced runs, those with a finding", "<= 1", "of 95"),
        ),
    ),
)
