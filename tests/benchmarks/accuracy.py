"""The root causes that are found in recorded samples, beside those of the published method and of a naive one.

    SAMPLES_RUNS=runs python -m pytest tests/samples        records all samples and keeps their runs
    python -m tests.benchmarks.accuracy runs [--samples samples] [--format markdown|json]

For every sample: what is planted, and the first answer of this tool, of ScalAna as published (on the same graph), and
of "the place at which ranks differ most". An answer is ranks and a line, with two marks for rank and line: ``+`` right,
``-`` wrong. Seconds are the rank-seconds of waiting, against those planted; the saving is compared with what the
program without the fault really saves where that was recorded too (in ``NAME-fixed``), and else with the header.
Balanced samples count how many findings there are: none would be right. Where several faults are planted, the first
answer has to be one of them. The other two methods name one rank, and no seconds.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import scalana
from scalana.detectors import published
from scalana.detectors.findings import Finding
from tests.samples.planted import SAMPLES, Fault, Sample, read_sample


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


def measure(run: Path, sample: Sample) -> Row:
    """All three answers for one run."""
    analysis = scalana.analyze(run).analysis
    ppg = analysis.ppg
    theirs = published.detect(ppg, analysis.waits).findings
    spot = published.largest_imbalance(ppg)
    nothing = Answer("none", False, False, 0)

    def first(findings: list[Finding], single: bool) -> Answer:
        if not findings:
            return nothing
        top = findings[0]
        return judge(sample, top.ranks, top.file, top.line, top.end_line, len(findings), single=single)

    naive = nothing
    if spot is not None:
        place = ppg.psg[spot[1]].place
        naive = judge(sample, [spot[0]], place.file, place.line, max(place.line, place.end_line), 1, single=True)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of run folders, each named after its sample")
    parser.add_argument("--samples", type=Path, default=SAMPLES, help="folder of the programs (default: samples)")
    parser.add_argument("--format", choices=("markdown", "json"), default="markdown")
    args = parser.parse_args()
    rows = []
    for run in sorted(args.runs.iterdir()):
        path = args.samples / f"{run.name}.py"
        if not path.is_file() or not (run / "records").is_dir():
            continue
        try:
            rows.append(measure(run, read_sample(path)))
        except ValueError as error:
            print(f"{run.name}: {error}")
    if args.format == "json":
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
