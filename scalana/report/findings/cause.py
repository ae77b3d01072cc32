"""A finding as renderers draw it: its words, its source, and what leads to it."""

from __future__ import annotations

import os
import tokenize
from collections.abc import Sequence

from scalana.detectors.finding import Finding, Hop
from scalana.detectors.kinds import kind_of
from scalana.graphs.run_info import RunInfo
from scalana.report import names
from scalana.report.document.finding import Cause, HopText, Inside, SourceLine
from scalana.report.findings.entry import finding_entry
from scalana.report.findings.over_steps import growth
from scalana.report.findings.sentences import sentences
from scalana.runtime.operations import BY_NAME


def cause_of(finding: Finding, run: RunInfo, words: Sequence[str] | None = None) -> Cause:
    """All that is shown of a finding; ``words`` are its sentences, if not those of a finding of one run."""
    entry = finding_entry(finding, run.cwd, run.names)
    claimed = {name: entry[name] for name in ("kind", "ranks", "lost_s", "lost_share", "saving_s")}
    return Cause(
        place=names.place(names.near(finding.file, run.cwd), finding.line),
        function=finding.function,
        ranks=run.names.many(finding.ranks, run.ranks),
        share=f"{names.percent(finding.lost_share)} of all waiting" if finding.lost_share > 0 else finding.kind,
        sentences=tuple(sentences(finding, run) if words is None else words),
        figures=_figures(finding, run),
        source=tuple(excerpt(finding.file, finding.line, finding.end_line)),
        is_source_changed=_is_source_changed(finding, run),
        inside=tuple(one for one in (_leaf(finding, run.cwd), _library(finding, run.cwd)) if one is not None),
        callers=tuple(_callers(finding, run.cwd)),
        path=_path(finding, run),
        advice=finding.advice,
        growth=growth(finding),
        evidence={**claimed, **entry["evidence"]},
    )


def _figures(finding: Finding, run: RunInfo) -> tuple[tuple[str, str], ...]:
    """The numbers that matter; the sentence with them is that of the cost."""
    unit = kind_of(finding.kind).unit
    shown = [(names.rank_seconds(finding.lost_s), unit)] if finding.lost_s > 0 else []
    if finding.lost_share > 0:
        shown.append((names.percent(finding.lost_share), "of all waiting"))
    if finding.saving_s > 0:
        most = "at most " if finding.evidence.is_bound else ""
        share = f" ({names.percent(finding.saving_s / run.seconds)})" if run.seconds else ""
        shown.append((f"{most}{names.seconds(finding.saving_s)}", f"shorter if fixed{share}"))
    return tuple(shown)


def _is_source_changed(finding: Finding, run: RunInfo) -> bool:
    """Whether the lines of a finding may not be those that ran."""
    return run.start_unix_s is not None and changed_since(finding.file, run.start_unix_s + run.seconds)


def _leaf(finding: Finding, cwd: str) -> Inside | None:
    """The function below the place in which the time is spent, if most of it is in one."""
    found = finding.evidence.leaf
    if found is None:
        return None
    is_near = found.file == finding.file
    where = f"line {found.line}" if is_near else names.place(names.near(found.file, cwd), found.line)
    calls = f", called from {found.calls} lines" if found.calls > 1 else ""
    return Inside("", f"in {found.function}, {where}{calls}")


def _library(finding: Finding, cwd: str) -> Inside | None:
    """Where it happens inside the call of a library's that the place is, and in which function; None if it is none."""
    inside = finding.evidence.library
    if inside is None:
        return None
    tail = f" {inside.function}" + (f" calls {inside.calls}" if inside.calls else "")
    return Inside(names.place(names.near(inside.file, cwd), inside.line), tail)


def _callers(finding: Finding, cwd: str) -> list[str]:
    """The call sites that lead to the place, innermost first."""
    found = finding.evidence.callers or []
    found = [caller for caller in found if not caller.endswith(" <module>")] or found  # main() says nothing
    return [names.near(caller, cwd) for caller in found]


def _path(finding: Finding, run: RunInfo) -> tuple[HopText, ...]:
    """The way from the symptom to the cause, symptom first."""
    arrival, hops = kind_of(finding.kind).arrival, []
    for hop in finding.path:
        who, wait = names.waiters(hop.rank, hop.ranks, run.names)
        what = _waits(wait, hop) if hop.operation or hop is not finding.path[-1] else arrival
        place = names.place(names.near(hop.file, run.cwd), hop.line)
        hops.append(HopText(who, what, max(hop.wait_s, 0.0), place, hop.function))
    return tuple(hops)


def _waits(wait: str, hop: Hop) -> str:
    """What is waited in, or for where that says more."""
    known = BY_NAME.get(hop.operation)
    return f"{wait} for {known.awaited}" if known and known.awaited else f"{wait} in {hop.operation or hop.vertex_kind}"


_BEFORE = 2
_AFTER = 1
_MOST_MARKED = 6


def excerpt(file: str, line: int, end_line: int) -> list[SourceLine]:
    """The lines ``line`` to ``end_line`` of ``file`` with a few around them, common indentation removed.

    A long place is cut off after its first lines. Empty when there is no such file or line.
    """
    lines = _read(file)
    if not 0 < line <= len(lines):
        return []
    end_line = min(max(line, end_line), len(lines))
    last_marked = min(end_line, line + _MOST_MARKED - 1)
    last = min(last_marked + (_AFTER if last_marked == end_line else 0), len(lines))
    numbers = list(range(max(1, line - _BEFORE), last + 1))
    texts = [lines[number - 1].expandtabs(4).rstrip() for number in numbers]
    while numbers and not texts[0]:
        numbers, texts = numbers[1:], texts[1:]
    while numbers and not texts[-1]:
        numbers, texts = numbers[:-1], texts[:-1]
    margin = min((len(text) - len(text.lstrip()) for text in texts if text), default=0)
    return [
        SourceLine(number, text[margin:], line <= number <= last_marked)
        for number, text in zip(numbers, texts, strict=True)
    ]


def changed_since(file: str, unix_s: float) -> bool:
    """Whether ``file`` was written after a moment, so that its lines may not be those that ran."""
    try:
        return os.path.getmtime(file) > unix_s
    except OSError:
        return False


def _read(file: str) -> list[str]:
    try:
        with tokenize.open(file) as source:
            return source.read().splitlines()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        pass
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            return source.read().splitlines()
    except (OSError, ValueError):
        return []
