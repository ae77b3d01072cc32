"""Reinforcement learning: where the process time of its steps goes, and what would change it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalana.detectors.analysis import Analysis
from scalana.detectors.rl.account import NOBODY, SEVERAL, RLAccount, Slow
from scalana.graphs.readers.processes.process_names import ProcessNames
from scalana.report import names
from scalana.report.document.changes import KnownChange
from scalana.report.document.pictures import Picture
from scalana.report.document.sections import (
    Account,
    Column,
    Facts,
    Layout,
    Part,
    Row,
    Section,
    Share,
    Table,
    texts,
)
from scalana.report.pictures import rl_svg
from scalana.report.values import plain
from scalana.report.workload.ahead import ahead

NAME = "rl"

_MOST_STEPS = 6
"""Listed one by one: the longest."""
_LEAST_SHARE = 0.0005
_SPECIAL = {NOBODY: "", SEVERAL: "several"}
_CAUSES = 3
"""Named of a step."""
_WAITS = ("long-tail", "assignment", "training-imbalance", "slow-hardware", "pipeline", "backpressure")
"""Causes of waiting, to be looked at first."""

_CHANGES = (
    Column("step", 10),
    Column("faster", 7),
    Column("error", 7),
    Column("what if (the recorded steps, replayed)", is_text=True, leads=True),
)


def sections(analysis: Analysis) -> Sequence[Section]:
    """Process time by cause, step by step, the model of generation, and what changes would bring."""
    account = account_of(analysis)
    if account is None:
        return []
    processes, picture = analysis.ppg.run.names, account.picture
    slow = Facts(tuple(slower(each, processes) for each in account.slow))
    drawn: list[Part] = []
    if picture is not None:
        drawn.append(Picture("timeline of a step", lambda: rl_svg.svg(picture, processes)))
    blocks = (
        (_shares(account, processes), slow, *drawn),
        (_steps(account),),
        (Facts(texts(_decoding(account))),),
        changes(account),
    )
    return [Section(NAME, "Reinforcement learning", blocks, title(account))]


def account_of(analysis: Analysis) -> RLAccount | None:
    """The account of a run; None where it does not train by reinforcement learning."""
    found = analysis.sections.get(NAME)
    return found if isinstance(found, RLAccount) else None


def slower(slow: Slow, processes: ProcessNames) -> str:
    """That a process is slow, in words."""
    name = processes.one(slow.rank)
    return f"{name[0].upper()}{name[1:]} takes {slow.times:.2g} times as long as others for the same {slow.phase}."


def title(account: RLAccount) -> str:
    """Whose steps, how many, and how long."""
    steps, trainer = len(account.step_s), f"{account.framework} " if account.framework else ""
    mean_s = float(np.mean(account.step_s))
    return f"{trainer}{steps} steps of {names.seconds(mean_s)}" if steps != 1 else f"{trainer}one step"


def awaited(account: RLAccount, processes: ProcessNames) -> list[str]:
    """The process that others wait for most, by cause; "" for none."""
    return [_SPECIAL[worst] if worst in _SPECIAL else processes.one(worst) for worst in account.worst.tolist()]


def _shares(account: RLAccount, processes: ProcessNames) -> Account:
    """Process time of an average step, by cause."""
    steps = max(len(account.step_s), 1)
    causes = zip(account.keys, awaited(account, processes), account.shares.values(), account.texts, strict=True)
    parts = [
        Share(text, account.total_s * share / steps, number, who, key in _WAITS)
        for number, (key, who, share, text) in enumerate(causes)
        if share >= _LEAST_SHARE
    ]
    of = "where the time of all processes goes"
    return Account(of, account.total_s / steps, tuple(parts), Layout.ROWS, "", "a step", "awaited")


def _steps(account: RLAccount) -> Table:
    """The longest steps, and where their time went."""
    order = np.argsort(-account.step_s, kind="stable")[:_MOST_STEPS]
    whole = account.seconds.sum(axis=0)
    few = "the longest steps" if len(account.step_s) > _MOST_STEPS else "step by step"
    rows = []
    for step in sorted(order.tolist()):
        parts = account.seconds[:, step]
        most = np.argsort(-parts, kind="stable")[:_CAUSES]
        causes = ", ".join(
            f"{account.texts[number]} {names.percent(float(parts[number] / max(whole[step], 1e-300)))}"
            for number in most.tolist()
            if parts[number] > 0.0
        )
        rows.append(Row((str(account.first_step + step), names.seconds(float(account.step_s[step])), causes)))
    last = Column(f"{few}: where most of the time goes", is_text=True)
    return Table((Column("step", 6), Column("takes", 10), last), tuple(rows))


def _decoding(account: RLAccount) -> str:
    """The model of generation, as it was fitted; "" where it was not."""
    if not math.isfinite(account.floor_s):
        return ""
    return (
        f"Generation, fitted to this run: {names.seconds(account.floor_s)} per {account.unit}, plus "
        f"{names.seconds(account.sequence_s)} for every active trajectory. The longest trajectory takes "
        f"{names.percent(account.tail)} of the time of a rollout"
        + (": another assignment cannot help much." if account.tail > 0.9 else ".")
    )


def changes(account: RLAccount) -> tuple[Part, ...]:
    """Predictions, each with the error of its model."""
    now_s = float(np.mean(account.step_s))
    rows, nothing, off = [], [], []
    for each in [*account.what_if, *ahead(account)]:
        if not each.trusted:
            off.append(each)
        elif now_s <= 1.005 * each.step_s:
            nothing.append(each.text)
        else:
            faster = f"{now_s / each.step_s:.2f}x" if each.step_s > 0.0 else ""
            rows.append(Row((names.seconds(each.step_s), faster, names.percent(each.error), each.text)))
    said = [f"No step would be faster with: {'; '.join(nothing)}."] if nothing else []
    if off:
        error = names.percent(min(each.error for each in off))
        text = f"Not estimated, as the model differs from the recorded steps by {error} or more: "
        said.append(text + "; ".join(each.text for each in off) + ".")
    return (*([Table(_CHANGES, tuple(rows))] if rows else []), *([Facts(tuple(said))] if said else []))


_MORE_PROCESSES = ("more-rollouts", "more-trainers")
"""Changes for which there must be more of them."""


def known_changes(analysis: Analysis) -> list[KnownChange]:
    """What is predicted of the loop by models that fit it."""
    account = account_of(analysis)
    if account is None:
        return []
    steps, now_s = len(account.step_s), float(np.mean(account.step_s))
    trusted = [one for one in account.what_if if one.trusted]
    return [
        KnownChange(one.text, now_s, one.step_s, steps, "Reinforcement learning", one.change in _MORE_PROCESSES)
        for one in trusted
    ]


def entries(analysis: Analysis) -> dict[str, Any]:
    """The account, for the JSON report."""
    account = account_of(analysis)
    return {} if account is None else {NAME: entry(account)}


def entry(account: RLAccount) -> dict[str, Any]:
    """An account as plain data."""
    whole = account.seconds.sum(axis=0)
    return {
        "framework": account.framework or None,
        "steps": len(account.step_s),
        "step_s": plain(float(np.mean(account.step_s))),
        "roles": plain(account.roles),
        "shares": plain(account.shares),
        "decode": {
            "floor_s_per_token": plain(account.floor_s),
            "sequence_s_per_token": plain(account.sequence_s),
            "lambda": plain(account.tail),
        },
        "slow": [{"rank": each.rank, "phase": each.phase, "times": plain(each.times)} for each in account.slow],
        "what_if": [
            {"change": each.change, "text": each.text, "step_s": plain(each.step_s), "error": plain(each.error)}
            for each in [*account.what_if, *ahead(account)]
        ],
        "by_step": [
            {
                "step": account.first_step + step,
                "step_s": plain(seconds),
                "shares": {
                    key: plain(float(part / max(whole[step], 1e-300)))
                    for key, part in zip(account.keys, account.seconds[:, step].tolist(), strict=True)
                },
            }
            for step, seconds in enumerate(account.step_s.tolist())
        ],
    }
