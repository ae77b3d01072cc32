"""Causes planted in pipelines of Megatron-core and DeepSpeed, beside what is said of them; new splits, predicted, run.

Run: python tests/benchmarks/pipeline_engines.py causes megatron [--chunks 2] [--ranks 4] [--job=OPTIONS]
     python tests/benchmarks/pipeline_engines.py splits deepspeed

Each records one job of `tests/tools/engine_job.py`, which trains one model after the other, and prints a table. With
`--keep FOLDER` the run folder is kept; where it is there already, it is read again. `--record` does no more than that.

What is planted is replayed with each cause on and off, and valued as the report does it (Shapley): that is the true
share. No measured time goes into it. The step that this gives stands beside the measured one.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]

from engine_job import parse  # noqa: E402

import scalana  # noqa: E402
from scalana.detectors.facts import Facts  # noqa: E402
from scalana.detectors.pipeline.detector import engine_of, read_all  # noqa: E402
from scalana.detectors.pipeline.diagnosis.attribution import shapley  # noqa: E402
from scalana.detectors.pipeline.diagnosis.culprits import find_culprits  # noqa: E402
from scalana.detectors.pipeline.diagnosis.diagnose import Diagnosis, diagnose, planning_model  # noqa: E402
from scalana.detectors.pipeline.diagnosis.predictions import Planner  # noqa: E402
from scalana.detectors.pipeline.model.actions import Kind  # noqa: E402
from scalana.detectors.pipeline.model.engines import ENGINES  # noqa: E402
from scalana.detectors.pipeline.model.lowering import Code, Operations, lower  # noqa: E402
from scalana.detectors.pipeline.model.schedules import BY_NAME  # noqa: E402
from scalana.detectors.pipeline.model.simulate import Links, Setting, replay  # noqa: E402
from scalana.graphs.arrays.types import FloatArray  # noqa: E402

CAUSES = ("imbalance", "straggler", "link", "host", "data")
IMBALANCE, STRAGGLER, LINK, HOST, DATA = range(len(CAUSES))
LEAST = 0.005
"""Of a step: less is not planted."""


def cases(ranks: int, stages: int) -> Iterator[str]:
    """What is planted, one case after the other."""
    slow, inner = stages - 1, ranks // 2
    yield ""
    yield f"--slow {slow}:1.75"
    yield f"--latency {inner - 1}:{inner}:20"
    yield "--straggler 1:2.5:3"
    yield "--lengths 1,1.6,1,0.7"
    yield f"--host {inner}:8"
    yield "--data 0:10"
    yield f"--slow {slow}:1.5 --latency 0:1:8 --straggler {inner}:2:3"


@dataclass(frozen=True)
class Planted:
    """What a step of a job should be."""

    options: argparse.Namespace
    operations: Operations

    @classmethod
    def of(cls, options: argparse.Namespace, ranks: int) -> Planted:
        """From the options of the job."""
        chunks = options.chunks
        name = "Interleaved1F1B" if chunks > 1 else "1F1B"
        program = BY_NAME[name].program(ranks, options.nmb, chunks)
        engine = options.engine + ("" if chunks == 1 else "-overlap" if options.overlap_p2p_comm else "-interleaved")
        return cls(options, lower(program, ENGINES[engine]))

    def duration_s(self, on: int) -> FloatArray:
        """Of all actions, with these causes on ``[actions]``."""
        options, program = self.options, self.operations.program
        size = np.array([options.layers[s % len(options.layers)] for s in range(program.stages)], float)
        size[-1] += options.head
        size /= options.per_stage
        for stage, factor in options.slow:
            size[int(stage)] *= factor
        if not on >> IMBALANCE & 1:
            size[:] = size.mean()
        forward = program.kind == Kind.F
        seconds = np.where(forward, options.f_ms, options.i_ms + options.w_ms) / 1000 * size[program.stage]
        if on >> STRAGGLER & 1:
            seconds *= np.asarray(options.lengths)[program.microbatch % len(options.lengths)]
            for rank, factor, every in options.straggler:
                held = (program.rank == rank) & (program.microbatch % int(every) == 0)
                seconds = np.where(held, factor * seconds, seconds)
        return seconds

    def step_s(self, on: int) -> float:
        """A step with these causes on."""
        operations, options = self.operations, self.options
        program = operations.program
        latency = np.zeros((program.ranks, program.ranks))
        for link in options.latency:
            latency[(int(link[0]), int(link[1])) if len(link) > 1 else slice(None)] += link[-1] / 1000
        links = Links.by_ranks(operations, latency) if on >> LINK & 1 else Links.none(operations)
        setting = Setting.plain(operations, self.duration_s(on), links)
        rank_of_operation = np.repeat(np.arange(program.ranks), np.diff(operations.first))
        for rank, ms in options.host if on >> HOST & 1 else ():
            setting.lead_s[self.calls() & (rank_of_operation == rank)] += ms / 1000
        for rank, ms in options.data if on >> DATA & 1 else ():
            ends = (program.stage == 0) | (program.stage == program.stages - 1)
            setting.lead_s[operations.run[ends & (program.kind == Kind.F) & (program.rank == rank)]] += ms / 1000
        return replay(operations, setting).makespan_s

    def calls(self) -> np.ndarray:
        """Operations with which a call begins that sends or receives: a batch, or each by itself in DeepSpeed
        ``[operations]``."""
        posts = np.isin(self.operations.code, (Code.SEND, Code.POST))
        follows = np.concatenate([[False], posts[:-1]])
        follows[self.operations.first[:-1]] = False
        return posts if self.options.engine == "deepspeed" else posts & ~follows

    def shares(self) -> tuple[float, dict[str, float]]:
        """The step, and the share of each part."""
        everything = (1 << len(CAUSES)) - 1
        step_s, value = self.step_s(everything), shapley(self.step_s, range(len(CAUSES)))
        mean_s, even_s = (float(self.duration_s(on).sum()) / self.operations.program.ranks for on in (everything, 0))
        value[STRAGGLER] -= mean_s - even_s
        seconds = {"compute": mean_s, "schedule": self.step_s(0) - even_s}
        seconds |= {name: value[cause] for cause, name in enumerate(CAUSES)}
        return step_s, {name: part / step_s for name, part in seconds.items()}


def record(engine: str, ranks: int, arguments: list[str], folder: Path) -> None:
    """Run a job, unless it was."""
    if not folder.exists():
        library = ROOT / "build" / "pipeline" / engine
        environment = {**os.environ, "PYTHONPATH": str(library), "DS_ACCELERATOR": "cpu"}
        forked, job = (str(ROOT / "tests" / "tools" / name) for name in ("forked.py", "engine_job.py"))
        command = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(folder), "--", sys.executable]
        command += [forked, str(ranks), job, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)


def diagnosed(folder: Path) -> list[Diagnosis]:
    """All pipelines of a run."""
    facts = Facts(scalana.analyze(folder).ppg)
    return [diagnose(one.rows, engine_of(one), one.between, one.layers) for one in read_all(facts)]


def run_cases(options: argparse.Namespace, planted: list[str]) -> tuple[list[argparse.Namespace], list[Diagnosis]]:
    """The options and the diagnosis of each case; another model goes before them, while all is imported."""
    common = f"--engine {options.engine} --chunks {options.chunks} --steps {options.steps} {options.common}"
    arguments = shlex.split(common)
    arguments += ["--case="] + [f"--case={case}" for case in planted]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(options.keep or made + "/run")
        record(options.engine, options.ranks, arguments, folder)
        if options.record:
            sys.exit()
        return parse(arguments)[1:], diagnosed(folder)[1:]


def causes(options: argparse.Namespace) -> None:
    """A row for each case."""
    planted = options.case or list(cases(options.ranks, options.ranks * options.chunks))
    given_and_found = run_cases(options, planted)
    print("| planted | step (planted) | replay | planted causes | largest of the others | first finding |")
    print("|---|---|---|---|---|---|")
    for case, given, found in zip(planted, *given_and_found, strict=True):
        step_s, true = Planted.of(given, options.ranks).shares()
        seconds, shares = found.attribution.seconds, found.attribution.shares
        told = [
            f"{name} {100 * shares[name]:.1f} %, {1000 * seconds[name]:.0f} ms ({1000 * true[name] * step_s:.0f})"
            for name in CAUSES
            if true[name] > LEAST
        ]
        others = {name: shares[name] for name in CAUSES if true[name] <= LEAST}
        largest = max(others, key=lambda name: abs(others[name]))
        culprits = [f"{c.cause}, ranks {c.ranks}, stages {c.stages}" for c in find_culprits(found)]
        row = (
            f"`{case}`" if case else "nothing",
            f"{1000 * found.attribution.step_s:.0f} ms ({1000 * step_s:.0f})",
            f"{100 * found.attribution.replay_error:+.1f} %",
            ", ".join(told) or "none",
            f"{largest} {100 * others[largest]:.1f} %",
            culprits[0] if culprits else "none",
        )
        print(f"| {' | '.join(row)} |")


SPLITS: dict[tuple[str, int], list[tuple[str, tuple[int, ...]]]] = {
    ("megatron", 1): [
        ("--num-layers 16 --decoder-last-pipeline-num-layers 1", (5, 5, 5, 2)),
        ("--num-layers 16 --pipeline-model-parallel-layout Et*4|t*5|t*5|t*2L", (4, 5, 5, 3)),
    ],
    ("megatron", 2): [
        ("--num-layers 16 --pipeline-model-parallel-layout Et*2|t*2|t*2|t*2|t*3|t*3|t*2|L", (2, 2, 2, 2, 3, 3, 2, 1)),
        ("--num-layers 16 --pipeline-model-parallel-layout Et*3|t*2|t*2|t*2|t*2|t*2|t*2|tL", (3, 2, 2, 2, 2, 2, 2, 2)),
    ],
    ("deepspeed", 1): [
        ("--parts 0,5,10,15,17", (5, 5, 5, 2)),
        ("--partition-method uniform", (5, 4, 4, 4)),
    ],
}
"""Options of a new split of 16 layers and a head, and how many layers each stage has then, the head counted."""


def usual_step_s(found: Diagnosis) -> float:
    """The median step: others had to wait for the machine."""
    measured = found.measured
    begins = np.full(len(measured.steps), np.inf)
    np.minimum.at(begins, measured.step, measured.begin_s)
    return float(np.median(np.diff(np.append(begins, measured.total_s))))


def splits(options: argparse.Namespace) -> None:
    """A row for each split: what the run with the even one predicts of it, and what it took."""
    others = SPLITS[options.engine, options.chunks]
    _, (base, *measured) = run_cases(options, ["", *(case for case, _ in others)])
    program = base.measured.first_step()
    assert base.layers is not None
    predict: Callable[..., float] = Planner(planning_model(base), base.measured.operations.engine).evaluator(program)
    beside_s = usual_step_s(base) - predict(base.layers.cut)
    best = [one.text for one in base.predictions if one.change == "repartition"]
    print(f"as it is: {1000 * usual_step_s(base):.0f} ms; best split by the report: {best}")
    print("| split | predicted | measured | error |")
    print("|---|---|---|---|")
    for (case, sizes), found in zip(others, measured, strict=True):
        cut = np.concatenate([[0], np.cumsum(sizes)])
        assert found.layers is not None and found.layers.cut.tolist() == cut.tolist(), found.layers
        predicted_s, taken_s = predict(cut) + beside_s, usual_step_s(found)
        error = 100 * (predicted_s / taken_s - 1)
        print(f"| `{case}` | {1000 * predicted_s:.0f} ms | {1000 * taken_s:.0f} ms | {error:+.1f} % |")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["causes", "splits"])
    parser.add_argument("engine", choices=["megatron", "deepspeed"])
    parser.add_argument("--chunks", type=int, default=1, help="stages a rank")
    parser.add_argument(
        "--overlap", action="store_true", help="messages overlap with computing (Megatron-core, chunks)"
    )
    parser.add_argument("--job", default="", help="more options of the job: --job=--variable-seq-lengths")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--case", action="append", help="options of the job instead of the usual cases")
    parser.add_argument("--keep", help="where the run folder is to lie, or lies")
    parser.add_argument("--record", action="store_true", help="print no table")
    options = parser.parse_args()
    cost = 20 if options.chunks == 1 else 15
    options.common = f"--nmb 8 --layers {4 // options.chunks} --f-ms {cost} --i-ms {cost} --w-ms {cost}"
    options.common += " --overlap-p2p-comm" if options.overlap else ""
    options.common += " " + options.job
    if options.what == "splits":
        options.common += f" --head 3 --per-stage {4 // options.chunks}"
    {"causes": causes, "splits": splits}[options.what](options)


if __name__ == "__main__":
    main()
