"""Jobs on several hosts."""

from __future__ import annotations

from ..readers import number
from ..rows import Command
from .topic import Topic, measured

DOCUMENT = "docs/hosts.md"

SLOW_LINK = Command(("python -m tests.benchmarks.slow_link",))
IN_COLLECTIVES = Command(("python -m tests.benchmarks.slow_link --job collective --steps 20",))
CLOCKS = Command(("python -m tests.benchmarks.hosts_clocks",))
OF_A_ROOT = Command(("python -m tests.benchmarks.hosts_clocks --exchange root",))
ONE_WAY = Command(("python -m tests.benchmarks.hosts_clocks --exchange one-way",))
STARTING = Command(("python -m tests.benchmarks.hosts_start",), quiet=True)
COLLECTING = Command(("python -m tests.benchmarks.collecting",))

LINKS = measured(
    DOCUMENT,
    SLOW_LINK,
    (
        "link-named",
        "three emulated hosts, two of them with a link of a tenth of the rate: runs with it as the first finding",
        "== 1",
        "runs",
        number(r"named: (\d+)"),
    ),
    (
        "link-predicted",
        "the same: how far the predicted step is from one with a sound link",
        "<= 10",
        "%",
        number(r"^off: ([\d.]+) %"),
    ),
)
IN_A_COLLECTIVE = measured(
    DOCUMENT,
    IN_COLLECTIVES,
    (
        "link-in-collective-named",
        "an allreduce over four emulated hosts, one link of a tenth of the rate: runs with it as the first finding",
        "== 1",
        "runs",
        number(r"named: (\d+)"),
    ),
    (
        "link-in-collective-predicted",
        "the same: how far the predicted step is from one with a sound link",
        "<= 10",
        "%",
        number(r"^off: ([\d.]+) %"),
    ),
)
COLLECTED = measured(
    DOCUMENT,
    COLLECTING,
    (
        "collect-lost",
        "256 nodes that send 2 MiB each at once, a tenth of which dies in the middle: nodes whose records are lost",
        "== 0",
        "nodes",
        number(r"^lost: (\d+)"),
    ),
    ("collect-half", "the same: nodes that are kept in part", "== 0", "nodes", number(r"half kept: (\d+)")),
    ("collect-cpu", "the same: CPU time in the first start", "<= 5", "s", number(r", ([\d.]+) s of CPU time")),
    ("collect-memory", "the same: its memory", "<= 64", "MiB", number(r"^memory of the first start: (\d+)")),
)

ALIGNED = measured(
    DOCUMENT,
    CLOCKS,
    (
        "clocks-aligned",
        "three emulated hosts, five collectives, time of day off by 20 ms a host: clocks off by at most",
        "<= 5",
        "ms",
        number(r"off by 0.02 s: clocks off by ([\d.]+) ms"),
    ),
    (
        "clocks-aligned-minute",
        "the same with 60 s a host",
        "<= 5",
        "ms",
        number(r"off by 60 s: clocks off by ([\d.]+) ms"),
    ),
)
ALIGNED_BY_OTHERS = tuple(
    row
    for command, name, exchanged in (
        (OF_A_ROOT, "root", "a broadcast and a reduction, five times,"),
        (ONE_WAY, "one-way", "five messages from one host to each other one,"),
    )
    for row in measured(
        DOCUMENT,
        command,
        (
            f"clocks-{name}",
            f"three emulated hosts, {exchanged} time of day off by 60 s a host: clocks off by at most",
            "<= 5",
            "ms",
            number(r"off by 60 s: clocks off by ([\d.]+) ms"),
        ),
    )
)
STARTED = measured(
    DOCUMENT,
    STARTING,
    (
        "hosts-start",
        "until the program begins: a start on each of two hosts longer than each host alone by, median",
        "<= 30",
        "ms",
        number(r"more than alone: median ([-\d.]+) ms"),
    ),
)

TOPIC = Topic("Hosts", (*LINKS, *IN_A_COLLECTIVE, *ALIGNED, *ALIGNED_BY_OTHERS, *STARTED, *COLLECTED))
