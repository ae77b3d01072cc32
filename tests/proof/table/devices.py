"""What reports say of devices: emulated ones, one GPU, and the same traces by other tools."""

from __future__ import annotations

from typing import Any

from ..readers import at, cells_where, derived, number
from ..rows import Command, Need
from .topic import Topic, claimed, measured

DOCUMENT = "docs/appendix/devices.md"

TRACES = Command(("python -m tests.benchmarks.device_causes traces",))
MARKS = Command(("python -m tests.benchmarks.device_causes marks",))
LIMITS = Command(("python -m tests.benchmarks.device_causes limits",))
DURATIONS = Command(("python -m tests.benchmarks.device_causes durations",))
IN_TURNS = Command(("python -m tests.benchmarks.gpu_causes 2",), gpu=True)
APART = Command(("python -m tests.benchmarks.gpu_causes apart",), gpu=True)
FOUR = Command(("python -m tests.benchmarks.gpu_causes 4",), gpu=True)
GPU_LIMITS = Command(("python -m tests.benchmarks.gpu_limits",), gpu=True)
GPU_OVERHEAD = Command(("python -m tests.benchmarks.gpu_overhead",), gpu=True)
GPU_TESTS = Command(
    ("python -m pytest -q -n 0 -m gpu tests/runtime/test_gpu.py tests/runtime/test_torch_operators.py || true",),
    gpu=True,
)
PEERS = Need("DEVICE_PEERS", "an environment with HTA and TraceLens")
BESIDE = Command(("python tests/benchmarks/device_peers.py $DEVICE_PEERS/bin/python",), needs=(PEERS,))
NCCL_DATA = Need("NCCL_DATA", "HTA's trace nccl_data (.json.gz)")
IMPORT = Command(("python -m tests.benchmarks.import_trace 1 $NCCL_DATA",), needs=(NCCL_DATA,))
COLLECTIVES = Command(("SCALANA_OPERATORS=0 python -m tests.benchmarks.device_collective_cost",))


LIMITED = {
    "waits": "`.item()` after every layer",
    "loading": "8 ms for each batch",
    "copies": "copies of 64 MB",
    "kernels": "sorting",
    "launches": "300 short kernels",
}
"""What is planted by `tests/benchmarks/gpu_limits.py`."""


def right(found: dict[str, Any]) -> float:
    """How many first findings are the planted ones."""
    return float(sum(one["right"] for one in found.values()))


def off(told: str, planted: str, found: dict[str, Any]) -> float:
    """The largest error of seconds, in percent."""
    return float(max(100 * abs(one[told] / one[planted] - 1) for one in found.values() if one.get(planted)))


def lost(found: dict[str, Any]) -> float:
    """The largest error of the seconds that others wait, in percent."""
    return off("lost_s", "planted_s", found)


def saving(found: dict[str, Any]) -> float:
    """The largest error of savings, in percent."""
    return off("saving_s", "costs_s", found)


def predicted(case: str) -> Any:
    """The largest error of a predicted step, in percent of the step of the job that was really changed."""
    return derived(
        lambda found: max(
            100 * abs(one["predicted_s"] / one["really_s"] - 1)
            for name, one in found.items()
            if name.startswith(f"{case}-")
        )
    )


def gpu_error(case: str, fault: str) -> Any:
    """The error of the saving of one fault, in percent."""
    return derived(lambda found: 100 * abs(found[case][fault]["saving_s"] / found[case][fault]["costs_s"] - 1))


def gpu_step_error(cause: str) -> Any:
    """The error of a predicted step, in percent of that of the program that was really changed."""
    return derived(lambda found: 100 * abs(found[cause]["predicted_ms"] / found[cause]["really_ms"] - 1))


def gpu_ranks(case: str, name: str, ranks: str, mosts: dict[str, int]) -> tuple[Any, ...]:
    """The figures of ranks on one GPU, one of which has a fault: ``mosts`` has the bars of their savings."""
    words = {"host": "a slow host", "kernels": "more kernels", "rows": "more rows"}
    named = [
        (
            f"{name}-{fault}-named",
            f"{ranks}, {words[fault]}: kind and rank are right",
            ">= 1",
            "",
            at(case, fault, "right"),
        )
        for fault in mosts
    ]
    savings = [
        (
            f"{name}-{fault}-saving",
            f"{ranks}, {words[fault]}: error of the saving",
            f"<= {most}",
            "%",
            gpu_error(case, fault),
        )
        for fault, most in mosts.items()
    ]
    return (
        (f"{name}-balanced", f"{ranks} without a fault: no finding", ">= 1", "", at(case, "nothing", "right")),
        *named,
        *savings,
    )


