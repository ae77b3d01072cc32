"""What recording costs."""

from __future__ import annotations

import re

from ..readers import number
from ..rows import Command, Reader
from .topic import Figure, Topic, claimed, measured

DOCUMENT = "docs/appendix/overhead.md"
MPI_DOCUMENT = "docs/appendix/mpi-recorder.md"

JOB = Command(("python tests/benchmarks/job_overhead.py --part slow-down",), quiet=True)
REPORT = Command(("python tests/benchmarks/job_overhead.py --part report",), quiet=True)
START = Command(("python tests/benchmarks/startup_cost.py",), quiet=True)
CALLS = Command(("python tests/benchmarks/collective_cost.py",))
PLAIN_CALLS = Command(("SCALANA_TORCH_KERNELS=0 python tests/benchmarks/collective_cost.py",))
SAMPLER = Command(("python tests/benchmarks/sampler_cost.py",), quiet=True)
SPANS = Command(("python tests/benchmarks/span_cost.py",))

MPI_CALLS = (
    "python tests/benchmarks/mpi_overhead.py --mpi $MPI --starts 0 --no-single --rounds 25 --processes 2 --rates"
)
MANY = Command((f"{MPI_CALLS} 100000",), quiet=True)
MOST = Command((f"{MPI_CALLS} 300000",), quiet=True)
STARTS = Command(("python tests/benchmarks/mpi_overhead.py --mpi $MPI --starts 8 --no-single --rates",), quiet=True)
LAUNCH = Command(("python tests/benchmarks/launch_cost.py $MPI/mpicc --repeats 20",), quiet=True)
RATIO = r":\s+([\d.]+) \["


def percent(pattern: str) -> Reader:
    """A ratio as what it is above one, in percent."""
    return lambda output: 100 * (number(pattern)(output) - 1)


def added(call: str) -> Reader:
    """Microseconds that recording adds to a call of torch."""
    return number(rf"^{call}\s+[\d.]+\s+[\d.]+\s+([-\d.]+)")


def call(name: str, what: str, pattern: str, bar: float) -> Figure:
    """What recording adds to a call of torch."""
    return (f"call-{name}", what, f"<= {bar}", "us", added(pattern))


def span(name: str, what: str, bar: int) -> Figure:
    """What a span costs."""
    return (f"span-{name}", f"a span: {what}", f"<= {bar}", "ns", number(rf"^\| {re.escape(what)} \| (\d+)"))


TOPIC = Topic(
    "Overhead",
    (
        *measured(
            DOCUMENT,
            JOB,
            (
                "job-wall",
                "DDP training at 200 Hz, one rank a core, wall time (aim)",
                "<= 1.0",
                "%",
                percent(rf"200 Hz to without, wall{RATIO}"),
            ),
            ("job-cpu", "the same, CPU time", "<= 1.6", "%", percent(rf"200 Hz to without, CPU\s*{RATIO}")),
            (
                "job-cpu-1khz",
                "the same at 1 kHz, CPU time",
                "<= 4.2",
                "%",
                percent(rf"1000 Hz to without, CPU\s*{RATIO}"),
            ),
            ("job-record", "its record at 200 Hz", "<= 55", "MiB/h a rank", number(r"200 Hz, record: ([\d.]+) MiB")),
        ),
        *measured(
            DOCUMENT,
            REPORT,
            (
                "report-seconds",
                "from the end of the job to the report, 8 ranks and one minute (aim)",
                "<= 2.0",
                "s",
                number(r"8 ranks, 1 min.*, ([\d.]+) s with a filled one"),
            ),
            (
                "report-first",
                "the same the first time (aim)",
                "<= 10.0",
                "s",
                number(r"8 ranks, 1 min.*: ([\d.]+) s with an empty cache"),
            ),
        ),
        *measured(
            DOCUMENT,
            START,
            (
                "startup-wall",
                "start-up of a process, wall time (aim)",
                "<= 30.0",
                "ms",
                number(r"^wall\s+[\d.]+\s+[\d.]+\s+([-\d.]+)"),
            ),
            (
                "startup-cpu",
                "start-up of a process, CPU time",
                "<= 12",
                "ms",
                number(r"^CPU\s+[\d.]+\s+[\d.]+\s+([-\d.]+)"),
            ),
        ),
        *measured(
            DOCUMENT,
            CALLS,
            call("synchronous", "synchronous collective (aim)", "all_reduce", 5.0),
            call("asynchronous", "asynchronous collective and its wait (aim)", r"all_reduce.*async.*?", 5.0),
            call("functional", "functional collective and its wait, two recorded calls (aim)", r"functional.*?", 10.0),
        ),
        *measured(
            DOCUMENT,
            PLAIN_CALLS,
            call("plain-synchronous", "without a compiler: synchronous collective", "all_reduce", 10.2),
            call(
                "plain-asynchronous",
                "without a compiler: asynchronous collective and its wait",
                r"all_reduce.*async.*?",
                13.9,
            ),
            call("plain-functional", "without a compiler: functional collective and its wait", r"functional.*?", 34.5),
        ),
        *measured(
            DOCUMENT,
            SAMPLER,
            (
                "sampler-tick",
                "a tick of the sampler at 200 Hz, of 30 frames, while the program runs",
                "<= 42",
                "us",
                number(r"200 Hz,\s+30 frames, busy:\s+([\d.]+) us"),
            ),
            (
                "sampler-python",
                "CPU time of a Python program at 200 Hz",
                "<= 0.9",
                "%",
                percent(r"python at\s+200 Hz: median ([\d.]+)"),
            ),
            (
                "sampler-numpy",
                "CPU time of a numpy program at 200 Hz",
                "<= 0.5",
                "%",
                percent(r"numpy\s+at\s+200 Hz: median ([\d.]+)"),
            ),
        ),
        *measured(
            DOCUMENT,
            SPANS,
            span("with", "`with span(name)`", 237),
            span("attributes", "`with span(name, kind, 3 attributes)`", 408),
            span("begin-end", "`span.begin(name)`, `end()`", 223),
            span("decorated", "a decorated call", 360),
        ),
    ),
)

