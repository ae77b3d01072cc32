"""Frameworks of others, each without a fault and with one: what the report says first, and what leaving it out saves.

    python -m tests.benchmarks.real_programs ENVIRONMENT/bin [NAME ...] [--format markdown|json] [--keep FOLDER]

The programs of ``tests/benchmarks/frameworks`` run training loops, pools and environments of libraries (``make
frameworks`` installs them). Each is recorded twice: with its fault, whose seconds it measures itself, and without it,
where the report has to find nothing. The difference of the two loops is what the fault really costs.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from scalana import api
from scalana.detectors.finding import Finding
from scalana.graphs.run_info import RunInfo
from tests.benchmarks.frameworks.planted import known

FOLDER = Path(__file__).resolve().parent / "frameworks"
LIMIT_S = 400


@dataclass(frozen=True)
class Program:
    """A program with its fault."""

    name: str
    what: str
    """The framework."""
    fault: str
    """And how it is removed: it is left out."""
    words: tuple[str, ...]
    """Its file, and its arguments."""
    mark: str
    """Of the lines that may be named."""
    who: str
    """The processes that may be named, as a report calls them."""
    ranks: int = 0
    """Of torchrun; 0: started by Python alone."""
    is_helper_right: bool = False
    """Whether the fault alone calls ``computing``, so that its body may be named as well."""


PROGRAMS = (
    Program(
        *("trainer-collator", "transformers Trainer, GPT-2", "the collator of rank 1 computes 40 ms a batch"),
        *(("trainer.py", "collator"), "collator", "rank 1", 2, True),
    ),
    Program(
        *("trainer-callback", "transformers Trainer, GPT-2", "a callback of rank 0 sends telemetry, 50 ms a step"),
        *(("trainer.py", "callback"), "callback", "rank 0", 2),
    ),
    Program(
        *("accelerate-audit", "accelerate, GPT-2", "the main process writes norms of gradients in each step"),
        *(("accelerate_loop.py",), "audit", "rank 0", 2),
    ),
    Program(
        *("lightning-callback", "Lightning Trainer, Transformer", "a callback of rank 1 computes 40 ms a batch"),
        *(("lightning_trainer.py", "callback"), "callback", "rank 1", 2, True),
    ),
    Program(
        *("lightning-dataset", "Lightning Trainer, Transformer", "rank 1 reads each sample from a slow share, 5 ms"),
        *(("lightning_trainer.py", "dataset"), "dataset", "rank 1", 2),
    ),
    Program(
        *("trl-reward", "TRL GRPOTrainer, Llama", "the reward function of rank 1 waits 250 ms for a verifier"),
        *(("trl_trainers.py", "reward"), "reward", "rank 1", 2),
    ),
    Program(
        *("trl-loss", "TRL SFTTrainer, Llama", "the loss of rank 1 waits 60 ms in each step"),
        *(("trl_trainers.py", "loss"), "loss", "rank 1", 2),
    ),
    Program(
        *("sb3-env", "stable-baselines3 PPO, SubprocVecEnv", "the second environment renders 8 ms a step"),
        *(("sb3_ppo.py",), "env", "worker 1", 0, True),
    ),
    Program(
        *(
            "joblib-pickling",
            "joblib with scikit-learn",
            "the table of each task is made again as it is pickled, 50 ms",
        ),
        *(("joblib_tasks.py",), "pickling", "main process", 0, True),
    ),
    Program(
        *("datasets-rows", "Hugging Face datasets, map(num_proc=2)", "rows of the second half take 6 ms longer"),
        *(("datasets_map.py",), "rows", "worker 1"),
    ),
    Program(
        *("gpt2-evaluation", "GPT-2 of transformers, DDP", "rank 0 evaluates alone in every 20th step"),
        *(("loops.py", "evaluation"), "evaluation", "rank 0", 2),
    ),
    Program(
        *("gpt2-loading", "GPT-2 of transformers, DDP, a loader with a worker", "samples of rank 1 take 12 ms to read"),
        *(("loops.py", "loading"), "loading", "rank 1", 2),
    ),
    Program(
        *("llama-gradients", "Llama of transformers, FSDP2", "rank 1 checks its gradients, 40 ms a step"),
        *(("loops.py", "gradients"), "gradients", "rank 1", 2, True),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What the report said of a program, and what the program measured."""

    name: str
    what: str
    fault: str
    said: str
    """The first finding in few words; empty if there is none."""
    right: bool
    """Its line and its processes."""
    fault_s: float
    said_s: float | None
    """What the report says that the named processes spend there more than others; None where that is not known."""
    saved_s: float
    """By how much the loop is shorter without the fault."""
    saving_s: float | None
    """The same, predicted."""
    run_s: float
    """Of the loop with the fault."""
    findings_without: int
    """That name some processes and not all of a kind, as the main process is: a pool, or its parent, that is waited
    for is what the program is for."""
    said_without: str
    load: float

    @property
    def seconds_error(self) -> float | None:
        """Of the seconds, relative."""
        return None if not self.right or self.said_s is None else abs(self.said_s / self.fault_s - 1.0)

    @property
    def saving_error(self) -> float | None:
        """Of the saving, relative to the real one."""
        return None if not self.right or self.saving_s is None else abs(self.saving_s / self.saved_s - 1.0)