TOPIC = Topic(
    "Devices",
    (
        *measured(
            DOCUMENT,
            TRACES,
            (
                "device-traces-named",
                "emulated traces: right answers, of 7 faults and 2 jobs without",
                ">= 9",
                "of 9",
                derived(right),
            ),
            (
                "device-traces-lost",
                "emulated traces: seconds that others wait, largest error",
                "<= 10.0",
                "%",
                derived(lost),
            ),
            ("device-traces-saving", "emulated traces: savings, largest error", "<= 10.0", "%", derived(saving)),
        ),
        *measured(
            DOCUMENT,
            MARKS,
            ("device-marks-named", "marked streams: right first findings of 4 faults", ">= 4", "of 4", derived(right)),
            (
                "device-marks-lost",
                "marked streams: seconds that others wait, largest error (tests allow half to four times)",
                "<= 40.0",
                "%",
                derived(lost),
            ),
        ),
        *measured(
            DOCUMENT,
            DURATIONS,
            (
                "device-durations-named",
                "collectives that are timed: right first findings of 4 faults",
                ">= 4",
                "of 4",
                derived(right),
            ),
            (
                "device-durations-lost",
                "collectives that are timed: seconds that others wait, largest error",
                "<= 10.0",
                "%",
                derived(lost),
            ),
        ),
        *measured(
            DOCUMENT,
            LIMITS,
            (
                "device-limits-named",
                "what all ranks share on devices: right first findings of 6 causes, on one rank and on two",
                ">= 11",
                "of 11",
                derived(right),
            ),
            *(
                (
                    f"device-limits-{case}",
                    f"what all ranks share on devices, {what}: error of the step that is predicted",
                    "<= 10.0",
                    "%",
                    predicted(case),
                )
                for case, what in (
                    ("waits", "hosts that wait for devices"),
                    ("loading", "loading"),
                    ("launches", "launches of short kernels"),
                    ("copies", "copies"),
                    ("kernels", "kernels of one place"),
                    ("transfers", "communication"),
                )
            ),
        ),
        *measured(
            DOCUMENT,
            APART,
            *gpu_ranks("apart", "gpu-apart", "two ranks on halves of a GPU", {"host": 10, "kernels": 10, "rows": 10}),
        ),
        *measured(
            DOCUMENT,
            IN_TURNS,
            *gpu_ranks("2", "gpu", "two ranks on a GPU in turns", {"host": 1, "kernels": 10, "rows": 29}),
        ),
        *measured(
            DOCUMENT,
            FOUR,
            *gpu_ranks("4", "gpu-4", "four ranks on a GPU in turns", {"host": 10, "kernels": 10}),
        ),
        *measured(
            DOCUMENT,
            GPU_LIMITS,
            *(
                (
                    f"gpu-limit-{cause}-named",
                    f"one rank on a GPU, {what}: kind and function are right",
                    ">= 1",
                    "",
                    at(cause, "right"),
                )
                for cause, what in LIMITED.items()
            ),
            *(
                (
                    f"gpu-limit-{cause}-step",
                    f"one rank on a GPU, {what}: error of the predicted step",
                    "<= 10",
                    "%",
                    gpu_step_error(cause),
                )
                for cause, what in LIMITED.items()
            ),
        ),
        *measured(
            DOCUMENT,
            GPU_OVERHEAD,
            *(
                (
                    f"gpu-overhead-{model}",
                    f"a model on a GPU whose kernels are {model}: a step is longer by",
                    f"<= {most}",
                    "%",
                    at(model, "percent"),
                )
                for model, most in (("short", 5), ("long", 1))
            ),
        ),
        *measured(
            DOCUMENT,
            GPU_TESTS,
            ("gpu-tests", "tests that need a GPU and pass", ">= 5", "", number(r"(\d+) passed")),
        ),
        *measured(
            DOCUMENT,
            BESIDE,
            (
                "device-peers-tracelens",
                "of 9 emulated traces, those of which TraceLens names the rank at fault or rightly none",
                "<= 7",
                "",
                cells_where("| trace", 4, lambda cell: "**" not in cell and "fails" not in cell),
            ),
            (
                "device-peers-hta",
                "of 9 emulated traces, those on which HTA gives no answer",
                ">= 8",
                "",
                cells_where("| trace", 3, lambda cell: "fails" in cell),
            ),
        ),
        *measured(
            DOCUMENT,
            IMPORT,
            (
                "import-cpu",
                "importing and analysing 1.01 GB, CPU time",
                "<= 32.6",
                "s",
                number(r"^\| `?scalana import`? [^|]*\| ([\d.]+)"),
            ),
            (
                "import-memory",
                "the same, memory at the peak",
                "<= 688",
                "MB",
                number(r"^\| `?scalana import`? [^|]*\| [\d.]+ \| (\d+)"),
            ),
        ),
        *measured(
            DOCUMENT,
            COLLECTIVES,
            (
                "device-collective",
                "marks of a collective whose duration is read",
                "<= 25",
                "us",
                number(r"duration is read\s+([\d.]+) us"),
            ),
            (
                "device-flight-recorder",
                "reading a flight recorder of 2,000 operations",
                "<= 35",
                "ms",
                number(r"2000 operations\s+([\d.]+) ms"),
            ),
        ),
        *claimed(
            DOCUMENT,
            "needs an H200; measured once, on one in a virtual machine",
            ("gpu-mark", "a pair of marks takes the host", "<= 16", "us"),
        ),
        *claimed(
            DOCUMENT,
            "measured by hand",
            ("device-traces-seconds", "traces of 16 emulated ranks with 400 collectives are analysed in", "<= 3", "s"),
        ),
        *claimed(
            DOCUMENT,
            "emulated devices; held by `tests/detectors/pipeline/test_layers_on_devices.py`",
            ("device-split", "new split of a pipeline on emulated devices, predicted: error", "<= 3", "%"),
        ),
    ),
)
