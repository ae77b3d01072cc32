"""What installing the recorder changes."""

from __future__ import annotations

from ..readers import number
from ..rows import Command
from .topic import Topic, measured

INSTALLATION = Command(("python -m tests.benchmarks.installation $WORK",))

TOPIC = Topic(
    "Installing",
    measured(
        "docs/install.md",
        INSTALLATION,
        (
            "install-changes",
            "packages of an environment with numpy 1.24 and pandas 1.5 that installing the recorder changes",
            "== 0",
            "",
            number(r"(\d+) packages changed, the same bytes"),
        ),
        (
            "install-reports",
            "runs recorded there and reported by another environment: two without a compiler, one of them in a "
            "read-only file system",
            "== 3",
            "of 3",
            number(r"(\d+) of \d+ runs"),
        ),
        (
            "install-mpi",
            "MPIs of which jobs are recorded by the wheel alone, without a compiler, and the late rank's line is named",
            "== 2",
            "of 2",
            number(r"MPI without a compiler: (\d+) of"),
        ),
        ("install-recorder", "size of the recorder's published wheel", "<= 1.0", "MB", number(r"recorder ([\d.]+) MB")),
        (
            "install-recorder-mpi",
            "the same with the recorder for MPI",
            "<= 3.0",
            "MB",
            number(r"with that for MPI ([\d.]+) MB"),
        ),
        ("install-analysis", "size of that of the analysis", "<= 2.0", "MB", number(r"analysis ([\d.]+) MB")),
    ),
)
