"""What many trials showed, as text and as a part of a document."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.proof.results import Machine, commit, today

from .program import JOBS
from .trial import Judged

_HEADING = "## What was measured"
"""Of the part of a document that is written anew."""


def table(judged: Sequence[Judged]) -> str:
    """A row a fault, a column a job: how many runs, and how many of them were different."""
    jobs = _jobs(judged)
    runs, wrong = _counts(judged, lambda one: one.trial.name), _counts(_wrong(judged), lambda one: one.trial.name)
    lines = [f"{'fault':<40}" + "".join(f"{job:>10}" for job in jobs)]
    names = sorted({one.trial.name for one in judged})
    lines += [f"{name:<40}" + "".join(f"{_cell(runs, wrong, (name, job)):>10}" for job in jobs) for name in names]
    return "\n".join([*lines, *summary(judged)])


def summary(judged: Sequence[Judged]) -> list[str]:
    """How many runs there were and were different, what they lost, and how many say nothing."""
    lines = [f"{len(judged)} runs, each with and without scalana: {len(_wrong(judged))} different"]
    if lost := [one.lost_s for one in judged if one.lost_s is not None]:
        lines.append(f"of the record before the fault, at most {max(lost):.2f} s are missing, in {len(lost)} runs")
    if hung := sum(one.hangs_alone for one in judged):
        lines.append(f"{hung} runs did not end without scalana either, and say nothing")
    if again := sum(one.tries > 1 for one in judged):
        lines.append(f"{again} runs were repeated")
    return lines


def markdown(judged: Sequence[Judged]) -> str:
    """The same for a document, with the machine; what is around a job has a table of its own."""
    jobs = _jobs(judged)
    lines = [_HEADING, "", f"{_conditions()}:", ""]
    lines += [f"- {line}" for line in summary(judged)]
    lines += ["", f"| runs of | {' | '.join(jobs)} |", "|---" * (len(jobs) + 1) + "|"]
    lines += _rows(judged, lambda one: one.trial.fault, jobs)
    if any(one.trial.around for one in judged):
        lines += ["", f"| around it | {' | '.join(jobs)} |", "|---" * (len(jobs) + 1) + "|"]
        lines += _rows([one for one in judged if one.trial.around], lambda one: one.trial.around, jobs)
    return "\n".join(lines) + "\n"


def write_into(document: Path, judged: Sequence[Judged]) -> None:
    """Replace the part of a document that says what was measured; it is the last one."""
    text = document.read_text(encoding="utf-8")
    before = re.split(rf"^{_HEADING}$", text, flags=re.MULTILINE)[0].rstrip("\n")
    document.write_text(f"{before}\n\n{markdown(judged)}", encoding="utf-8")


def _rows(judged: Sequence[Judged], of: Callable[[Judged], str], jobs: Sequence[str]) -> list[str]:
    runs, wrong = _counts(judged, of), _counts(_wrong(judged), of)
    names = sorted({of(one) for one in judged}, key=str.lower)
    return [f"| {name} | {' | '.join(_cell(runs, wrong, (name, job)) for job in jobs)} |" for name in names]


def _counts(judged: Iterable[Judged], of: Callable[[Judged], str]) -> Counter[tuple[str, str]]:
    return Counter((of(one), one.trial.job) for one in judged)


def _cell(runs: Counter[tuple[str, str]], wrong: Counter[tuple[str, str]], key: tuple[str, str]) -> str:
    if not runs[key]:
        return "·"
    return f"{runs[key]} ({wrong[key]} !)" if wrong[key] else str(runs[key])


def _jobs(judged: Sequence[Judged]) -> list[str]:
    there = {one.trial.job for one in judged}
    return [job for job in JOBS if job in there]


def _wrong(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.wrong]


def _conditions() -> str:
    here = Machine.here()
    versions = f"Python {here.python}{f', torch {here.torch}' if here.torch else ''}"
    load = f"load {os.getloadavg()[0]:.0f} at the end"
    return f"{today()}, commit `{commit()}`, {here.cores} cores of {here.cpu}, {versions}, {load}"
