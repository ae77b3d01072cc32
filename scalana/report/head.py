"""What the head of a report says of a run, and what it says where nothing was found."""

from __future__ import annotations

from scalana.detectors.analysis import Analysis
from scalana.detectors.efficiency.run_efficiency import EFFICIENCY
from scalana.detectors.thresholds.seconds import HANG_S
from scalana.detectors.thresholds.shares import SLIGHT
from scalana.detectors.when.steady import STEADY
from scalana.report import names
from scalana.report.document.sections import texts
from scalana.report.topics import places, steps
from scalana.report.topics.time import shown_time
from scalana.runtime.operations import BY_CODE


def lines(analysis: Analysis) -> tuple[str, ...]:
    """The run as a whole, and its steps."""
    return texts(_so_far(analysis), " · ".join(_facts(analysis)), steps.in_words(analysis))


def _so_far(analysis: Analysis) -> str:
    """That a run goes on, and how far it has come."""
    if not analysis.ppg.run.going_on:
        return ""
    found = analysis.steps
    until = f"until step {found.number[-1]}" if found is not None and len(found) else "until now"
    return f"the run is still going on; this is what it has recorded {until}"


def _facts(analysis: Analysis) -> list[str]:
    """How many ranks, how long, how it ended, and how it was sampled."""
    run = analysis.ppg.run
    hosts = len({host for host in run.host_of_rank if host})
    count = run.names.count(run.ranks) + (f" on {hosts} hosts" if hosts > 1 else "")
    found = [count, names.seconds(run.seconds or 0.0)]
    if run.ranks > 1:
        found.append(names.rank_seconds(analysis.time.total_s))
    found.append(_ending(run.exit_code))
    if run.rate_hz:
        found.append(f"{run.rate_hz:g} samples a second")
    return [fact for fact in found if fact]


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if 128 < exit_code < 160:
        return f"ended by signal {exit_code - 128}"
    return f"exit code {exit_code}"


def efficiency(analysis: Analysis) -> str:
    """A sentence with the parallel efficiency, or of one process with the part of its time that its main thread
    computes, and for how long the rest of it does where that is more; "" where neither is known."""
    found = analysis.section(EFFICIENCY)
    if found is None:
        return ""
    if analysis.ppg.run.ranks > 1:
        return f" The parallel efficiency is {names.percent(found.whole.parallel)}."
    computes = f" The main thread computes {names.percent(found.whole.useful)} of its time"
    others_s = float(analysis.ppg.metrics["helper_cpu_s"][:, 0].sum())
    if others_s <= found.whole.useful * (analysis.ppg.run.seconds or 0.0):
        return f"{computes}."
    return f"{computes}; other threads and children compute for {names.seconds(others_s)}."


def _open_to_the_end(analysis: Analysis) -> str:
    """Where ranks still waited when their records stopped, if others have no record: one of these may be why."""
    run, psg = analysis.ppg.run, analysis.ppg.psg
    calls = [call for call in run.open_calls if call.seconds >= HANG_S] if run.missing_ranks else []
    if not calls:
        return ""
    longest = max(calls, key=lambda call: call.seconds)
    ranks = run.names.many(sorted({call.rank for call in calls if call.vertex == longest.vertex}))
    place = psg[longest.vertex].place
    where = names.place(names.near(place.file, run.cwd), place.line)
    return (
        f"{ranks} waited in {BY_CODE[longest.operation].name} ({where}) for the last {names.seconds(longest.seconds)}, "
        "and ranks that they may have waited for left no record here."
    )


def nothing(analysis: Analysis) -> tuple[str, str]:
    """That there is no finding, and why; "" and "" where no time was recorded."""
    time = shown_time(analysis)
    if time.total_s <= 0:
        return "", ""
    run = analysis.ppg.run
    first = "Nothing stands out: "
    unseen = [way for way in run.unseen if way.seconds >= SLIGHT * time.total_s]
    if unseen:
        first = "Waiting is unknown: "
        where = " and ".join(f"{names.seconds(way.seconds)} in {way.name}" for way in unseen)
        text = f"the processes spend {where}, which is not recorded."
    elif run.elsewhere_by:
        first = "Waiting is unknown: "
        text = (
            f"the job started processes on other hosts by {' and '.join(run.elsewhere_by)}, and only the process that "
            "started them was recorded. The warning says how to record them."
        )
    elif run.ranks == 1:
        text = "the job has one rank, which waits for no other."
    elif not len(analysis.ppg.timeline.calls):
        first, text = "Waiting is unknown: ", "no communication between the ranks was recorded."
    else:
        slow, stuck = steps.slow_causes(analysis), _open_to_the_end(analysis)
        if stuck:
            text = stuck
        elif slow:
            first, text = "Nothing stands out over the whole run, but single steps do: ", f"{slow}."
        elif time.wait_s <= 0.0005 * time.total_s:
            text = "no rank waits for another one."
        else:
            when = "" if analysis.section(STEADY) is None else " in the steps"
            text = (
                f"ranks wait for each other {names.percent(time.wait_s / time.total_s)} of the time{when}, "
                "but no line of the program on specific ranks explains a significant part."
            )
        if run.notes or run.missing_ranks or run.unrecorded_results:
            first = "Waiting is unknown: " if stuck else "Nothing stands out in what was recorded: "
            text += " The record is incomplete, as the warnings say: the cause may be in a part that was not recorded."
        if run.missing_ranks:
            text += (
                f" The records of {run.names.many(run.missing_ranks)} are not here. Where their hosts do not share the "
                "run folder, records lie there, in the folder that scalana run named or at the same path: `scalana "
                "report DIR DIR` puts them together. If there are none, the launcher passed on no environment "
                "(docs/hosts.md)."
            )
    text += efficiency(analysis)
    text += " The table shows where the time goes." if places.hot_table(analysis) is not None else ""
    return first, text
