"""What a loop of reinforcement learning would take if it generated ahead of training, where that saves much."""

from __future__ import annotations

from scalana.detectors.rl.account import Prediction, RLAccount
from scalana.workload.comparison import Compared, compare, recorded_devices
from scalana.workload.errors import WorkloadError
from scalana.workload.fidelity import Replayability, replayability
from scalana.workload.from_run import workload_of
from scalana.workload.replay import Setting
from scalana.workload.step_costs import fit_steps
from scalana.workload.trajectories import Workload

MUCH = 1.25
"""How many times as fast a step has to be."""
_WAITS = ("under-batched", "long-tail", "assignment")
"""Causes that other ways to generate remove."""
_LEAST = 0.15
"""Part of the process time that these have to have together."""
_MOST = 5_000_000
"""Trajectories times replicas that are simulated for a report."""
_TEXTS = {
    "one-step-off": "one step ahead: {train} of {all} processes train; staleness {mean:.1f}, at most {most}",
    "relay-repack": "asynchronous, relays: {train} of {all} processes train; staleness {mean:.1f}, at most {most}",
}
_KEYS = {"one-step-off": "one-step-off", "relay-repack": "trajectory-async"}
"""Of predictions, by policy."""


def ahead(account: RLAccount) -> list[Prediction]:
    """Predictions from a replay of the workload on the processes that there are; none where the run does not show what
    is needed, or little is saved."""
    loop, shares = account.loop, account.shares
    if loop is None or loop.timed or account.decoding is None or sum(shares.get(key, 0.0) for key in _WAITS) < _LEAST:
        return []
    try:
        workload = workload_of(account, "")
        if len(workload) * len(loop.processes) > _MOST or workload.runs_on or workload.steps < 4:
            return []
        return _predictions(workload, replayability(workload), float(account.step_s.mean()))
    except WorkloadError:
        return []


def _predictions(workload: Workload, fidelity: Replayability, now_s: float) -> list[Prediction]:
    steps, decode = fit_steps(workload), workload.decode
    devices = recorded_devices(workload, steps) if steps is not None else 0
    if decode is None or devices < 2:
        return []
    names = [name for name in _TEXTS if not (decode.whole_batches and name == "relay-repack")]
    base = Setting(names[0], devices, decode.of(workload.generating), steps)
    found = compare(workload, base, names, [devices], [1])
    error = 1.0 - min(fidelity.steps, fidelity.total)
    return [
        Prediction(_KEYS[one.replayed.setting.policy], _text(one), float(one.replayed.step_s.mean()), error)
        for one in found
        if now_s > MUCH * float(one.replayed.step_s.mean())
    ]


def _text(one: Compared) -> str:
    stale, place = one.replayed.stale, one.place
    return _TEXTS[one.replayed.setting.policy].format(
        train=place.trainers, all=place.devices, mean=stale.mean(), most=stale.max()
    )
