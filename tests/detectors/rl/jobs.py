"""Emulated loops with causes that are planted, and the same after their advice was followed: recorded once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from scalana import api
from scalana.detectors.finding import Finding
from scalana.detectors.rl.account import RLAccount
from tests.tools.fork_server import launcher

from ...tools.rl_job import Plan

ROOT = Path(__file__).resolve().parents[3]
RANKS, STEPS = 4, 3
EVEN = [40, 54, 67, 80]
LIMIT_S = 300
AT_ONCE = 2
"""Jobs that run side by side."""


def table(entry: Callable[[int, int], Any], ranks: int = RANKS) -> list[list[Any]]:
    """``[steps][ranks]`` of what ``entry(step, rank)`` gives."""
    return [[entry(step, rank) for rank in range(ranks)] for step in range(STEPS)]


def plan(ranks: int = RANKS, **changes: Any) -> Plan:
    """A loop in which all processes do the same, but for what is changed: tables, or functions of step and rank."""
    usual = {
        "lengths": lambda step, rank: list(EVEN),
        "verifier_s": lambda step, rank: 0.03,
        "log_prob_s": lambda step, rank: 0.03,
        "train_tokens": lambda step, rank: 500 + 100 * step,
    }
    made = {key: table(value, ranks) if callable(value) else value for key, value in {**usual, **changes}.items()}
    return replace(Plan([], floor_s=0.003, sequence_s=0.0001, data_s=0.005, sync_s=0.005), **made)


@dataclass(frozen=True)
class Case:
    """A planted cause."""

    plan: Plan
    kind: str
    ranks: list[int]
    lost_s: float
    """Rank-seconds of waiting that it makes, of all steps."""
    recurs: str
    """In what is said of who it is."""
    change: str
    """The prediction that is tested; empty for the saving of the finding itself."""
    mended: Plan
    """With the advice followed."""
    share: str
    also: dict[str, Any] = field(default_factory=dict)
    """Of the evidence."""


def cases(ranks: int = RANKS) -> dict[str, Case]:
    """All of them, on so many processes."""
    found = {}
    others = ranks - 1

    def loop(**changes: Any) -> Plan:
        return plan(ranks, **changes)

    def is_late(step: int, rank: int) -> bool:
        """Another process in each step."""
        return rank == step + 1

    tail = loop(lengths=lambda step, rank: [40, 54, 67, 240] if is_late(step, rank) else list(EVEN))
    gone = max(tail.finish_s(0, 1)) - max(tail.finish_s(0, 2))
    found["tail"] = Case(
        tail,
        "rl-long-tail",
        [1, 2, 3],
        others * STEPS * gone,
        "a different process",
        "cap",
        loop(),
        "long-tail",
        {"trajectories": ["0.1.3", "1.2.3", "2.3.3"]},
    )
    # All but the long one of each step are done when 95 % are: the rest of it would be carried over.
    found["partial"] = replace(found["tail"], change="partial")
    heavy = loop(
        lengths=lambda step, rank: [40] * (12 if rank == 1 else 4),
        sequence_s=0.001,
        groups=lambda step, rank: [100 * step + rank] * (12 if rank == 1 else 4),
    )
    gone = max(heavy.finish_s(0, 1)) - max(heavy.finish_s(0, 0))
    dealt = replace(heavy, lengths=table(lambda step, rank: [40] * (4 + 8 // ranks), ranks), groups=None)
    found["assignment"] = Case(
        heavy, "rl-assignment", [1], others * STEPS * gone, "rank 1", "balance", dealt, "assignment"
    )
    found["groups"] = replace(found["assignment"], change="spread-groups")
    found["expected-first"] = _by_prompt(loop, ranks)
    verifier = loop(verifier_s=lambda step, rank: 0.33 if rank == 2 else 0.03)
    halved = loop(verifier_s=lambda step, rank: 0.165 if rank == 2 else 0.015)
    found["verifier"] = Case(
        verifier, "rl-verifier", [2], others * STEPS * 0.3, "rank 2", "faster-verifier", halved, "verifier"
    )
    found["overlapped"] = replace(
        found["verifier"], change="overlapped-verifier", mended=replace(verifier, overlapped=True)
    )
    # All of the time is predicted to go; what is left in a loop without the cause is small.
    sync = loop(sync_s=0.25)
    found["sync"] = Case(sync, "rl-weight-sync", [0], others * STEPS * 0.25, "rank 0", "", loop(), "weight-sync")
    found["shared-sync"] = replace(found["sync"], change="sharded-sync", mended=replace(sync, shared=True))
    data = loop(data_s=0.25)
    found["data"] = Case(data, "rl-data-transfer", [0], others * STEPS * 0.25, "rank 0", "", loop(), "data-transfer")
    # Real work of one process between phases; it prepares the data, too, as in all loops. Mended it still hands it on.
    packs = loop(driver_s=0.4)
    lost_s = others * STEPS * (packs.driver_s + packs.data_s)
    found["driver"] = Case(packs, "rl-data-transfer", [0], lost_s, "rank 0", "", loop(driver_s=0.001), "data-transfer")
    # Trainers that wait for much of their time: not at all if trajectories come twice as fast. Two processes with half
    # of the answers each are as late as the one of them with the longest.
    starving = loop(starve_s=lambda step, rank: 0.4)
    fed = loop(lengths=lambda step, rank: EVEN[1::2])
    found["starvation"] = Case(
        starving,
        "rl-starvation",
        list(range(ranks)),
        ranks * STEPS * 0.4,
        f"{ranks} processes, in 3 of 3 steps",
        "more-rollouts",
        fed,
        "starvation",
    )
    rows = loop(train_tokens=lambda step, rank: 4000 if is_late(step, rank) else 1000)
    level = loop(train_tokens=lambda step, rank: 1000 + 3000 // ranks)
    found["rows"] = Case(
        rows,
        "rl-training-imbalance",
        [1, 2, 3],
        others * STEPS * 0.3,
        "a different process",
        "balanced-rows",
        level,
        "training-imbalance",
        {"trained_tokens_here": 4000.0, "trained_tokens_others": 1000.0},
    )
    slow = loop(slow=[1.5 if rank == 3 else 1.0 for rank in range(ranks)])
    gone = sum(max(slow.finish_s(k, 3)) / 3 + 0.03 / 2 + slow.train_of(k, 3) / 3 for k in range(STEPS))
    found["slow"] = Case(
        slow,
        "rl-slow-hardware",
        [3],
        others * gone,
        "rank 3",
        "no-slow-process",
        loop(),
        "slow-hardware",
        {"times": "1.50"},
    )
    return found


PER_PROMPT = 4
"""Answers to each prompt of :func:`_by_prompt`; every process has those to two."""


def _by_prompt(loop: Callable[..., Plan], ranks: int) -> Case:
    """Rank 1 has the two prompts with long answers. One answer of rank 0 is long as well, but no other to its prompt:
    no guess tells it beforehand."""

    def lengths(step: int, rank: int) -> list[int]:
        long = [62, 70, 80, 90, 66, 74, 84, 94]
        return long if rank == 1 else [16, 24, 34, 44, 18, 28, 36, 72 if rank == 0 else 46]

    def groups(step: int, rank: int) -> list[int]:
        return [2 * (step * ranks + rank) + number // PER_PROMPT for number in range(2 * PER_PROMPT)]

    held = loop(lengths=lengths, groups=groups, sequence_s=0.001)
    dealt = [_guessed_first(held.lengths[step], (held.groups or [])[step]) for step in range(STEPS)]
    known = replace(held, lengths=[_longest_first(row) for row in held.lengths], groups=None)
    gone = sum(_avoided_s(held, known, step) for step in range(STEPS))
    mended = replace(held, lengths=dealt, groups=None)
    return Case(held, "rl-assignment", [1], gone, "rank 1", "expected-first", mended, "assignment")


def _avoided_s(held: Plan, known: Plan, step: int) -> float:
    """Rank-seconds of waiting of a step that are gone with another assignment: of these at most what the rollout ends
    sooner by, for every process."""
    ends = [[max(each.finish_s(step, rank)) for rank in range(each.ranks)] for each in (held, known)]
    idle = [sum(max(row) - end for end in row) for row in ends]
    return min(idle[0] - idle[1], held.ranks * (max(ends[0]) - max(ends[1])))


def _longest_first(answers: list[list[int]], guess: list[float] | None = None) -> list[list[int]]:
    """Answers of all processes given out again, those with the largest guess first, each to the process with the least
    so far; by their lengths where there is no guess."""
    every = [tokens for part in answers for tokens in part]
    expected = guess or [float(tokens) for tokens in every]
    given: list[list[int]] = [[] for _ in answers]
    load = [0.0] * len(answers)
    for number in sorted(range(len(every)), key=lambda number: -expected[number]):
        least = load.index(min(load))
        given[least].append(every[number])
        load[least] += expected[number]
    return given


def _guessed_first(answers: list[list[int]], groups: list[list[int]]) -> list[list[int]]:
    """The same where an answer is expected to be as long as the others to its prompt."""
    prompts: dict[int, list[int]] = {}
    every = [(tokens, group) for each in zip(answers, groups, strict=True) for tokens, group in zip(*each, strict=True)]
    for tokens, group in every:
        prompts.setdefault(group, []).append(tokens)
    guess = [(sum(prompts[group]) - tokens) / (len(prompts[group]) - 1) for tokens, group in every]
    return _longest_first(answers, guess)


class Recorded:
    """A loop that was recorded."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan

    @cached_property
    def report(self) -> api.Report:
        return api.analyze(self.folder)

    @property
    def account(self) -> RLAccount:
        account = self.report.analysis.sections["rl"]
        assert isinstance(account, RLAccount)
        return account

    @property
    def findings(self) -> list[Finding]:
        return self.report.findings

    @property
    def step_s(self) -> float:
        return float(self.account.step_s.mean())


