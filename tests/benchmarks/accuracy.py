"""The root causes that are found in recorded samples, beside those of the published method and of a naive one.

    python -m tests.benchmarks.record_samples torch runs    records all samples
    python -m tests.benchmarks.accuracy runs [--samples samples] [--format markdown|json]
    python -m tests.benchmarks.accuracy runs --record-mpi MPI/bin      records samples/mpi into runs/mpi
    python -m tests.benchmarks.accuracy runs/mpi --samples samples/mpi
    python -m tests.benchmarks.record_samples scaling runs
    python -m tests.benchmarks.accuracy runs --scaling       for samples/scaling, in runs/NAME-RANKS

For every sample: what is planted, and the first answer of this tool, of ScalAna as published (on the same graph), and
of "the place at which ranks differ most". An answer is ranks and a line, with two marks for rank and line: ``+`` right,
``-`` wrong. Seconds are the rank-seconds of waiting, against those planted; the saving is compared with what the
program without the fault really saves where that was recorded too (in ``NAME-fixed``), and else with the header.
Balanced samples count how many findings there are: none would be right. Where several faults are planted, the first
answer has to be one of them. The other two methods name one rank, and no seconds; they are not shown the start of the
job.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import scalana
from scalana.detectors.finding import Finding
from scalana.detectors.runs.costs import setup_vertices
from scalana.graphs.ppg import PPG
from scalana.graphs.structure.align import align
from scalana.graphs.structure.psg import Place
from tests.benchmarks import published
from tests.runtime.mpi.conftest import Mpi
from tests.samples.planted import SAMPLES, Fault, Sample, header, marked_line, read_sample
from tests.samples.test_mpi_samples import as_python


@dataclass
class Answer:
    """The first answer of one method."""

    place: str
    rank_right: bool
    line_right: bool
    findings: int


@dataclass
class Row:
    """One sample."""

    sample: str
    truth: str
    ours: Answer
    published: Answer
    naive: Answer
    balanced: bool
    lost_error: float | None = None
    saving_error: float | None = None
    note: str = ""
    prediction_error: float | None = None
    """Of programs in C++ on several numbers of ranks: the error on 8 ranks of a model of 2, 3, 4 and 6."""


def judge(
    sample: Sample, ranks: list[int], file: str, line: int, end_line: int, findings: int, *, single: bool
) -> Answer:
    """Compare one answer with what is planted. ``single``: the method names one rank, which has to be a planted one."""
    fault = next((f for f in sample.faults if _at(sample, f, file, line, end_line)), None)
    wanted = fault or (sample.faults[0] if sample.faults else None)
    right = wanted is not None and bool(ranks)
    if wanted is not None:
        right = set(ranks) <= set(wanted.ranks) if single else sorted(ranks) == sorted(wanted.ranks)
    who = ",".join(map(str, ranks))
    return Answer(f"{who}: {Path(file).name}:{line}", right and bool(ranks), fault is not None, findings)


def _at(sample: Sample, fault: Fault, file: str, line: int, end_line: int) -> bool:
    """Whether a place is the planted one: inside it, or a vertex of a few lines that begins at most one line before."""
    if Path(file).name != sample.path.name:
        return False
    inside = fault.line <= line <= end_line <= fault.end_line
    around = line <= fault.line and fault.end_line <= end_line and end_line - line <= fault.end_line - fault.line + 2
    return inside or around


def loop_s(run: Path) -> float | None:
    """Seconds of the training loop by the program's own clock, from what it printed."""
    for name in ("stdout", "output", "stdout.txt"):
        if (run / name).is_file():
            found = re.search(r"loop seconds: ([0-9.]+)", (run / name).read_text(errors="replace"))
            if found:
                return float(found[1])
    return None


def read_mpi_sample(path: Path, run: Path) -> Sample:
    """A sample of ``samples/mpi``: what was planted is what the recorded program says it was."""
    text = as_python(path.read_text(encoding="utf-8"))
    values = header(text, path)
    ranks = 4
    planted = re.search(r"planted seconds: ([0-9.]+)", (run / "stdout").read_text(errors="replace"))
    planted_s = float(planted[1]) if planted else 0.0
    faults = []
    for entry in values.get("faults", []):
        line = marked_line(text, entry["marker"]) or 0
        end_line = marked_line(text, f"end of {entry['marker']}") or line
        lost_s = planted_s * (ranks - 1)  # all begin and end together
        function = entry["function"].partition("<")[0]
        faults.append(Fault(function, tuple(entry["ranks"]), entry["kind"], 0.0, 0, lost_s, planted_s, line, end_line))
    balanced = bool(values.get("balanced", False))
    return Sample(path, ("mpirun",), ranks, values["planted"], values["symptom"], balanced, tuple(faults))


