"""What a tool says in the end about one run of a sample, brought to one form, and whether that is what is planted.

Two of the peers print samples or events and leave the reading to the user. They are read here as an expert would who
knows which lines wait, and compares all ranks line by line:

* the place with the most seconds above the median of the other ranks, among the user's innermost places that are not
  importing or waiting for somebody else (below them stands no frame of ``torch.distributed``, autograd, a queue, a lock
  or a loader);
* nothing, where that excess is below 10 % of the loop.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.samples.planted import Fault, Sample

LEAST_SHARE = 0.1
TOLERANCE = 0.15
WAITS = (
    "torch/distributed/",
    "torch/autograd/",
    "torch/_tensor.py",
    "torch/utils/data/dataloader.py",
    "queue.py",
    "threading.py",
    "importlib._bootstrap",
)


@dataclass(frozen=True)
class Answer:
    """What a tool names first. Empty fields: it does not say."""

    ranks: list[int] = field(default_factory=list)
    file: str = ""
    line: int = 0
    end_line: int = 0
    function: str = ""
    """Without a line: the function is all that it names."""
    spent_s: float | None = None
    """Seconds that the named place takes longer than elsewhere."""
    lost_s: float | None = None
    """Rank-seconds of waiting that it causes."""
    saving_s: float | None = None
    text: str = ""
    """In the tool's own words."""
    others: int = 0
    """Further causes named after this one."""

    def short(self) -> str:
        if not (self.ranks or self.file or self.function):
            return self.text or "nothing"
        place = f"{self.file}:{self.line} {self.function}".strip() if self.line else self.function
        ranks = f"rank {', '.join(map(str, self.ranks))}" if self.ranks else ""
        seconds = [
            f"{value:.2f} s {name}"
            for value, name in ((self.spent_s, "more"), (self.lost_s, "lost"), (self.saving_s, "saved"))
            if value is not None
        ]
        return "; ".join(part for part in (ranks, place, *seconds, self.text) if part)


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right; None where the question does not arise for a sample."""

    word: str
    ranks: bool | None = None
    line: bool | None = None
    lost: bool | None = None
    saving: bool | None = None
    silent: bool | None = None


def planted(sample: Sample) -> str:
    if sample.balanced:
        return "nothing"
    return ", ".join(
        f"rank {','.join(map(str, f.ranks))} :{f.line} {f.function} (lost {f.lost_s:.1f} s, saving {f.saving_s:.1f} s)"
        for f in sample.faults
    )


def judge(said: Answer, sample: Sample) -> Verdict:
    """The answer against the planted fault that it is nearest to."""
    if said.text.startswith("failed"):
        return Verdict("failed", silent=False) if sample.balanced else Verdict("failed", False, False, False, False)
    silent = not (said.ranks or said.line or said.function)
    if sample.balanced:
        return Verdict("right" if silent else "wrong", silent=silent)
    if silent:
        return Verdict("says nothing", False, False, False, False)
    return max((judge_fault(said, fault, sample) for fault in sample.faults), key=lambda v: (v.line, v.ranks, v.saving))


def judge_fault(said: Answer, fault: Fault, sample: Sample) -> Verdict:
    ranks = sorted(said.ranks) == sorted(fault.ranks)
    line = (
        bool(said.line)
        and said.file == sample.path.name
        and said.line <= fault.end_line
        and fault.line <= said.end_line
    )
    function = said.function.rsplit(".", 1)[-1] == fault.function
    lost, saving = near(said.lost_s, fault.lost_s), near(said.saving_s, fault.saving_s)
    if line and ranks:
        word = "right" if lost and saving else "rank and line right"
    elif ranks:
        word = "rank and function right" if function else "rank right" if not said.line else "rank right, line wrong"
    else:
        word = "line right, rank wrong" if line else "wrong"
    return Verdict(word, ranks, line, lost, saving)


def near(value: float | None, wanted: float) -> bool:
    return value is not None and abs(value - wanted) <= TOLERANCE * wanted


def largest_excess(seconds: Mapping[int, Mapping[tuple[int, str], float]], file: str, loop_s: float) -> Answer:
    """The (line, function) and rank with the most seconds above the median of the other ranks."""
    excesses = []
    for place in {place for of_rank in seconds.values() for place in of_rank}:
        for rank in seconds:
            others = statistics.median(seconds[other].get(place, 0.0) for other in seconds if other != rank)
            excesses.append((seconds[rank].get(place, 0.0) - others, rank, place))
    large = sorted((one for one in excesses if one[0] >= LEAST_SHARE * loop_s), reverse=True)
    if not large:
        return Answer(text="no difference between ranks" if excesses else "no samples")
    excess, rank, (line, function) = large[0]
    then = [f"then rank {r} :{place[0]} {place[1]} {s:.2f} s" for s, r, place in large[1:2]]
    return Answer([rank], file, line, line, function, spent_s=excess, text="".join(then), others=len(large) - 1)


FRAME = re.compile(r"(?:^|;)([^;]*?) \(([^;()]*):(\d+)\)")


def is_main(row: str) -> bool:
    """Whether a row is of the rank's own main thread, not of a process that it started."""
    return ";process " not in row and "): MainThread" in row


