"""A GRPO loop without a model: real processes and gloo collectives, and sleeps where a GPU would compute.

    torchrun --standalone --nproc-per-node 4 tests/tools/rl_job.py FOLDER

runs one after the other all plans in a folder. A plan says how long everything takes, so that what is planted in it is
known to the millisecond.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Plan:
    """What every process does in every step."""

    lengths: list[list[list[int]]]
    """Tokens of the trajectories ``[steps][ranks][trajectories]``."""
    groups: list[list[list[int]]] | None = None
    """Their prompts, likewise; None for a group a trajectory."""
    floor_s: float = 0.004
    """A token of a trajectory that is generated alone."""
    sequence_s: float = 0.0002
    """What every other trajectory of the batch adds to that."""
    verifier_s: list[list[float]] = field(default_factory=list)
    """``[steps][ranks]``; none where it is empty, as of what follows."""
    log_prob_s: list[list[float]] = field(default_factory=list)
    log_prob_tokens: bool = False
    """Whether log-probabilities tell that they are of the tokens that are trained on."""
    train_tokens: list[list[int]] = field(default_factory=list)
    """Tokens that a process trains on; none is told where it is empty."""
    train_token_s: float = 0.0001
    train_s: float = 0.05
    """What training takes beside its tokens."""
    data_s: float = 0.01
    """Rank 0 alone, before it hands the batch to the others."""
    driver_s: float = 0.0
    """Rank 0 alone, outside of all phases: it gathers all batches, packs them into one, and scatters that."""
    sync_s: float = 0.01
    """Rank 0 alone, before it sends new weights."""
    outside_s: list[list[float]] = field(default_factory=list)
    """Outside of all phases, between the verifier's answers and the log-probabilities ``[steps][ranks]``."""
    starve_s: list[list[float]] = field(default_factory=list)
    """Waiting for a queue of trajectories to fill, before the step's rollout ``[steps][ranks]``."""
    passes_s: list[list[float]] = field(default_factory=list)
    """A forward pass of training, behind which all meet, before what training takes else ``[steps][ranks]``."""
    stage_s: float = 0.0
    """What each process takes as a stage of a pipeline, before it trains: each begins when the one before has ended."""
    overlapped: bool = False
    """Whether answers are scored one by one while others are generated."""
    shared: bool = False
    """Whether all send their part of the weights, rather than rank 0 the whole."""
    weights_mb: float = 0.04
    """Size of what is broadcast as new weights."""
    slow: list[float] = field(default_factory=list)
    """By which factor each process is slower in all that a GPU does ``[ranks]``."""
    slow_in: dict[str, list[float]] = field(default_factory=dict)
    """The same of ``generation``, ``log-prob`` or ``training``, where it is another one ``[ranks]``."""

    def dump(self, path: Path) -> None:
        """Write it."""
        path.write_text(json.dumps(asdict(self)))

    def factor(self, rank: int, doing: str) -> float:
        slow = self.slow_in.get(doing, self.slow)
        return slow[rank] if slow else 1.0

    def log_prob_of(self, step: int, rank: int) -> float:
        """Seconds of log-probabilities of a process."""
        return self.of(self.log_prob_s, step, rank) * self.factor(rank, "log-prob")

    def finish_s(self, step: int, rank: int) -> list[float]:
        """When each trajectory of a process ends, from the begin of its rollout ``[trajectories]``."""
        lengths = self.lengths[step][rank]
        ends, now, done = [0.0] * len(lengths), 0.0, 0
        for place, number in enumerate(order := sorted(range(len(lengths)), key=lengths.__getitem__)):
            running = len(order) - place
            now += (lengths[number] - done) * (self.floor_s + self.sequence_s * running)
            done = lengths[number]
            ends[number] = now * self.factor(rank, "generation")
        return ends

    def train_of(self, step: int, rank: int) -> float:
        """Seconds of training of a process."""
        tokens = self.train_tokens[step][rank] if self.train_tokens else 0
        return (self.train_s + tokens * self.train_token_s) * self.factor(rank, "training")

    def verifier_of(self, step: int, rank: int) -> float:
        """Seconds of the verifier of a process after its rollout."""
        whole = self.of(self.verifier_s, step, rank)
        if not self.overlapped:
            return whole
        ends = sorted(self.finish_s(step, rank))
        done = 0.0
        for end in ends:
            done = max(done, end) + whole / len(ends)
        return done - ends[-1]

    def sync_of(self, rank: int) -> float:
        """Seconds of a process before it sends new weights."""
        return self.sync_s / self.ranks if self.shared else self.sync_s if rank == 0 else 0.0

    def of(self, table: list[list[float]], step: int, rank: int) -> float:
        """An entry of a table that may be empty."""
        return table[step][rank] if table else 0.0

    @property
    def ranks(self) -> int:
        return len(self.lengths[0])

    def step_s(self, step: int) -> float:
        """Seconds of a step without what collectives take: its three meetings are behind the data, the verifier and
        training."""
        ranks = range(self.ranks)
        made = max(
            self.of(self.starve_s, step, r) + max(self.finish_s(step, r)) + self.verifier_of(step, r) for r in ranks
        )
        log_prob = [self.of(self.outside_s, step, r) + self.log_prob_of(step, r) for r in ranks]
        if self.passes_s:
            log_prob = [max(log_prob[r] + self.passes_s[step][r] for r in ranks)] * self.ranks
        trained, stage_end = 0.0, 0.0
        for r in ranks:
            stage_end = max(stage_end, log_prob[r]) + self.stage_s
            trained = max(trained, (stage_end if self.stage_s else log_prob[r]) + self.train_of(step, r))
        return self.data_s + made + self.driver_s + trained + max(self.sync_of(r) for r in ranks)


