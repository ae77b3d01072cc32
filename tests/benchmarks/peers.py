"""What the tools that people use today say about the samples, next to scalana, and what each of them costs.

    python tests/benchmarks/peers.py --peers PYTHON [--scalana PYTHON] [--out DIR] [--sample NAME ...] [--tool NAME ...]
    python tests/benchmarks/peers.py --peers PYTHON --cost 3 [--sample NAME ...]

PYTHON of ``--peers`` is the interpreter of an environment of its own, in which this script installs nothing:

    python3 -m venv peers && peers/bin/pip install torch==2.13.0 py-spy HolisticTraceAnalysis "pandas<3" traceml-ai

``--scalana`` is the interpreter that has scalana and torch (default: the one that runs this script). The raw answers
stay in ``--out``; the tables go to the standard output, in Markdown. How an answer is judged stands in
docs/appendix/peers.md and in ``peers_answers.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import peers_answers as answers  # noqa: E402

from tests.samples.planted import Sample, read_samples  # noqa: E402

LIMIT_S = 300
LOOP = re.compile(r"^loop seconds: ([0-9.]+)$", re.MULTILINE)


class Tools:
    """One method for each tool: runs a sample under it and leaves its answer's raw material in a folder."""

    def __init__(self, peers: Path, scalana: Path) -> None:
        self.peers, self.scalana = peers, scalana

    def torchrun(self, sample: Sample, python: Path) -> list[str]:
        return [str(python), "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={sample.ranks}"]

    def plain(self, sample: Sample, out: Path) -> list[str]:
        return [*self.torchrun(sample, self.peers), str(sample.path)]

    def py_spy(self, sample: Sample, out: Path) -> list[str]:
        # Sleeping is what many of the faults do: without --idle they are not in the record at all.
        record = "py-spy record --nonblocking --idle --threads --subprocesses --rate 50 --format raw"
        job = f'exec {record} --output "$PEER_OUT/$RANK.txt" -- {self.peers} {sample.path}'
        return [*self.torchrun(sample, self.peers), "--no-python", "bash", "-c", job]

    def profiler(self, sample: Sample, out: Path) -> list[str]:
        return [*self.torchrun(sample, self.peers), str(HERE / "peers_inject.py"), "profiler", str(sample.path)]

    def profiler_stacks(self, sample: Sample, out: Path) -> list[str]:
        return [*self.torchrun(sample, self.peers), str(HERE / "peers_inject.py"), "profiler-stacks", str(sample.path)]

    def traceml(self, sample: Sample, out: Path) -> list[str]:
        launch = ["traceml", "run", str(HERE / "peers_inject.py"), f"--nproc-per-node={sample.ranks}"]
        place = ["--logs-dir", str(out), "--run-name", "run", "--master-port", "29611", "--aggregator-port", "29771"]
        return [*launch, *place, "--args", "traceml", str(sample.path)]

    def scalana_run(self, sample: Sample, out: Path) -> list[str]:
        job = [*self.torchrun(sample, self.scalana), str(sample.path)]
        return [str(self.scalana), "-m", "scalana", "run", "-o", str(out / "run"), "--", *job]


COMMANDS: dict[str, Callable[[Tools, Sample, Path], list[str]]] = {
    "plain": Tools.plain,
    "py-spy": Tools.py_spy,
    "HTA": Tools.profiler,
    "profiler with stacks": Tools.profiler_stacks,
    "TraceML": Tools.traceml,
    "scalana": Tools.scalana_run,
}
NAMED = [name for name in COMMANDS if name != "plain"]


def run(tools: Tools, tool: str, sample: Sample, out: Path) -> tuple[float, float, str]:
    """Runs a sample under a tool. Returns the seconds of its loop, the CPU seconds of the whole job with everything
    that the tool adds to it, and the output. Raises RuntimeError if the program did not come to its end."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    environment = {**os.environ, "PEER_OUT": str(out), "PATH": f"{tools.peers.parent}{os.pathsep}{os.environ['PATH']}"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        COMMANDS[tool](tools, sample, out),
        cwd=HERE.parents[1],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LIMIT_S,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (out / "output.txt").write_text(done.stdout)
    seconds = LOOP.search(done.stdout)
    if seconds is None:
        raise RuntimeError(f"{tool} {sample.name}: exit code {done.returncode}: {done.stdout[-1500:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return float(seconds[1]), cpu_s, done.stdout


def hta_answer(tools: Tools, sample: Sample, out: Path) -> answers.Answer:
    command = [str(tools.peers), str(HERE / "peers_hta.py"), str(out), str(sample.ranks)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=LIMIT_S)
    return answers.hta(json.loads(done.stdout.splitlines()[-1]))


def answer(tools: Tools, tool: str, sample: Sample, out: Path, loop_s: float) -> answers.Answer:
    if tool == "py-spy":
        return answers.py_spy({r: (out / f"{r}.txt").read_text() for r in range(sample.ranks)}, sample.path, 50, loop_s)
    if tool == "HTA":
        return hta_answer(tools, sample, out)
    if tool == "profiler with stacks":
        return answers.profiler({r: out / f"rank{r}.json" for r in range(sample.ranks)}, sample.path, loop_s)
    if tool == "TraceML":
        return answers.traceml(json.loads((out / "run" / "final_summary.json").read_text()))
    return answers.scalana(json.loads((out / "run" / "report.json").read_text()))


def compare(tools: Tools, samples: list[Sample], names: list[str], out: Path) -> None:
    """Runs every sample under every tool, and prints a table of the answers. Answers are kept, so that a later call
    with other tools or samples completes the table."""
    for sample in samples:
        for tool in names:
            folder = out / tool.replace(" ", "-") / sample.name
            try:
                loop_s, _, _ = run(tools, tool, sample, folder)
                said = answer(tools, tool, sample, folder, loop_s)
            except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                said = answers.Answer(text=f"failed: {type(error).__name__}: {error}"[:400])
            (folder / "answer.json").write_text(json.dumps(asdict(said), indent=1))
            print(f"{sample.name} {tool}: {said}", file=sys.stderr, flush=True)
            for trace in folder.glob("rank*.json"):
                trace.unlink()  # hundreds of megabytes each
    print_answers(out)


def read_again(out: Path, tools: Tools) -> None:
    """Reads the raw answers once more, but those of torch's profiler, whose traces are too large to keep."""
    for sample in read_samples():
        for tool in ("py-spy", "TraceML", "scalana"):
            folder = out / tool / sample.name
            seconds = LOOP.search((folder / "output.txt").read_text()) if (folder / "output.txt").exists() else None
            if seconds is None:
                continue
            try:
                said = answer(tools, tool, sample, folder, float(seconds[1]))
            except OSError:
                continue  # it failed then, and the answer says so
            (folder / "answer.json").write_text(json.dumps(asdict(said), indent=1))


