"""What changed between two runs, for people."""

from __future__ import annotations

from collections import Counter

from scalana.detectors.finding import Finding
from scalana.detectors.runs.costs import RunCosts
from scalana.detectors.runs.diff import Change, Difference
from scalana.report import names
from scalana.report.document.sections import Cell, Column, Facts, Fit, Row, Section, Table, Tone, section, texts
from scalana.report.text.page import joined, warning_lines
from scalana.report.text.paint import NARROW, Paint, clip_left, rule, wrap
from scalana.report.text.sections import section_lines

MOST_CHANGES = 12


def render(difference: Difference, *, width: int = 100, color: bool = False) -> str:
    """The changes in at most ``width`` columns, with ANSI colours if ``color``. Ends with a newline."""
    paint = Paint(color)
    blocks = [
        _header(difference, width, paint),
        warning_lines(difference.warnings, width, paint),
        section_lines(changes_of(difference), width, paint),
        _causes(difference, width, paint),
    ]
    return joined(blocks)


def _header(difference: Difference, width: int, paint: Paint) -> list[str]:
    left, line, _ = rule("scalana diff", "", width)
    before, after = difference.before, difference.after
    step = after.mean_s - before.mean_s
    word = "longer" if step >= 0 else "shorter"
    share = f" ({names.percent(abs(step) / before.mean_s)})" if before.mean_s > 0 else ""
    amount = paint(f"{names.seconds(abs(step))}{share} {word}", "bold", "red" if step > 0 else "green")
    return [
        paint(left, "bold") + paint(line, "dim"),
        f"  before  {_run(before, width - 10)}",
        f"  after   {_run(after, width - 10)}",
        f"  Time of an average rank: {amount if step else 'unchanged'}.",
    ]


def _run(run: RunCosts, width: int) -> str:
    ranks = "1 rank" if run.ranks == 1 else f"{run.ranks} ranks"
    facts = f": {ranks}, {names.seconds(run.mean_s)} of an average rank"
    if width >= NARROW - 10:
        facts += f", {names.seconds(run.seconds)} in all"
    return clip_left(run.name, width - len(facts)) + facts


_COLUMNS = (
    Column("change", 9),
    Column("+-", 6),
    Column("before", 8),
    Column("after", 8),
    Column("work", 8, is_spared=True),
    Column("waiting", 8, is_spared=True),
    Column("place", is_text=True, leads=True, fit=Fit.CLIP_LEFT, tone=Tone.PLACE),
)


def changes_of(difference: Difference) -> Section:
    """The table of places; its rows add up to the change of an average rank."""
    places = Counter((change.file, change.line) for change in difference.changes)
    rows = [
        _row(change, difference, places[change.file, change.line] > 1) for change in difference.changes[:MOST_CHANGES]
    ]
    nothing = Facts(texts("" if rows else "No place changed by more than the noise."))
    rows += _others(difference, sum(change.change_s for change in difference.changes[MOST_CHANGES:]))
    note = "waiting: what other ranks wait because of the place, averaged over all ranks"
    table = (Table(_COLUMNS, tuple(rows), (note,)),) if rows else ()
    return section("changes", "What changed", "seconds of an average rank", nothing, *table)


def _row(change: Change, difference: Difference, by_caller: bool) -> Row:
    """``by_caller``: the place has other rows, and its caller distinguishes it from these."""
    run = difference.before if change.only == "before" else difference.after
    where = names.place(names.relative(change.file, run.cwd), change.line)
    what = change.function + (f" ({change.part})" if change.part != "work" else "")
    what += {"before": ", gone", "after": ", new"}.get(change.only, "")
    if by_caller and change.caller:
        what = f"in {change.caller.rpartition(' ')[2]}, {what}"
    amounts = f"{change.noise_s:.3f}", f"{change.before_s:.3f}", f"{change.after_s:.3f}"
    parts = f"{change.work_s + change.transfer_s:+.3f}", f"{change.waiting_s:+.3f}"
    tone = Tone.WORSE if change.change_s > 0 else Tone.BETTER
    return Row((Cell(f"{change.change_s:+.3f}", tone=tone), *amounts, *parts, Cell(where, f" {what}")))


def _others(difference: Difference, hidden_s: float) -> list[Row]:
    """What changed apart from the places that are shown; of those that are not, the sum is ``hidden_s``."""
    others = (
        ("waiting for a core", difference.core_wait_s),
        ("start of the job", difference.setup_s),
        ("everything else", difference.rest_s + hidden_s),
    )
    blank = ("",) * (len(_COLUMNS) - 2)
    return [
        Row((f"{value:+.3f}", *blank, Cell(label, tone=Tone.PLAIN))) for label, value in others if abs(value) >= 0.0005
    ]


def _causes(difference: Difference, width: int, paint: Paint) -> list[str]:
    """Root causes that came, went, and stayed."""
    before, after = difference.before, difference.after
    lines = []
    for finding in difference.appeared:
        lines += _cause("new", "red", finding, after, f"costs {names.rank_seconds(finding.lost_s)}", width, paint)
    for finding in difference.vanished:
        text = f"cost {names.rank_seconds(finding.lost_s)}"
        lines += _cause("gone", "green", finding, before, text, width, paint)
    for pair in difference.stayed:
        assert pair.before is not None and pair.after is not None
        text = f"costs {names.rank_seconds(pair.after.lost_s)}, {names.rank_seconds(pair.before.lost_s)} before"
        lines += _cause("still", "yellow", pair.after, after, text, width, paint)
    if not lines:
        return []
    left, line, _ = rule("Root causes of waiting", "", width)
    return [paint(left, "bold") + paint(line, "dim"), *lines]


def _cause(word: str, style: str, finding: Finding, run: RunCosts, text: str, width: int, paint: Paint) -> list[str]:
    where = names.place(names.relative(finding.file, run.cwd), finding.line)
    who = run.names.many(finding.ranks, run.ranks)
    first = f"  {word:<6}"
    body = f"{where} {finding.function}, {who}: {text}"
    line, *more = wrap(body, width, " " * 8, first) or [first]
    return [paint(line[:8], style) + line[8:], *more]
