"""What-ifs of a workload side by side, as a section and as data."""

from __future__ import annotations

from collections.abc import Sequence

from scalana.report import names
from scalana.report.document.sections import Column, Row, Section, Table
from scalana.report.workload.replay_sections import entry, rate, staleness
from scalana.workload.comparison import Compared
from scalana.workload.costs import WEIGHTS_PART
from scalana.workload.replay import KNEE, LONGER, PARTS, POLICIES

_COLUMNS = (
    Column("devices", 8),
    Column("train", 6),
    Column("replicas", 9),
    Column("step", 10),
    Column("faster", 7),
    Column("per s", 9),
    Column("busy", 6),
    Column("stale", 8),
    Column("policy", is_text=True, leads=True),
)


def section(found: Sequence[Compared], unit: str) -> Section:
    """A row a policy, number of devices and division of replicas."""
    first = found[0].replayed
    rows = tuple(_row(one, float(first.step_s.mean())) for one in found)
    notes = [
        f"faster: than the first row. per s: {unit}s of prompts and responses. busy: part of their time in which "
        "replicas generate. stale: updates between the weights that a trajectory is begun with and those that it "
        "trains, mean and most. The first step is part of the average, though nothing overlaps with it.",
        "train: devices that train; all where replicas train, too, or else the fastest of several divisions. The step "
        "of training is a line over the tokens of a process, and is extrapolated to other numbers of them.",
    ]
    used = [POLICIES[name] for name in dict.fromkeys(one.replayed.setting.policy for one in found)]
    notes.append("; ".join(f"{policy.name}: {policy.text}" for policy in used) + ".")
    if any(policy.streams for policy in used):
        notes.append(f"stream, relay: trainers take a batch in {PARTS} parts.")
    if any(policy.packs for policy in used):
        notes.append(
            f"repack: while a decoding step takes at most {LONGER} times as long as that of one trajectory; "
            f"relay-repack: {KNEE:.0f} times."
        )
    if len({one.place.tensor for one in found}) > 1:
        notes.append(
            f"Replicas of another size: {names.percent(WEIGHTS_PART)} of a decoding step is divided over the devices "
            "of a replica, as with two engines on H800, and so is what contexts take. This was not measured here."
        )
    return Section("comparison", "What if", ((Table(_COLUMNS, rows, tuple(notes)),),), "simulated, of an average step")


def _row(one: Compared, first_s: float) -> Row:
    place, replayed = one.place, one.replayed
    step_s = float(replayed.step_s.mean())
    policy = POLICIES[replayed.setting.policy]
    of = f" of {place.tensor}" if place.tensor > 1 else ""
    cells = (
        str(place.devices),
        str(place.trainers) if policy.apart else "all",
        f"{place.replicas}{of}",
        names.seconds(step_s),
        f"{first_s / step_s:.2f}x" if step_s > 0.0 else "",
        rate(replayed),
        names.percent(replayed.busy),
        staleness(replayed),
    )
    return Row((*cells, policy.name))


def entries(found: Sequence[Compared]) -> list[dict[str, object]]:
    """The same as plain data."""
    places = [
        {"devices": one.place.devices, "trainers": one.place.trainers, "tensor": one.place.tensor} for one in found
    ]
    return [place | entry(one.replayed) for place, one in zip(places, found, strict=True)]