def print_answers(out: Path) -> None:
    everything = read_samples()
    print("| sample | planted | " + " | ".join(NAMED) + " |")
    print("|---" * (len(NAMED) + 2) + "|")
    right: dict[str, list[answers.Verdict]] = {tool: [] for tool in NAMED}
    for sample in everything:
        cells = []
        for tool in NAMED:
            path = out / tool.replace(" ", "-") / sample.name / "answer.json"
            if not path.exists():
                cells.append("")
                continue
            said = answers.Answer(**json.loads(path.read_text()))
            verdict = answers.judge(said, sample)
            right[tool].append(verdict)
            cells.append(f"{said.short()} → **{verdict.word}**")
        print(f"| {sample.name} | {answers.planted(sample)} | " + " | ".join(cells) + " |")
    print("\n| of the samples | " + " | ".join(NAMED) + " |")
    print("|---" * (len(NAMED) + 1) + "|")
    rows: Mapping[str, Callable[[answers.Verdict], bool | None]] = {
        "rank(s) right": lambda verdict: verdict.ranks,
        "line right": lambda verdict: verdict.line,
        "lost seconds within 15 %": lambda verdict: verdict.lost,
        "saving within 15 %": lambda verdict: verdict.saving,
        "silent where nothing is planted": lambda verdict: verdict.silent,
    }
    for name, of in rows.items():
        cells = []
        for tool in NAMED:
            known = [value for value in map(of, right[tool]) if value is not None]
            cells.append(f"{sum(known)} of {len(known)}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def cost(tools: Tools, samples: list[Sample], names: list[str], out: Path, rounds: int) -> None:
    """Alternates runs without and with each tool, and prints ratios of the least disturbed ones."""
    print("| sample | tool | loop seconds without | with | ratio | CPU seconds of the job without | with | ratio |")
    print("|---" * 8 + "|")
    for sample in samples:
        measured: dict[str, list[tuple[float, float]]] = {tool: [] for tool in ("plain", *names)}
        for _ in range(rounds):
            for tool in measured:
                try:
                    loop_s, cpu_s, _ = run(tools, tool, sample, out / "cost")
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(error, file=sys.stderr, flush=True)
                    continue
                measured[tool].append((loop_s, cpu_s))
                print(sample.name, tool, loop_s, cpu_s, file=sys.stderr, flush=True)
        loop, cpu = (
            {tool: min(value[i] for value in values) for tool, values in measured.items() if values} for i in (0, 1)
        )
        for tool in names:
            if tool in loop:
                # py-spy does not wait for the program that it starts, so that the program's CPU time is not in its own.
                known = tool != "py-spy"
                print(
                    f"| {sample.name} | {tool} | {loop['plain']:.2f} | {loop[tool]:.2f} | "
                    f"{loop[tool] / loop['plain']:.2f} | {cpu['plain']:.1f} | "
                    + (f"{cpu[tool]:.1f} | {cpu[tool] / cpu['plain']:.2f} |" if known else "not known | |"),
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="interpreter of the environment that has the peers")
    parser.add_argument("--scalana", type=Path, default=Path(sys.executable), help="interpreter that has scalana")
    parser.add_argument("--out", type=Path, default=Path("build/peers"), help="folder for the raw answers")
    parser.add_argument("--sample", action="append", default=[], help="this sample only (may be repeated)")
    parser.add_argument("--tool", action="append", default=[], choices=NAMED, help="this tool only (may be repeated)")
    parser.add_argument("--cost", type=int, default=0, metavar="ROUNDS", help="measure what the tools cost, instead")
    parser.add_argument("--table", action="store_true", help="only print the answers that are there")
    args = parser.parse_args()
    if args.table:
        read_again(args.out.absolute(), Tools(args.scalana, args.scalana))
        print_answers(args.out)
        return
    if args.peers is None or not (args.peers.parent / "py-spy").exists():
        parser.error("--peers PYTHON: the interpreter of an environment that has the peers; see --help")
    tools = Tools(args.peers.absolute(), args.scalana.absolute())
    samples = [sample for sample in read_samples() if not args.sample or sample.name in args.sample]
    names = args.tool or NAMED
    out = args.out.absolute()
    if args.cost:
        cost(tools, samples, names, out, args.cost)
    else:
        compare(tools, samples, names, out)


if __name__ == "__main__":
    main()
