"""Reinforcement learning in the report: where the process time of its steps goes, and what would change it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from scalana.detectors.rl.account import NOBODY, SEVERAL
from scalana.report import names
from scalana.report.paint import Paint, clip, rule, wrap
from scalana.report.values import plain

if TYPE_CHECKING:
    from scalana.detectors.analysis import Analysis
    from scalana.detectors.rl.account import RLAccount, Slow
    from scalana.graphs.readers.processes.process_names import ProcessNames

_MOST_STEPS = 6
"""Listed one by one: the longest."""
_LEAST_SHARE = 0.0005
_SPECIAL = {NOBODY: "", SEVERAL: "several"}
_CAUSES = 3
"""Named of a step."""


def text(account: RLAccount, analysis: Analysis, width: int, paint: Paint) -> list[str]:
    """The section for people."""
    processes = analysis.ppg.run.names
    slow = [line for each in account.slow for line in wrap(slower(each, processes), width, "  ")]
    return [*_table(account, processes, width, paint), *slow, "", *tables(account, width, paint)]


def slower(slow: Slow, processes: ProcessNames) -> str:
    """That a process is slow, in words."""
    name = processes.one(slow.rank)
    return f"{name[0].upper()}{name[1:]} takes {slow.times:.2g} times as long as others for the same {slow.phase}."


def tables(account: RLAccount, width: int, paint: Paint) -> list[str]:
    """Step by step, the model of generation, and what changes would bring."""
    lines = _steps(account, width, paint)
    if math.isfinite(account.floor_s):
        lines += [""] + wrap(_decoding(account), width, "  ")
    if account.what_if:
        lines += [""] + _what_if(account, width, paint)
    return lines


def title(account: RLAccount) -> str:
    """Whose steps, how many, and how long."""
    steps, trainer = len(account.step_s), f"{account.framework} " if account.framework else ""
    mean_s = float(np.mean(account.step_s))
    return f"{trainer}{steps} steps of {names.seconds(mean_s)}" if steps != 1 else f"{trainer}one step"


def awaited(account: RLAccount, processes: ProcessNames) -> list[str]:
    """Who is waited for most, by cause; "" for nobody."""
    return [_SPECIAL[worst] if worst in _SPECIAL else processes.one(worst) for worst in account.worst.tolist()]


def _table(account: RLAccount, processes: ProcessNames, width: int, paint: Paint) -> list[str]:
    """Process time by cause, over all steps."""
    steps = len(account.step_s)
    left, line, right = rule("Reinforcement learning", title(account), width)
    lines = [paint(left, "bold") + paint(line + right, "dim")]
    told = awaited(account, processes)
    wide = max(8, *(len(str(who)) for who in told))
    head = f"  {'share':>6} {'a step':>10}  {'awaited':>{wide}}  where the time of all processes goes"
    lines.append(paint(head, "dim"))
    for key, who, share, cause in zip(account.keys, told, account.shares.values(), account.texts, strict=True):
        if share < _LEAST_SHARE:
            continue
        seconds = names.seconds(account.total_s * share / max(steps, 1))
        waits = key in ("long-tail", "assignment", "training-imbalance", "slow-hardware", "pipeline", "backpressure")
        row = f"  {names.percent(share):>6} {seconds:>10}  {who:>{wide}}  "
        lines.append(row + paint(clip(cause, max(0, width - len(row))), "red" if waits else ""))
    return lines


def _steps(account: RLAccount, width: int, paint: Paint) -> list[str]:
    """The longest steps, and where their time went."""
    order = np.argsort(-account.step_s, kind="stable")[:_MOST_STEPS]
    whole = account.seconds.sum(axis=0)
    head = "  the longest steps" if len(account.step_s) > _MOST_STEPS else "  step by step"
    lines = [paint(head, "dim")]
    for step in sorted(order.tolist()):
        parts = account.seconds[:, step]
        most = np.argsort(-parts, kind="stable")[:_CAUSES]
        told = ", ".join(
            f"{account.texts[number]} {names.percent(float(parts[number] / max(whole[step], 1e-300)))}"
            for number in most.tolist()
            if parts[number] > 0.0
        )
        lines.append(
            clip(f"  {account.first_step + step:>6} {names.seconds(float(account.step_s[step])):>10}  {told}", width)
        )
    return lines


def _decoding(account: RLAccount) -> str:
    """The model of generation, as it was fitted."""
    return (
        f"Generation: {names.seconds(account.floor_s)} per {account.unit}, and {names.seconds(account.sequence_s)} for "
        f"every active trajectory, fitted to this run. The longest trajectory alone takes "
        f"{names.percent(account.tail)} of the time of a rollout"
        + (": no assignment can help much." if account.tail > 0.9 else ".")
    )


def _what_if(account: RLAccount, width: int, paint: Paint) -> list[str]:
    """Predictions, each with the error of its model."""
    now_s = float(np.mean(account.step_s))
    lines = [paint(f"  {'step':>10} {'faster':>7} {'error':>7}  what if (the recorded steps, replayed)", "dim")]
    nothing, off = [], []
    for each in account.what_if:
        faster = f"{now_s / each.step_s:.2f}x" if each.step_s > 0.0 else ""
        if not each.trusted:
            off.append(each)
        elif now_s <= 1.005 * each.step_s:
            nothing.append(each.text)
        else:
            row = f"  {names.seconds(each.step_s):>10} {faster:>7} {names.percent(each.error):>7}  "
            lines.append(row + clip(each.text, max(0, width - len(row))))
    told = wrap(f"No step would be faster with: {'; '.join(nothing)}.", width, "  ") if nothing else []
    if off:
        error = names.percent(min(each.error for each in off))
        text = f"Not told, as the model is {error} or more off on the recorded steps: "
        told += wrap(text + "; ".join(each.text for each in off) + ".", width, "  ")
    return lines[1 if len(lines) == 1 else 0 :] + told


def document(account: RLAccount, analysis: Analysis) -> dict[str, Any]:
    """The section for programs."""
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
            for each in account.what_if
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