MPI = Topic(
    "Overhead of MPI programs",
    (
        *measured(
            MPI_DOCUMENT,
            MANY,
            ("mpi-many-cpu", "100,000 calls a second, CPU time", "<= 0.9", "%", percent(rf"CPU\s*{RATIO}")),
        ),
        *measured(
            MPI_DOCUMENT,
            MOST,
            ("mpi-most-cpu", "300,000 calls a second, CPU time", "<= 1.2", "%", percent(rf"CPU\s*{RATIO}")),
        ),
        *measured(
            MPI_DOCUMENT,
            STARTS,
            (
                "mpi-start-cpu",
                "start-up of ranks with Open MPI, CPU time",
                "<= 10",
                "ms",
                number(r"start-up, CPU: ([-\d.]+) ms"),
            ),
            (
                "mpi-start-wall",
                "start-up of ranks with Open MPI, wall time",
                "<= 22",
                "ms",
                number(r"start-up, wall: ([-\d.]+) ms"),
            ),
        ),
        *measured(
            MPI_DOCUMENT,
            LAUNCH,
            (
                "mpi-launch",
                "from the command to the end of MPI_Init, more than without, median",
                "<= 50",
                "ms",
                number(r"more to the end of MPI_Init\s+[-\d.]+\s+([-\d.]+)"),
            ),
        ),
        *claimed(
            "docs/appendix/real-mpi.md",
            "needs the sources of CoMD, HPCCG and LULESH; `tests/benchmarks/command_overhead.py` measures them",
            ("mpi-record-hpccg", "record of HPCCG, 80 80 80", "<= 21", "MB/h a rank"),
            ("mpi-record-comd", "record of CoMD", "<= 71", "MB/h a rank"),
            ("mpi-record-lulesh", "record of LULESH on 8 ranks", "<= 86", "MB/h a rank"),
            ("mpi-record-many", "record of HPCCG, 24 24 24, with 8,000 calls a second", "<= 422", "MB/h a rank"),
        ),
        *claimed(
            "docs/appendix/real-mpi.md",
            "needs the sources of CoMD, HPCCG and LULESH; `tests/benchmarks/program_overhead.py` measures them",
            ("mpi-comd", "CoMD, 400 calls a second, CPU time", "<= 0.6", "%"),
            ("mpi-hpccg", "HPCCG, 8,000 to 13,000 calls a second, CPU time", "<= 0.8", "%"),
            ("mpi-lulesh", "LULESH, 8 ranks, 1,500 calls a second, CPU time (ScalAna: 1.73 %)", "<= 1.3", "%"),
        ),
        *claimed(
            MPI_DOCUMENT,
            "printed by `tests/benchmarks/mpi_overhead.py` among figures of single calls",
            ("mpi-call", "a call that is only counted adds", "<= 0.06", "us"),
            ("mpi-written-call", "a call that is written adds", "<= 0.4", "us"),
        ),
        *claimed(
            MPI_DOCUMENT,
            "compared with the program's own clock by tests of the recorder",
            ("mpi-referee", "seconds of a rank in MPI, compared with the program's own clock: less by", "<= 1.1", "%"),
            ("mpi-thinned", "one call in eight written: seconds of every place", "<= 1", "%"),
        ),
    ),
)
