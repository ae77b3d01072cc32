"""Writes docs/proof.md from the table and the results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .results import ROOT, Machine, Result, result_of
from .rows import Bar, Command, Elsewhere, Row, Sum
from .table import TOPICS
from .table.topic import Topic

PAGE = ROOT / "docs" / "proof.md"

HEAD = """# Figures, and whether they hold

`make proof` measures all figures and writes this page; `make proof NAME=accuracy-*,rl-named` measures some rows, and
the others keep what they had. `make gpu-proof` measures the rows that need a GPU. `tests/proof/table` has the command
of each row, `tests/proof/results.json` the results.

- **Claimed** is the figure of the document that is linked. Where tests enforce less, this is the stricter figure.
- **Holds** compares the last measurement with the claim. A cost that was measured once is its own bar, and a busier or
  slower machine may exceed it: see the load.
- **On** names the machine, the load average before and after, the date and the commit. A plus sign marks changes that
  were not committed.
- A row that was never measured here says what it needs. A row whose command failed says so, and keeps no older value.
"""


def page(results: Mapping[str, Result], topics: Sequence[Topic] = TOPICS) -> str:
    """The whole document."""
    machines = machines_of(results)
    rows = [row for topic in topics for row in topic.rows]
    parts = [HEAD, summary(rows, results), *(section(topic, results, machines) for topic in topics)]
    if machines:
        parts.append("## Machines\n\n" + "\n".join(f"- **{name}**: {text(of)}" for of, name in machines.items()) + "\n")
    return "\n".join(parts)


def summary(rows: Sequence[Row], results: Mapping[str, Result]) -> str:
    """How many figures hold."""
    states = [state(row, result_of(row, results)) for row in rows]
    held, broken, failed = (states.count(each) for each in ("yes", "**no**", "failed"))
    rest = len(rows) - held - broken - failed
    return f"Of {len(rows)} figures {held} hold, {broken} do not, {failed} failed, {rest} are not measured.\n"


def section(topic: Topic, results: Mapping[str, Result], machines: Mapping[Machine, str]) -> str:
    """A heading and a table."""
    lines = [f"## {topic.title}\n", "| row | figure | claimed | measured | holds | on |", "|---|---|---|---|---|---|"]
    for row in topic.rows:
        result = result_of(row, results)
        cells = (f"`{row.name}`", row.claim, claimed(row), measured(row, result), state(row, result))
        lines.append(f"| {' | '.join(cells)} | {circumstances(row, result, machines)} |")
    return "\n".join(lines) + "\n"


def claimed(row: Row) -> str:
    """The bar, linked to the document that claims it."""
    link = os.path.relpath(ROOT / row.document, PAGE.parent)
    return f"[{Bar.parse(row.bar).words()}{unit(row)}]({link})"


def unit(row: Row) -> str:
    """Behind a number."""
    return f" {row.unit}" if row.unit else ""


def figures(value: float) -> str:
    """A number with three significant digits, or all of those before the point."""
    value = round(value, 9)
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def measured(row: Row, result: Result | None) -> str:
    """The value, or why there is none."""
    if result is None:
        return "not measured"
    if result.value is None:
        return "no value: " + result.error.replace("|", "\\|")
    return figures(result.value) + unit(row)


def state(row: Row, result: Result | None) -> str:
    """Whether the claim holds."""
    if result is None:
        return ""
    if result.value is None:
        return "failed"
    return "yes" if Bar.parse(row.bar).holds(result.value) else "**no**"


def circumstances(row: Row, result: Result | None, machines: Mapping[Machine, str]) -> str:
    """Where and when a row was measured, or what it needs."""
    if result is None:
        return requirement(row)
    load = f"load {result.load_before:g} to {result.load_after:g}"
    return f"{machines[result.machine]}, {load}, {result.date}, {result.commit}"


def requirement(row: Row) -> str:
    """What a row needs that was never measured."""
    how = row.measured_by
    if isinstance(how, Elsewhere):
        return how.reason
    if isinstance(how, Sum):
        return "the sum of " + ", ".join(f"`{name}`" for name in how.names)
    return command_requirement(how)


def command_requirement(command: Command) -> str:
    """What a command needs."""
    needs = [*(need.what for need in command.needs), *(["a GPU"] if command.gpu else [])]
    if command.quiet:
        needs.append("a quiet machine")
    return "needs " + " and ".join(needs) if needs else ""


def machines_of(results: Mapping[str, Result]) -> dict[Machine, str]:
    """A letter for each machine, in the order of the results."""
    found = dict.fromkeys(result.machine for result in results.values())
    return {machine: chr(ord("A") + number) for number, machine in enumerate(found)}


def text(machine: Machine) -> str:
    """A machine in words."""
    gpu = f", {machine.gpu}" if machine.gpu else ""
    return f"{machine.cpu}, {machine.cores} cores{gpu}, Python {machine.python}, torch {machine.torch}"


def write(results: Mapping[str, Result], path: Path = PAGE) -> None:
    """Write the document."""
    path.write_text(page(results), encoding="utf-8")
