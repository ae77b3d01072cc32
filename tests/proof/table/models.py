"""Models: what is captured, what modules take, slow modules."""

from __future__ import annotations

import re

from ..readers import column, in_column, matches, number
from ..rows import Command, Reader
from .topic import Topic, claimed, measured

DOCUMENT = "docs/appendix/models.md"

COVERAGE = Command(("python tests/benchmarks/model_coverage.py",))
"""Models of transformers are part of it where that package is installed."""
ROOFLINE = Command(("python tests/benchmarks/roofline.py double strided heads",))
SOUND = Command(("python tests/benchmarks/roofline.py experts residual",), quiet=True)
COST = Command(("scalana calibrate", "python tests/benchmarks/module_cost.py"), quiet=True)

CAPTURED = "| model | captured by"
TIME = "| model | samples"
STATIC = ("encoder", "decoder", "resnet")
"""Models in which nothing depends on data."""


def missing(title: int) -> Reader:
    """How many modules or operators of all models have no line, or no module (cells read ``70 of 70``)."""

    def count(output: str) -> float:
        pairs = (re.findall(r"[\d,]+", cell) for cell in column(output, CAPTURED, title))
        return float(sum(int(of.replace(",", "")) - int(some.replace(",", "")) for some, of in pairs))

    return count


def flops_off(output: str) -> float:
    """By how many FLOPs the models in which nothing depends on data differ from torch's count."""
    names, ours, torch = (column(output, CAPTURED, title) for title in (1, 6, 7))
    rows = [row for row in zip(names, ours, torch, strict=True) if any(f"`{name}`" in row[0] for name in STATIC)]
    if len(rows) < len(STATIC):
        raise ValueError("not all of the models are in the table")
    return float(sum(abs(int(a.replace(",", "")) - int(b.replace(",", ""))) for _, a, b in rows))


TOPIC = Topic(
    "Models",
    (
        *measured(
            DOCUMENT,
            COVERAGE,
            ("model-modules", "modules without a line, of all models", "<= 0", "", missing(3)),
            ("model-operators", "operators without a line", "<= 0", "", missing(4)),
            ("model-operators-module", "operators without a module", "<= 0", "", missing(5)),
            (
                "model-flops",
                "difference from torch's count, of models in which nothing depends on data",
                "<= 0",
                "FLOPs",
                flops_off,
            ),
            (
                "model-other-lines",
                "time in a model, forward, on neither operators nor modules, most of all models",
                "<= 6.8",
                "%",
                in_column(TIME, 5),
            ),
            (
                "model-backward",
                "time of the backward in the modules inside, least of all models",
                ">= 82.2",
                "%",
                in_column(TIME, 7, min),
            ),
        ),
        *measured(
            DOCUMENT,
            ROOFLINE,
            (
                "slow-module-named",
                "of 3 models with a slow part, those whose module stands first",
                ">= 3",
                "of 3",
                matches(r", named$", of=r"^double: "),
            ),
        ),
        *measured(
            DOCUMENT,
            SOUND,
            (
                "sound-experts-forward",
                "mixture of experts: the module nearest to what the machine can do reaches, forward",
                ">= 80",
                "%",
                number(r"^experts: forward (\d+)%"),
            ),
            (
                "sound-experts-backward",
                "the same, backward",
                ">= 67",
                "%",
                number(r"^experts: .*backward (\d+)%"),
            ),
            (
                "sound-residual-forward",
                "residual network, likewise, forward",
                ">= 81",
                "%",
                number(r"^residual: forward (\d+)%"),
            ),
            (
                "sound-residual-backward",
                "the same, backward",
                ">= 85",
                "%",
                number(r"^residual: .*backward (\d+)%"),
            ),
        ),
        *measured(
            DOCUMENT,
            COST,
            (
                "module-call",
                "a call of a module in a timed step, without gradients",
                "<= 13",
                "us",
                number(r"timed step, [^:]*without[^:]*: ([\d.]+) us"),
            ),
            (
                "module-call-backward",
                "the same, forward and backward",
                "<= 62",
                "us",
                number(r"timed step, [^:]*backward[^:]*: ([\d.]+) us"),
            ),
            (
                "module-step",
                "a timed step of a transformer of 4 layers, CPU time with to without",
                "<= 1.045",
                "x",
                number(r"pairs: CPU time x ([\d.]+)"),
            ),
            (
                "module-steps",
                "all steps, CPU time with to without",
                "<= 1.0036",
                "x",
                number(r"^all steps, .*at most ([\d.]+)"),
            ),
            (
                "module-counted-step",
                "a step whose operators are counted, CPU time with to without",
                "<= 1.18",
                "x",
                number(r"^a counted step: CPU time x ([\d.]+)"),
            ),
        ),
        *claimed(
            DOCUMENT,
            "measured once, by hand",
            ("model-large-seconds", "the decoder with 6.7 G parameters is captured in", "<= 24", "s"),
            ("model-large-memory", "the same, memory", "<= 0.37", "GB"),
            ("compiled-notes", "notes of a compilation with 23 kernels, of 4.3 s of CPU time", "<= 12", "ms"),
        ),
        *claimed(
            DOCUMENT,
            "measured by hand; `tests/jobs/test_slow_modules.py` and its neighbours hold wider bounds",
            ("modules-seconds", "four causes in layers of one model: error of their seconds", "<= 8", "%"),
            (
                "modules-library-seconds",
                "four causes in models of transformers: error of their CPU seconds",
                "<= 6",
                "%",
            ),
            ("recompiling-seconds", "compiling again and again: error of its seconds", "<= 10", "%"),
        ),
    ),
)