def py_spy(flames: Mapping[int, str], program: Path, rate_hz: float, loop_s: float) -> Answer:
    """py-spy's raw flame data, one text for each rank: ``frame;frame;... count`` with frames ``name (file:line)``.

    py-spy misses more samples on one rank than on another where cores are short. The ranks' main threads live equally
    long: each rank's counts are scaled to the largest count of a main thread."""
    seconds: dict[int, dict[tuple[int, str], float]] = {}
    main = {
        rank: sum(int(row.rpartition(" ")[2]) for row in text.splitlines() if is_main(row))
        for rank, text in flames.items()
    }
    for rank, text in flames.items():
        spent: dict[tuple[int, str], float] = defaultdict(float)
        scale = max(main.values()) / main[rank] / rate_hz
        for row in text.splitlines():
            stack, _, count = row.rpartition(" ")
            frames = FRAME.findall(stack)
            own = [number for number, frame in enumerate(frames) if frame[1].endswith(program.name)]
            if not own or any(wait in frame[1] for frame in frames[own[-1] + 1 :] for wait in WAITS):
                continue
            name, _, line = frames[own[-1]]
            if name != "<module>":
                spent[int(line), name] += int(count) * scale
        seconds[rank] = spent
    return largest_excess(seconds, program.name, loop_s)


PYTHON_FRAME = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<name>.+)$")


def trace_rows(path: Path) -> Iterator[tuple[int, float, float, str]]:
    """(thread, start, end, name) of the Python frames in a trace of torch's profiler; microseconds."""
    row: dict[str, str] = {}
    wanted = re.compile(r'"(cat|name|ts|dur|tid)": (?:"(.*?)"|([^,\s]+))')
    with open(path, encoding="utf-8", errors="replace") as file:
        for text in file:  # as it is written: one event begins with "ph", and has several fields to a line
            if '"ph":' in text:
                row = {}
            row.update({key: string or number for key, string, number in wanted.findall(text) if key not in row})
            if row.get("cat") == "python_function" and "dur" in row and "tid" in row:
                start = float(row["ts"])
                yield hash(row["tid"]), start, start + float(row["dur"]), row["name"]
                row = {}


def profiler(traces: Mapping[int, Path], program: Path, loop_s: float) -> Answer:
    """Traces of torch's profiler with stacks: time of the innermost function of the user's own, for which the trace
    has the first line of the function and nothing below it."""
    seconds: dict[int, dict[tuple[int, str], float]] = {}
    for rank, path in traces.items():
        spent: dict[tuple[int, str], float] = defaultdict(float)
        open_frames: dict[int, list[list[Any]]] = defaultdict(list)
        for thread, start, end, name in sorted(trace_rows(path), key=lambda row: (row[0], row[1], -row[2])):
            stack = open_frames[thread]
            while stack and stack[-1][0] <= start:
                stack.pop()
            match = PYTHON_FRAME.match(name)
            if match is None:
                continue
            own = match["file"].endswith(program.name)
            waits = any(wait in match["file"] for wait in WAITS)
            if own or waits:
                place = (int(match["line"]), match["name"]) if own else None
                if stack and stack[-1][1] is not None:
                    spent[stack[-1][1]] -= (end - start) / 1e6
                if place:
                    spent[place] += (end - start) / 1e6
                elif stack and stack[-1][1] is None:
                    continue
                stack.append([end, place])
        seconds[rank] = spent
    said = largest_excess(seconds, program.name, loop_s)
    return Answer(said.ranks, "", 0, 0, said.function, said.spent_s, text=said.text)


def hta(said: Mapping[str, Any]) -> Answer:
    stragglers = said["stragglers"]
    if isinstance(stragglers, list) and stragglers:
        return Answer([int(rank) for rank in stragglers])
    failed = str(stragglers).startswith("failed")
    return Answer(text="nothing (no GPU kernels in the trace)" if failed else "nothing")


def traceml(summary: Mapping[str, Any]) -> Answer:
    """The first diagnosis. Straggler diagnoses alone name a rank; the others are about the run as a whole."""
    verdict = summary["primary_diagnosis"]
    diagnosis = summary["step_time"]["diagnosis"]
    words = f"{verdict['status']}: {verdict['summary']}"
    if verdict["section"] == "step_time" and "STRAGGLER" in diagnosis["kind"]:
        evidence = diagnosis["evidence"]
        steps = summary["step_time"]["global"]["window"]["steps_analyzed"]
        return Answer(list(diagnosis["ranks"]), spent_s=steps * evidence["visible_cost_ms"] / 1e3, text=words)
    return Answer(text=words)


def scalana(report: Mapping[str, Any]) -> Answer:
    findings = report["findings"]
    if not findings:
        return Answer(text="nothing")
    first = findings[0]
    root = first["root"]
    return Answer(
        first["ranks"],
        Path(root["file"]).name,
        root["line"],
        root["end_line"],
        root["function"],
        lost_s=first["lost_s"],
        saving_s=first["saving_s"],
        others=len(findings) - 1,
    )
