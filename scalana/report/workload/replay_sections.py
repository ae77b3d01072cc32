"""Replays of workloads as sections, and how well they stand for what was recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalana.report import names
from scalana.report.document.sections import Column, Facts, Row, Section, Table, texts
from scalana.report.values import plain
from scalana.workload.fidelity import INTERVAL, Generative, Replayability, accuracy, phase_accuracy
from scalana.workload.replay import POLICIES, Replayed
from scalana.workload.step_costs import GENERATION
from scalana.workload.trajectories import Workload

_POLICIES = (
    Column("step", 10),
    Column("generation", 10),
    Column("replicas", 8),
    Column("busy", 6),
    Column("per s", 9),
    Column("stale", 8),
    Column("policy", is_text=True, leads=True),
)


def policies(replays: Sequence[Replayed], unit: str) -> Section:
    """What a workload takes, policy by policy."""
    rows = [_row(one) for one in replays]
    notes = (
        f"per s: {unit}s of prompts and responses. busy: part of their time in which replicas generate. stale: "
        "updates between the weights that a trajectory is begun with and those that it trains, mean and most. "
        "one-step-off, stream, relay, async: trainers have devices of their own, in addition; --compare has all on the "
        "same devices.",
    )
    return Section("replay", "Replay", ((Table(_POLICIES, tuple(rows), notes),),), "simulated, of an average step")


def _row(one: Replayed) -> Row:
    policy = POLICIES[one.setting.policy]
    cells = names.seconds(float(one.step_s.mean())), names.seconds(float(one.phases[GENERATION].mean()))
    what = f"{policy.name}: {policy.text}"
    return Row((*cells, str(one.setting.replicas), names.percent(one.busy), rate(one), staleness(one), what))


def rate(one: Replayed) -> str:
    """Tokens a second, in words."""
    return f"{one.tokens_per_s / 1e3:.1f} k" if one.tokens_per_s >= 1e4 else f"{one.tokens_per_s:.0f}"


def staleness(one: Replayed) -> str:
    """Updates that weights lack, mean and most, in words."""
    return f"{one.stale.mean():.1f}, {one.stale.max()}" if one.stale.any() else "0"


_STEPS = (Column("step", 6), Column("recorded", 10), Column("replayed", 10), Column("off", 8))
_MOST_STEPS = 8


def replayability(found: Replayability) -> Section:
    """Recorded steps and their replay, with the accuracy of steps and phases."""
    rows = [
        Row((str(step), names.seconds(was), names.seconds(now), f"{100 * (now / was - 1):+.1f} %"))
        for step, was, now in zip(
            found.tested.tolist(), found.recorded_s.tolist(), found.replayed_s.tolist(), strict=True
        )
    ]
    left = (f"... and {len(rows) - _MOST_STEPS} more steps.",) if len(rows) > _MOST_STEPS else ()
    fitted = f"fitted to steps {found.fitted[0]} to {found.fitted[-1]}"
    how = (
        f"Costs are {fitted}."
        if found.is_tested
        else f"Costs are {fitted}, too: fewer than four steps leave none to test."
    )
    phases = ", ".join(f"{name} {100 * one:.1f} %" for name, one in found.phases.items())
    facts = f"Accuracy: steps {100 * found.steps:.1f} %, their sum {100 * found.total:.1f} %; {phases}."
    blocks = ((Facts((facts, how)),), (Table(_STEPS, tuple(rows[:_MOST_STEPS]), left),))
    return Section("replay-fidelity", "Replay of the recorded steps", blocks, "lengths as recorded")


_PLAYED = (Column("step", 6), Column("recorded", 10), Column("simulated", 10), Column("played", 10), Column("off", 8))


def played(workload: Workload, replay: Replayed, found: Workload, folder: str) -> Section:
    """Steps that real processes played, compared with those that were recorded, or else simulated."""
    assert found.times is not None
    took_s = found.times.wall_s
    is_recorded = workload.times is not None and replay.setting.policy == "recorded"
    was_s = workload.times.wall_s if workload.times is not None and is_recorded else replay.step_s
    count = min(len(took_s), len(was_s))
    off = took_s[:count] / was_s[:count] - 1.0
    rows = [
        Row(
            (
                str(step),
                names.seconds(float(was_s[step])) if is_recorded else "",
                names.seconds(float(replay.step_s[step])),
                names.seconds(float(took_s[step])),
                f"{100 * off[step]:+.1f} %",
            )
        )
        for step in range(count)
    ]
    left = (f"... and {len(rows) - _MOST_STEPS} more steps.",) if len(rows) > _MOST_STEPS else ()
    steps = f"Accuracy: steps {100 * accuracy(took_s[:count], was_s[:count]):.1f} %"
    if is_recorded and workload.times is not None and count == len(was_s) == len(took_s):
        longest = {name: seconds.max(axis=0) for name, seconds in found.times.phases.items()}
        phases = phase_accuracy(workload.times, longest)
        steps += "; " + ", ".join(f"{name} {100 * one:.1f} %" for name, one in phases.items())
    facts = Facts((f"{steps}.", f"Recorded into {folder}: scalana rl report {folder}."))
    table = Table(_PLAYED, tuple(rows[:_MOST_STEPS]), left)
    return Section("played", "Played by real processes", ((facts,), (table,)), f"policy {replay.setting.policy}")


def generative(found: Generative) -> Section:
    """Steps that were drawn, compared with those that they stand for."""
    low, high = found.interval_s
    real = f"{names.seconds(found.real_s)} {'recorded' if found.recorded else 'with their own lengths'}"
    inside = "inside" if low <= found.real_s <= high else "outside"
    said = (
        f"The second half of the steps takes {real}; {len(found.drawn_s)} draws from a profile of the first half take "
        f"{names.seconds(float(found.drawn_s.mean()))} on average, {names.percent(INTERVAL)} of them "
        f"{names.span(low, high)}: accuracy {100 * found.accuracy:.1f} %, {inside} the interval."
    )
    return Section("generative-fidelity", "Drawn steps", ((Facts(texts(said)),),), "lengths drawn")


def entry(one: Replayed) -> dict[str, object]:
    """A replay as plain data."""
    return {
        "policy": one.setting.policy,
        "replicas": one.setting.replicas,
        "steps": len(one.step_s),
        "step_s": plain(float(one.step_s.mean())),
        "total_s": plain(one.total_s),
        "tokens_per_s": plain(one.tokens_per_s),
        "busy": plain(one.busy),
        "staleness": {"mean": plain(float(one.stale.mean())), "max": int(one.stale.max())},
        "by_step": [
            {
                "step": step,
                "step_s": plain(seconds),
                "phases": {name: plain(float(of[step])) for name, of in one.phases.items()},
            }
            for step, seconds in enumerate(one.step_s.tolist())
        ],
    }


def fidelity_entries(replay: Replayability | None, drawn: Generative | None) -> dict[str, object]:
    """Fidelity as plain data."""
    found: dict[str, object] = {}
    if replay is not None:
        found["replay"] = {
            "steps": plain(replay.steps),
            "total": plain(replay.total),
            "phases": plain(dict(replay.phases)),
            "tested": plain(replay.tested),
            "fitted": plain(replay.fitted),
        }
    if drawn is not None:
        found["generative"] = {
            "accuracy": plain(drawn.accuracy),
            "real_s": plain(drawn.real_s),
            "mean_s": plain(float(np.mean(drawn.drawn_s))),
            "interval_s": plain(drawn.interval_s),
            "recorded": drawn.recorded,
        }
    return found