def record_mpi(folder: str, samples: Path, runs: Path) -> None:
    """Record the samples in C++ and mpi4py on four ranks, and run each without its fault."""
    runs.mkdir(parents=True, exist_ok=True)
    mpi = Mpi(folder, runs.resolve())
    for path in sorted(samples.iterdir()):
        if path.suffix not in (".cpp", ".py") or (runs / path.name / "run.json").is_file():
            continue
        native = path.suffix == ".cpp"
        words = [mpi.compile(path, name=path.stem)] if native else [f"{folder}/python", str(path)]
        run = mpi.record(4, *words, name=path.name)
        (run / "stdout").write_text(mpi.output)
        fixed = runs / f"{path.name}-fixed"
        fixed.mkdir(exist_ok=True)
        (fixed / "stdout").write_text(mpi.run(4, *words, "--fix").stdout)


def without_start(ppg: PPG) -> None:
    """Take imports, and setting up communication, out of a graph's times: the other methods would name them."""
    ppg.metrics["time_s"][setup_vertices(ppg.psg, ppg.run.cwd)] = 0.0


def measure(run: Path, sample: Sample) -> Row:
    """All three answers for one run."""
    analysis = scalana.analyze(run).analysis
    ppg = analysis.ppg
    without_start(ppg)
    theirs = published.detect(ppg, analysis.waits).findings
    code_location = published.largest_imbalance(ppg)
    nothing = Answer("none", False, False, 0)

    def first(findings: list[Finding], single: bool) -> Answer:
        if not findings:
            return nothing
        top = findings[0]
        return judge(sample, top.ranks, top.file, top.line, top.end_line, len(findings), single=single)

    naive = nothing
    if code_location is not None:
        place = ppg.psg[code_location[1]].place
        naive = judge(
            sample, [code_location[0]], place.file, place.line, max(place.line, place.end_line), 1, single=True
        )
    truth = (
        "; ".join(f"{','.join(map(str, f.ranks))}: {sample.path.name}:{f.line}" for f in sample.faults) or "balanced"
    )
    row = Row(sample.name, truth, first(analysis.findings, False), first(theirs, True), naive, sample.balanced)
    pairs = [
        (fault, finding)
        for fault in sample.faults
        for finding in analysis.findings[: len(sample.faults)]
        if _at(sample, fault, finding.file, finding.line, finding.end_line)
    ]
    if pairs:
        lost, planted = sum(finding.lost_s for _, finding in pairs), sum(fault.lost_s for fault, _ in pairs)
        row.lost_error = lost / planted - 1.0
        saving, expected = sum(finding.saving_s for _, finding in pairs), sum(fault.saving_s for fault, _ in pairs)
        faulty, fixed = loop_s(run), loop_s(run.with_name(run.name + "-fixed"))
        if faulty is not None and fixed is not None and faulty > fixed and len(pairs) == len(sample.faults):
            expected = faulty - fixed
            row.note = "measured"
        row.saving_error = saving / expected - 1.0
    return row