def record(plans: dict[str, Plan], folder: Path, ranks: int = RANKS, at_once: int = AT_ONCE) -> dict[str, Recorded]:
    """Run plans, those that are alike once: two at a time, as they mostly sleep. Processes import torch once."""
    made: dict[str, Recorded] = {}
    for name, each in plans.items():
        if repr(each) not in made:
            part = folder / str(len(made) % at_once)
            part.mkdir(exist_ok=True)
            each.dump(part / f"{name}.json")
            made[repr(each)] = Recorded(part / name, each)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [*launcher(ranks), str(ROOT / "tests" / "tools" / "rl_job.py"), str(part)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in sorted(folder.iterdir())
    ]
    told = [(each.communicate(timeout=LIMIT_S)[1], each.returncode) for each in running]
    assert all(code == 0 for _, code in told), told
    return {name: made[repr(each)] for name, each in plans.items()}


def predicted_s(case: Case, run: Recorded) -> float:
    """Seconds of a step with the advice followed."""
    if not case.change:
        return run.step_s - run.findings[0].saving_s / STEPS
    return next(each.step_s for each in run.account.what_if if each.change == case.change)


def problems_of(case: Case, run: Recorded, mended: Recorded, tolerance: float = 0.1) -> list[str]:
    """What is not as it was planted."""
    account, found = run.account, []
    first = run.findings[0] if run.findings else None
    if first is None or first.kind != case.kind or first.ranks != case.ranks:
        return [f"told: {[(each.kind, each.ranks, each.lost_s) for each in run.findings]}"]
    if abs(first.lost_s / case.lost_s - 1.0) > tolerance:
        found.append(f"costs {first.lost_s}, planted {case.lost_s}")
    if case.recurs not in str(first.evidence.as_dict()["recurrence"]):
        found.append(f"recurs: {first.evidence.as_dict()['recurrence']}")
    for key, value in case.also.items():
        told = first.evidence.as_dict().get(key)
        if key == "times" and abs(float(str(told)) / float(value) - 1.0) <= tolerance / 5:
            continue
        if sorted(told) != sorted(value) if isinstance(told, list) else told != value:
            found.append(f"{key}: {told}, not {value}")
    if abs(sum(account.shares.values()) - 1.0) > 0.01:
        found.append(f"shares add up to {sum(account.shares.values())}")
    waited = max(
        (key for key in account.shares if key not in ("generation", "under-batched", "training")),
        key=account.shares.__getitem__,
    )
    if waited != case.share:
        found.append(f"most waiting is {waited}")
    if others := [each.kind for each in run.findings if not each.kind.startswith("rl-")]:
        found.append(f"told besides: {others}")
    predicted = predicted_s(case, run)
    if abs(predicted / mended.step_s - 1.0) > tolerance:
        found.append(f"predicted {predicted} s a step, came out {mended.step_s}")
    return found
