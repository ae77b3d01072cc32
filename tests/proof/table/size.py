"""Many ranks, many spans, many sources."""

from __future__ import annotations

from ..readers import in_column, number
from ..rows import Command, Reader
from .topic import Figure, Topic, claimed, measured

DOCUMENT = "docs/appendix/size.md"

RANKS = {ranks: Command((f"python -m tests.benchmarks.size {ranks}",)) for ranks in (256, 1024, 4096, 16384)}
SECONDS = Command(("python -m tests.benchmarks.size 4096 16384",), quiet=True)
SPANS = Command(("python -m tests.benchmarks.spans_read",))
CLUSTER = Command(("python -m tests.tools.generate_run $WORK/run 1024", "python -m tests.benchmarks.cluster $WORK/run"))
PAGE = Command(
    (
        "python -m tests.tools.generate_run $WORK/run 1024",
        "python -m scalana report --format html -o $WORK/page.html $WORK/run >/dev/null",
        "wc -c < $WORK/page.html",
    )
)

BARS = {256: (2.2, 0.4), 1024: (5.9, 0.8), 4096: (19.4, 2.2), 16384: (79.1, 7.9)}
"""CPU seconds, and gigabytes at the peak."""


def line(ranks: int, pattern: str, scale: float = 1.0) -> Reader:
    """A number in the last line of a size."""
    return number(rf"^{ranks} ranks, .*?{pattern}", scale)


def on_top(output: str) -> float:
    """How many planted causes come out on top."""
    names = output.rstrip().rpartition("on top: ")[2]
    return float(len(names.split(",")))


def of_size(ranks: int) -> tuple[Figure, ...]:
    """The figures of one number of ranks."""
    cpu_s, gigabytes = BARS[ranks]
    title = f"analysis of {ranks:,} ranks"
    return (
        (f"size-{ranks}-cpu", f"{title}, CPU time", f"<= {cpu_s}", "s", line(ranks, r"([\d.]+) CPU s")),
        (
            f"size-{ranks}-memory",
            f"{title}, memory at the peak",
            f"<= {gigabytes}",
            "GB",
            line(ranks, r"(\d+) MiB", 2**20 / 1e9),
        ),
        (f"size-{ranks}-found", f"{title}, planted causes on top", ">= 3", "of 3", on_top),
    )


TOPIC = Topic(
    "Size",
    (
        *(row for ranks, command in RANKS.items() for row in measured(DOCUMENT, command, *of_size(ranks))),
        *measured(
            DOCUMENT,
            SECONDS,
            (
                "size-4096-seconds",
                "analysis of 4,096 ranks, wall time (aim)",
                "<= 15.0",
                "s",
                line(4096, r": ([\d.]+) s"),
            ),
            (
                "size-16384-seconds",
                "analysis of 16,384 ranks, wall time (aim: 60)",
                "<= 60.0",
                "s",
                line(16384, r": ([\d.]+) s"),
            ),
        ),
        *measured(
            DOCUMENT,
            SPANS,
            (
                "spans-bytes",
                "a span in the record, 4 and 256 ranks, most",
                "<= 29.3",
                "bytes",
                in_column("| spans | ranks", 3),
            ),
            (
                "spans-read",
                "reading and gathering a million spans, 4 and 256 ranks, most",
                "<= 0.66",
                "s",
                in_column("| spans | ranks", 6),
            ),
        ),
        *measured(
            "docs/appendix/size.md",
            CLUSTER,
            (
                "cluster-cpu",
                "reading 1,024 ranks on two workers: CPU time that is left here",
                "<= 1.41",
                "s",
                number(r"two workers ([\d.]+) CPU s here"),
            ),
            ("cluster-sent", "the same: data that workers send", "<= 105", "MB", number(r"(\d+) MB sent")),
            (
                "cluster-same",
                "the same: reports are the same",
                ">= 1",
                "",
                lambda output: float(output.rstrip().endswith("reports the same")),
            ),
        ),
        *measured(
            "docs/html.md",
            PAGE,
            ("page-size", "HTML page of 1,024 ranks and 72 steps", "<= 1.0", "MB", lambda output: int(output) / 1e6),
        ),
        *claimed(
            DOCUMENT,
            "measured by hand",
            ("size-small", "analysis of a run of 4 ranks and 24 s", "<= 0.3", "s"),
            ("size-small-command", "the whole command on it", "<= 0.9", "s"),
            ("size-first", "the first analysis after an installation, CPU time", "<= 11", "s"),
            ("spans-analysis-bytes", "memory of a span in a whole analysis of 4,096 ranks", "<= 225", "bytes"),
            ("spans-16384-cpu", "analysis of 16,384 ranks with ten million spans, CPU time", "<= 101", "s"),
            ("spans-16384-memory", "the same, memory at the peak", "<= 9231", "MiB"),
        ),
        *claimed(
            "docs/appendix/real-mpi.md",
            "needs the sources of the mini-apps; `tests/benchmarks/structure_coverage.py` measures it",
            ("structure-missing", "functions and loops of 7 mini-apps that are not in the structure", "<= 0", ""),
            ("structure-again", "LULESH's structure from the cache", "<= 1.03", "s"),
        ),
    ),
)
