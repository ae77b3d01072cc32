"""Writes the run folder of a plan of :mod:`tests.tools.rl_job` as if it had been run, in no time and on any number of
processes: without samples and call paths, as an importer would."""

from __future__ import annotations

from pathlib import Path

from scalana.runtime.operations import BY_NAME
from scalana.runtime.record.format import LANE_SLOT, SPAN_TYPE
from scalana.runtime.record.run_writer import RunWriter
from scalana.runtime.record.writer import RecordWriter
from tests.tools.rl_job import Plan

_START_NS = 5_000_000_000
_CALL_S = 0.001
"""What a collective takes by itself."""


class _Process:
    """A record, and where its process is in time."""

    def __init__(self, record: RecordWriter, rank: int, ranks: int) -> None:
        self.record, self.rank, self.now_s = record, rank, 0.0
        self.calls, self.collectives, self.messages = 0, 0, dict[str, int]()
        record.thread(0, 1)
        record.group(1, "world", rank, range(ranks))

    def message(self, operation: str, peer: int, leaves_s: float) -> None:
        """A message to or from another, from now on."""
        self.messages[operation] = self.messages.get(operation, 0) + 1
        self._call(operation, self.messages[operation], peer, leaves_s, 4000)

    def collective(self, operation: str, root: int, leaves_s: float) -> None:
        """One of all processes, from now on."""
        self.collectives += 1
        self._call(operation, self.collectives, root, leaves_s)

    def _call(self, operation: str, seq: int, peer: int, leaves_s: float, nbytes: int = 0) -> None:
        enter_ns = _START_NS + round(self.now_s * 1e9)
        length_ns = round((leaves_s - self.now_s) * 1e9)
        self.calls += 1
        code = BY_NAME[operation].code
        self.record.event(self.calls, code, enter_ns, length_ns, group=1, seq=seq, peer=peer, nbytes=nbytes)
        self.now_s = leaves_s

    def span(self, kind: str, name: str, begin_s: float, **attributes: int | str) -> None:
        self.put(kind, name, begin_s, self.now_s, self.record.lane(thread=0), attributes)

    def put(
        self, kind: str, name: str, begin_s: float, end_s: float, lane: int, attributes: dict[str, int | str]
    ) -> None:
        begin, end = (_START_NS + round(each * 1e9) for each in (begin_s, end_s))
        self.record.span(SPAN_TYPE[kind], name, begin, end - begin, lane=lane, attributes=attributes)


def pass_on(processes: list[_Process], stage_s: float) -> None:
    """Each works when the one before it has, and says so to the next."""
    arrives_s = 0.0
    for each in processes:
        if each.rank:
            each.message("recv", each.rank - 1, max(arrives_s, each.now_s) + _CALL_S)
        each.now_s += stage_s
        if each.rank + 1 < len(processes):
            arrives_s = each.now_s
            each.message("send", each.rank + 1, each.now_s + _CALL_S)


def write(plan: Plan, folder: Path) -> None:
    """Write it.

    Raises:
        FileExistsError: the folder holds something already.
    """
    run = RunWriter(folder, {"command": ["modelled"], "exit_code": 0})
    ranks = range(plan.ranks)
    meta = {"world_size": plan.ranks, "start_ns": _START_NS, "unix_ns": 10**18, "rate_hz": 200}
    processes = [_Process(run.process("host", rank=rank, **meta), rank, plan.ranks) for rank in ranks]

    def meet(operation: str, root: int = -1) -> None:
        last = max(each.now_s for each in processes)
        for each in processes:
            # Nobody waits for a receiver of a broadcast.
            awaited = last if root < 0 or (operation == "gather" and each.rank == root) else processes[root].now_s
            awaited = each.now_s if operation == "gather" and each.rank != root else awaited
            each.collective(operation, root, max(each.now_s, awaited) + _CALL_S)

    meet("barrier")
    for step in range(len(plan.lengths)):
        begin = [each.now_s for each in processes]
        processes[0].now_s += plan.data_s
        meet("broadcast", 0)
        for each, start in zip(processes, begin, strict=True):
            each.span("phase", "data", start)
            start, rank = each.now_s, each.rank
            if plan.starve_s:
                each.now_s += plan.starve_s[step][rank]
                each.span("phase", "buffer_starvation", start)
                start = each.now_s
            for number, end_s in enumerate(plan.finish_s(step, rank)):
                told = {"id": f"{step}.{rank}.{number}", "tokens": plan.lengths[step][rank][number]}
                group = {"group": plan.groups[step][rank][number]} if plan.groups else {}
                lane = each.record.lane(LANE_SLOT, f"slot {number}")
                each.put("trajectory", "trajectory", start, start + end_s, lane, {**told, **group})
            each.now_s += max(plan.finish_s(step, rank))
            each.span("phase", "rollout", start, role="rollout")
            start = each.now_s
            each.now_s += plan.verifier_of(step, rank)
            each.span("phase", "reward", start)
        meet("allgather")
        if plan.driver_s:
            meet("gather", 0)
            processes[0].now_s += plan.driver_s
            meet("scatter", 0)
        for each in processes:
            each.now_s += plan.of(plan.outside_s, step, each.rank)
            start = each.now_s
            each.now_s += plan.log_prob_of(step, each.rank)
            told = {"tokens": plan.train_tokens[step][each.rank]} if plan.log_prob_tokens else {}
            each.span("phase", "old_log_prob", start, **told)
        begin = [each.now_s for each in processes]
        if plan.stage_s:
            pass_on(processes, plan.stage_s)
        if plan.passes_s:
            for each in processes:
                each.now_s += plan.passes_s[step][each.rank]
            meet("allreduce")
        for each in processes:
            each.now_s += plan.train_of(step, each.rank)
        meet("allreduce")
        for each, start in zip(processes, begin, strict=True):
            told = {"tokens": plan.train_tokens[step][each.rank]} if plan.train_tokens else {}
            each.span("phase", "update_actor", start, role="trainer", **told)
        begin = [each.now_s for each in processes]
        for each in processes:
            each.now_s += plan.sync_of(each.rank)
        meet("broadcast", 0)
        for each, start in zip(processes, begin, strict=True):
            each.span("phase", "weight_sync", start, version=step)
    for each in processes:
        each.record.end(_START_NS + round(each.now_s * 1e9))
        each.record.close()