class Failed(Exception):
    """A program that did not end well."""


def recorded(program: Program, commands: Path, work: Path, planted: bool) -> dict[str, float]:
    """Record a program in a folder: what it measured.

    Raises:
        Failed: it did not end well.
    """
    shutil.rmtree(work, ignore_errors=True)
    (work / "truth").mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_")}
    environment = {
        **kept,
        "PATH": f"{commands}{os.pathsep}{kept['PATH']}",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(work / "hub"),
        "PLANTED": str(int(planted)),
        "TRUTH": str(work / "truth"),
    }
    launcher = ("torchrun", "--standalone", "--nproc-per-node", str(program.ranks)) if program.ranks else ("python",)
    job = [str(commands / launcher[0]), *launcher[1:], str(FOLDER / program.words[0]), *program.words[1:]]
    words = [sys.executable, "-m", "scalana", "run", "--no-report", "-o", str(work / "run"), "--", *job]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    measured = known(work / "truth")
    if done.returncode or not any(one["loop"] for one in measured):
        raise Failed(f"{program.name}: {' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return {"spent": sum(one["spent"] for one in measured), "loop": max(one["loop"] for one in measured)}


def tried(program: Program, commands: Path, work: Path) -> Outcome:
    """A program with its fault and without, recorded and read."""
    load = os.getloadavg()[0]
    with_it = recorded(program, commands, work / "with", True)
    without = recorded(program, commands, work / "without", False)
    analysis = api.analyze(work / "with" / "run")
    quiet = api.analyze(work / "without" / "run")
    run = quiet.ppg.run
    alarms = [one for one in quiet.findings if not _processes(one, run).startswith(("all ", "the "))]
    first = analysis.findings[0] if analysis.findings else None
    right = first is not None and _is_right(first, program, analysis.ppg.run)
    return Outcome(
        name=program.name,
        what=program.what,
        fault=program.fault,
        said=_in_few_words(first, analysis.ppg.run),
        right=right,
        fault_s=with_it["spent"],
        said_s=_seconds(first) if first is not None else None,
        saved_s=with_it["loop"] - without["loop"],
        saving_s=first.saving_s if first is not None else None,
        run_s=with_it["loop"],
        findings_without=len(alarms),
        said_without=_in_few_words(alarms[0] if alarms else None, run),
        load=round(load, 1),
    )


def _is_right(finding: Finding, program: Program, run: RunInfo) -> bool:
    here = range(finding.line, max(finding.end_line, finding.line) + 1)
    marked = {program.words[0]: marked_lines(program.words[0], program.mark)}
    if program.is_helper_right:
        marked["planted.py"] = marked_lines("planted.py", "computing")
    is_here = any(number in here for number in marked.get(Path(finding.file).name, ()))
    return is_here and _processes(finding, run).endswith(program.who)


def marked_lines(name: str, mark: str) -> list[int]:
    """Lines of a file that a mark is behind, and the others of their statements."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    marked = {number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"# <- {mark}")}
    simple = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.stmt) and not hasattr(one, "body")]
    spans = [range(one.lineno, (one.end_lineno or one.lineno) + 1) for one in simple]
    return sorted(marked.union(*(span for span in spans if marked.intersection(span))))


def _processes(finding: Finding, run: RunInfo) -> str:
    return run.names.many(finding.ranks, run.ranks)


def _in_few_words(finding: Finding | None, run: RunInfo) -> str:
    if finding is None:
        return ""
    return f"{Path(finding.file).name}:{finding.line}, {_processes(finding, run)} ({finding.kind})"


def _seconds(finding: Finding) -> float | None:
    """How much longer the processes of a finding took at its place than the others."""
    place = finding.evidence.place
    if place is None or place.seconds_here is None:
        return None
    return place.seconds_here - (place.seconds_others or 0.0)


def summary(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Figures of all programs; errors in percent."""
    seconds = [100.0 * one.seconds_error for one in outcomes if one.seconds_error is not None]
    savings = sorted(100.0 * one.saving_error for one in outcomes if one.saving_error is not None)
    return {
        "programs": len(outcomes),
        "right": sum(one.right for one in outcomes),
        "quiet": sum(one.findings_without == 0 for one in outcomes),
        "seconds_median": median(seconds) if seconds else 100.0,
        "saving_median": median(savings) if savings else 100.0,
        "saving_95th": savings[-1 - len(savings) // 20] if savings else 100.0,
    }


def json_of(outcomes: Sequence[Outcome]) -> str:
    """All outcomes and figures."""
    rows = [{**asdict(one), "seconds_error": one.seconds_error, "saving_error": one.saving_error} for one in outcomes]
    return json.dumps({"programs": rows, "summary": summary(outcomes)})


def markdown_of(outcomes: Sequence[Outcome]) -> str:
    """A table."""
    head = "| program | fault | first finding | right | seconds: said, clock | saving: said, real | without it | load |"
    lines = [head, "|---" * 8 + "|"]
    for one in outcomes:
        said_s = f"{one.said_s:.2f}" if one.said_s is not None else "none"
        saving = f"{one.saving_s:.2f}" if one.saving_s is not None else "none"
        cells = (
            *(one.what, one.fault, one.said or "nothing", "yes" if one.right else "**no**"),
            f"{said_s}, {one.fault_s:.2f}",
            f"{saving}, {one.saved_s:.2f} of {one.run_s:.1f}",
            one.said_without or "nothing",
            f"{one.load:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    figures = (f"{name} {value:.1f}" for name, value in summary(outcomes).items())
    return "\n".join((*lines, "", ", ".join(figures)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commands", type=Path, metavar="ENVIRONMENT/bin", help="see `make frameworks`")
    parser.add_argument("names", nargs="*", choices=[[], *(one.name for one in PROGRAMS)], metavar="NAME")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    parser.add_argument("--keep", type=Path, help="a folder for the records")
    args = parser.parse_args()
    if not (args.commands / "torchrun").exists():
        parser.error(f"no torchrun in {args.commands}: `make frameworks` installs an environment in build/frameworks")
    chosen = [one for one in PROGRAMS if not args.names or one.name in args.names]
    with tempfile.TemporaryDirectory() as scratch:
        work = args.keep or Path(scratch)
        outcomes = []
        for program in chosen:
            try:
                outcomes.append(tried(program, args.commands.absolute(), work.absolute() / program.name))
            except (Failed, subprocess.TimeoutExpired) as failure:
                print(f"a program failed: {failure}", file=sys.stderr)
                return 1
            print(outcomes[-1], file=sys.stderr, flush=True)
    print(json_of(outcomes) if args.format == "json" else markdown_of(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