def table(rows: list[Row]) -> str:
    """The rows as markdown, with a summary."""

    def mark(answer: Answer, balanced: bool) -> str:
        if balanced:
            return "none +" if not answer.findings else f"{answer.findings} findings -"
        return f"{answer.place} {'+' if answer.rank_right else '-'}{'+' if answer.line_right else '-'}"

    def percent(value: float | None) -> str:
        return "" if value is None else f"{value:+.1%}"

    lines = [
        "| sample | truth | scalana | published | naive | seconds error | saving error |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [mark(answer, row.balanced) for answer in (row.ours, row.published, row.naive)]
        saving = percent(row.saving_error) + ("" if row.note or row.saving_error is None else " (of header)")
        lines.append(f"| {row.sample} | {row.truth} | {' | '.join(cells)} | {percent(row.lost_error)} | {saving} |")
    faulty = [row for row in rows if not row.balanced]
    counts = []
    for name in ("ours", "published", "naive"):
        answers = [getattr(row, name) for row in faulty]
        both = sum(answer.rank_right and answer.line_right for answer in answers)
        ranks, places = sum(a.rank_right for a in answers), sum(a.line_right for a in answers)
        counts.append(f"{both}/{len(faulty)} (rank {ranks}, line {places})")
    errors = sorted(abs(row.lost_error) for row in rows if row.lost_error is not None)
    savings = sorted(abs(row.saving_error) for row in rows if row.saving_error is not None)
    medians = [f"median {values[len(values) // 2]:.1%}" if values else "" for values in (errors, savings)]
    lines.append(f"| **right** | | {' | '.join(counts)} | {' | '.join(medians)} |")
    return "\n".join(lines)


def scaling_rows(runs: Path, samples: Path) -> list[Row]:
    """The first answers for the programs that lose on more ranks, by runs of all their sizes."""
    rows = []
    for path in sorted(path for path in samples.iterdir() if path.suffix in (".py", ".cpp")):
        text = as_python(path.read_text(encoding="utf-8"))
        values = header(text, path)
        (fault,) = values["faults"]
        line = marked_line(text, fault["marker"]) or 0
        name = path.stem if path.suffix == ".py" else path.name
        folders = [runs / f"{name}-{ranks}" for ranks in values["sizes"]]
        if not all((folder / "run.json").is_file() for folder in folders):
            continue
        found = scalana.scaling(folders).findings
        theirs, place = _others_on_scaling(folders, values["sizes"])
        truth = f"{path.name}:{line} {fault['kind']}"
        answers = [
            _scaling_answer(path, line, top.file, top.line, top.end_line) if top else Answer("none", False, False, 0)
            for top in (found[0] if found else None, theirs, place)
        ]
        row = Row(name, truth, *answers, balanced=False)
        if fault.get("lost_s") and found:
            row.lost_error = found[0].lost_s / fault["lost_s"] - 1.0
        if path.suffix == ".cpp":
            row.prediction_error = _prediction_error(runs, name)
        rows.append(row)
    return rows


def _prediction_error(runs: Path, name: str) -> float | None:
    """How far the run of 8 ranks, which is not fitted, is from what the smaller ones predict."""
    folders = [runs / f"{name}-{ranks}" for ranks in (2, 3, 4, 6, 8)]
    if not all((folder / "run.json").is_file() for folder in folders):
        return None
    expected = json.loads(scalana.scaling(folders[:-1], at=8).to_json())["prediction"]["seconds"]
    run = json.loads(scalana.scaling([folders[0], folders[-1]]).to_json())["sizes"][-1]["seconds"]
    return float(expected / run - 1.0)


def _others_on_scaling(folders: list[Path], sizes: list[int]) -> tuple[Finding | None, Place | None]:
    """The answers of the published method and of the naive one, on the largest run."""
    analyses = [scalana.analyze(folder).analysis for folder in folders]
    largest = analyses[-1]
    for analysis in analyses:
        without_start(analysis.ppg)
    time_s = np.zeros((len(largest.ppg.psg), len(analyses)))
    for run, analysis in enumerate(analyses):
        vertex = align(largest.ppg.psg, analysis.ppg.psg)
        mean = analysis.ppg.metrics["time_s"].mean(axis=1)
        np.add.at(time_s, (vertex[vertex >= 0], run), mean[vertex >= 0])
    steep = published.non_scalable_vertices(time_s, sizes)
    theirs = published.detect(largest.ppg, largest.waits, steep).findings
    code_location = published.largest_imbalance(largest.ppg)
    place = largest.ppg.psg[code_location[1]].place if code_location is not None else None
    return (theirs[0] if theirs else None), place


def _scaling_answer(path: Path, planted: int, file: str, line: int, end_line: int) -> Answer:
    right = Path(file).name == path.name and line <= planted <= max(line, end_line) <= planted + 2
    return Answer(f"{Path(file).name}:{line}", right, right, 1)


def scaling_table(rows: list[Row]) -> str:
    """The rows as markdown."""
    lines = ["| sample | truth | scalana | published | naive | seconds error |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [f"{one.place} {'+' if one.line_right else '-'}" for one in (row.ours, row.published, row.naive)]
        error = "" if row.lost_error is None else f"{row.lost_error:+.1%}"
        lines.append(f"| {row.sample} | {row.truth} | {' | '.join(cells)} | {error} |")
    return "\n".join(lines)


def as_json(rows: list[Row]) -> str:
    """The rows as JSON."""
    return json.dumps([asdict(row) for row in rows], indent=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of run folders, each named after its sample")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="folder of the programs (default: samples)")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    parser.add_argument("--record-mpi", metavar="BIN", help="record samples/mpi with the MPI in this folder first")
    parser.add_argument("--scaling", action="store_true", help="the samples of several sizes instead")
    args = parser.parse_args()
    if args.scaling:
        scaling = scaling_rows(args.runs, args.samples / "scaling")
        print(as_json(scaling) if args.format == "json" else scaling_table(scaling))
        return
    if args.record_mpi:
        record_mpi(args.record_mpi, args.samples / "mpi", args.runs / "mpi")
        return
    rows = []
    for run in sorted(args.runs.iterdir()):
        native = args.samples / run.name
        path = native if native.is_file() else args.samples / f"{run.name}.py"
        if not path.is_file() or not (run / "records").is_dir():
            continue
        try:
            rows.append(measure(run, read_mpi_sample(path, run) if native.is_file() else read_sample(path)))
        except ValueError as error:
            print(f"{run.name}: {error}")
    if args.format == "json":
        print(as_json(rows))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