def until(deadline: float) -> None:
    """Sleep to a time of the clock: what a busy machine adds once is not added again."""
    while (left := deadline - time.perf_counter()) > 0:
        time.sleep(left)


def pause(seconds: float) -> None:
    until(time.perf_counter() + seconds)


def pack(batches: list[Tensor], seconds: float) -> bytes:
    """Copy some batches into one, as objects, again and again for so long."""
    deadline, packed = time.perf_counter() + seconds, b""
    while time.perf_counter() < deadline:
        packed = pickle.dumps([batch.tolist() for batch in batches])  # the driver packs
    return packed


def rollout(plan: Plan, step: int, rank: int) -> None:
    """All answers of a process, generated side by side."""
    import scalana

    begin = time.perf_counter()
    running = []
    for number, (tokens, end_s) in enumerate(zip(plan.lengths[step][rank], plan.finish_s(step, rank), strict=True)):
        group = plan.groups[step][rank][number] if plan.groups else None
        name = f"{step}.{rank}.{number}"
        mark = scalana.rl.trajectory(name, group=group, prompt_tokens=16, lane=f"slot {number}").begin()
        running.append((begin + end_s, tokens, mark))
    for deadline, tokens, mark in sorted(running, key=lambda row: row[0]):
        until(deadline)
        mark.end(tokens=tokens)


def loop(plan: Plan, rank: int, ranks: int) -> float:
    """Run a plan; returns the seconds of its calls for new weights."""
    import torch
    import torch.distributed as dist

    import scalana

    batch, gradient = torch.zeros(1000), torch.ones(10000)
    weights, sending_s = torch.zeros(round(plan.weights_mb * 1e6 / 4)), 0.0
    rewards = [torch.zeros(8) for _ in range(ranks)]
    dist.barrier()
    for step in range(len(plan.lengths)):
        with scalana.rl.phase("data"):
            if rank == 0:
                pause(plan.data_s)
            dist.broadcast(batch, 0)
        if plan.starve_s:
            with scalana.rl.phase("buffer_starvation"):
                pause(plan.starve_s[step][rank])
        with scalana.rl.phase("rollout", role="rollout"):
            rollout(plan, step, rank)
        with scalana.rl.phase("reward"):
            pause(plan.verifier_of(step, rank))
        dist.all_gather(rewards, torch.ones(8))
        if plan.driver_s:
            batches = [torch.zeros(1000) for _ in range(ranks)] if rank == 0 else None
            dist.gather(batch, batches, 0)
            if batches:
                pack(batches, plan.driver_s)
            dist.scatter(batch, batches, 0)
        pause(plan.of(plan.outside_s, step, rank))
        tokens = plan.train_tokens[step][rank] if plan.train_tokens else None
        with scalana.rl.phase("old_log_prob", tokens=tokens if plan.log_prob_tokens else None):
            pause(plan.log_prob_of(step, rank))
        with scalana.rl.phase("update_actor", role="trainer", tokens=tokens):
            if plan.stage_s:
                if rank:
                    dist.recv(batch, rank - 1)
                pause(plan.stage_s)
                if rank + 1 < ranks:
                    dist.send(batch, rank + 1)
            if plan.passes_s:
                pause(plan.passes_s[step][rank])
                dist.all_reduce(gradient)
            pause(plan.train_of(step, rank))
            dist.all_reduce(gradient)
        with scalana.rl.weights(version=step):
            pause(plan.sync_of(rank))
            begin = time.perf_counter()
            if plan.weights_mb > 1.0:
                dist.barrier()
            dist.broadcast(weights, 0)
            sending_s += time.perf_counter() - begin
    return sending_s


def main(folder: Path) -> None:
    """Run all plans of a folder, each recorded into a folder beside it with its name."""
    import torch.distributed as dist

    import scalana

    dist.init_process_group("gloo")
    for path in sorted(folder.glob("*.json")):
        with scalana.profile(path.with_suffix("")):
            sending_s = loop(Plan(**json.loads(path.read_text())), dist.get_rank(), dist.get_world_size())
        path.with_suffix(f".sending{dist.get_rank()}").write_text(str(sending_s))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
