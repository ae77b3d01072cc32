"""What is told of reinforcement learning whose causes of waiting are planted, on eight processes: a table.

Run: python tests/benchmarks/rl_causes.py [--ranks N] [CASE ...]

Processes and collectives are real, and sleep where a GPU would compute (`tests/tools/rl_job.py`). First come findings:
who, rank-seconds of waiting, and a step with the advice followed: predicted, and as it is when it really is. Then come
shares of the time of all processes, in rank-seconds. Deviations above 10 % bear a mark.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.detectors.rl import jobs  # noqa: E402
from tests.tools.rl_job import Plan  # noqa: E402

RANKS = 8
TOLERANCE = 0.1
FEW = 8
"""Answers with which a batch is good in any case."""


@dataclass(frozen=True)
class Part:
    """A plan that has much of something which is no fault."""

    plan: Plan
    share: str
    planted_s: Callable[[jobs.Recorded], float]
    """Rank-seconds of it."""


def parts(ranks: int) -> dict[str, Part]:
    """One for each share that no finding is about."""
    others, steps = ranks - 1, jobs.STEPS

    def loop(**changes: object) -> Plan:
        return jobs.plan(ranks, **changes)

    def generated(good: bool) -> Callable[[jobs.Recorded], float]:
        return lambda run: sum(_generated_s(run.plan, step, r, good) for step in range(steps) for r in range(ranks))

    def of(seconds: float) -> Callable[[jobs.Recorded], float]:
        return lambda run: seconds

    long = loop(lengths=lambda step, rank: [150] * 8)
    thin = loop(lengths=lambda step, rank: [40] * 7 + [160])
    trained = loop(train_tokens=lambda step, rank: 3000)
    return {
        "generation": Part(long, "generation", generated(True)),
        "under-batched generation": Part(thin, "under-batched", generated(False)),
        "verifier, own and waited for": Part(
            loop(verifier_s=lambda step, rank: 0.33 if rank == 2 else 0.03), "verifier", of(ranks * steps * 0.33)
        ),
        "log-prob passes": Part(loop(log_prob_s=lambda step, rank: 0.28), "log-prob", of(ranks * steps * 0.28)),
        "log-prob, one late": Part(
            loop(log_prob_s=lambda step, rank: 0.28 if rank == 1 else 0.03), "log-prob", of(ranks * steps * 0.28)
        ),
        "training": Part(trained, "training", of(ranks * sum(trained.train_of(step, 0) for step in range(steps)))),
        "pipeline": Part(loop(stage_s=0.1), "pipeline", of(ranks * others * 0.1 * steps)),
        "weight sync, waited for": Part(loop(sync_s=0.25), "weight-sync", of(ranks * steps * 0.25)),
        "weight sync, transfer": Part(loop(weights_mb=60.0, sync_s=0.0), "weight-sync", _sending_s),
        "data, prepared by one": Part(loop(data_s=0.25), "data-transfer", of(ranks * steps * 0.25)),
        "outside of phases": Part(
            loop(outside_s=lambda step, rank: 0.25 if rank == 1 else 0.0), "other", of(ranks * steps * 0.25)
        ),
    }


def _generated_s(plan: Plan, step: int, rank: int, good: bool) -> float:
    """Seconds in which a process generates with a good batch, or with a smaller one (docs/rl.md)."""
    ends = sorted(plan.finish_s(step, rank))
    most = len(ends)
    rate = [running / (plan.floor_s + plan.sequence_s * running) for running in range(1, most + 1)]
    half = next(running for running in range(1, most + 1) if rate[running - 1] >= rate[-1] / 2)
    least = min(FEW, most / 2, half)
    full_s = max((end for place, end in enumerate(ends) if most - place >= least), default=0.0)
    return full_s if good else ends[-1] - full_s


def _sending_s(run: jobs.Recorded) -> float:
    return sum(float(path.read_text()) for path in run.folder.parent.glob(f"{run.folder.name}.sending*"))


def deviation(told: float, planted: float) -> str:
    """In percent."""
    part = told / planted - 1.0
    return f"{part:+.1%}{' (!)' if abs(part) > TOLERANCE else ''}"


def main() -> None:
    """Record all, and print the tables."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--ranks", type=int, default=RANKS)
    options.add_argument("case", nargs="*")
    asked = options.parse_args()
    cases, shares = (
        {name: each for name, each in made.items() if not asked.case or name in asked.case}
        for made in (jobs.cases(asked.ranks), parts(asked.ranks))
    )
    plans = {name: case.plan for name, case in cases.items()}
    plans |= {f"{name}-mended": case.mended for name, case in cases.items()}
    plans |= {name.replace(" ", "-"): part.plan for name, part in shares.items()}
    with tempfile.TemporaryDirectory() as folder:
        runs = jobs.record(plans, Path(folder), asked.ranks, at_once=1)
        print("| planted | told | rank-seconds | planted | off | advice | step | predicted | followed | off |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name, case in cases.items():
            print(finding_row(name, case, runs[name], runs[f"{name}-mended"]), flush=True)
        print("\n| planted | share | rank-seconds | planted | off | all shares |\n|---|---|---|---|---|---|")
        for name, part in shares.items():
            run = runs[name.replace(" ", "-")]
            told, planted = run.account.shares[part.share] * run.account.total_s, part.planted_s(run)
            whole = sum(run.account.shares.values())
            print(
                f"| {name} | `{part.share}` | {told:.2f} | {planted:.2f} | {deviation(told, planted)} | {whole:.3f} |"
            )


def finding_row(name: str, case: jobs.Case, run: jobs.Recorded, mended: jobs.Recorded) -> str:
    """A row of the first table."""
    if not run.findings:
        return f"| {name} | nothing | | {case.lost_s:.2f} | (!) | | | | | |"
    first, names = run.findings[0], run.report.ppg.run.names
    told = f"`{first.kind}`, {names.many(first.ranks, run.plan.ranks)}"
    wrong = "" if (first.kind, first.ranks) == (case.kind, case.ranks) else " (!)"
    predicted = jobs.predicted_s(case, run)
    return (
        f"| {name} | {told}{wrong} | {first.lost_s:.2f} | {case.lost_s:.2f} | {deviation(first.lost_s, case.lost_s)} "
        f"| {f'`{case.change}`' if case.change else 'its saving'} | {run.step_s:.3f} s | {predicted:.3f} s "
        f"| {mended.step_s:.3f} s | {deviation(predicted, mended.step_s)} |"
    )


if __name__ == "__main__":
    main()
