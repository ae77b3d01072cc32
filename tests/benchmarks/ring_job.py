"""Trains with context parallelism: every rank has a part of each sequence, and attention goes over all of it.

``--how ring`` passes keys and values around a ring, as ring attention does; ``--how gather`` gathers them on all ranks;
``--how ulysses`` exchanges tokens for heads, and back, by two all-to-alls. ``--layout contiguous`` gives rank ``i`` the
``i``-th part, ``zigzag`` the ``i``-th from both ends. The mask is causal, or none with ``--mask full``.

Attention is really computed, of small heads. What an accelerator would take for it is emulated by sleeping in
proportion to the pairs of a query and a key that the mask lets through. Prints the seconds after the first step, the
seconds that all ranks slept there, and the norm of the gradients, which is the same for all ways.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist

HEADS, DEPTH = 4, 8
EMULATED_S = [0.0]
"""What this rank slept."""


def emulate(pairs: int, pair_s: float) -> None:
    """Take the time of an accelerator."""
    since = time.monotonic()
    time.sleep(pairs * pair_s)
    EMULATED_S[0] += time.monotonic() - since


def positions(rank: int, world: int, tokens: int, layout: str) -> torch.Tensor:
    """Which tokens of a sequence of ``world * tokens`` a rank has."""
    if layout == "contiguous":
        return torch.arange(rank * tokens, (rank + 1) * tokens)
    half = tokens // 2
    last = 2 * world - 1 - rank
    return torch.cat((torch.arange(rank * half, (rank + 1) * half), torch.arange(last * half, (last + 1) * half)))


class Job:
    """How attention is divided over the ranks."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.how, self.pair_s, self.causal = arguments.how, arguments.pair_s, arguments.mask == "causal"
        at = (positions(rank, self.world, arguments.tokens, arguments.layout) for rank in range(self.world))
        self.positions = list(at)

    def around(self, *tensors: torch.Tensor) -> list[dist.P2POp]:
        """Posts to send these to the next rank, and to receive as many from the one before."""
        after, before = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        self.came = [torch.empty_like(one) for one in tensors]
        posts = [dist.P2POp(dist.isend, one, after) for one in tensors]
        return posts + [dist.P2POp(dist.irecv, one, before) for one in self.came]

    def blocks(self, keys: torch.Tensor, values: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """The keys and values of all ranks, as they come around: whose they are, and both."""
        keys, values = keys.contiguous(), values.contiguous()
        for turn in range(self.world):
            last = turn + 1 == self.world
            requests = [] if last else dist.batch_isend_irecv(self.around(keys, values))
            yield (self.rank - turn) % self.world, keys, values
            for request in requests:
                request.wait()
            if not last:
                keys, values = self.came

    def gathered(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of all ranks."""
        both = torch.stack((keys, values)).contiguous()
        parts = [torch.empty_like(both) for _ in range(self.world)]
        dist.all_gather(parts, both)
        return torch.cat([part[0] for part in parts], dim=-2), torch.cat([part[1] for part in parts], dim=-2)

    def allowed(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Which keys a query looks at, by their positions ``[queries, keys]``."""
        if not self.causal:
            return torch.ones(len(queries), len(keys), dtype=torch.bool)
        return queries[:, None] >= keys[None, :]


def attend(job: Job, queries: torch.Tensor, keys: torch.Tensor, owner: int, times: int) -> torch.Tensor | None:
    """Scores of a block ``[heads, queries, keys]`` after the time of an accelerator; None where all is masked."""
    allowed = job.allowed(job.positions[job.rank], job.positions[owner])
    if not allowed.any():
        return None
    emulate(times * int(allowed.sum()) * queries.shape[0], job.pair_s)
    scores = queries @ keys.transpose(-1, -2) / DEPTH**0.5
    return scores.masked_fill(~allowed, float("-inf"))


class RingAttention(torch.autograd.Function):
    """Attention over blocks that come around; of what is saved, the backward computes the scores again."""

    @staticmethod
    def forward(ctx, queries, keys, values, job):  # type: ignore[no-untyped-def]
        most = torch.full((*queries.shape[:-1], 1), -1e30)
        weight, output = torch.zeros_like(most), torch.zeros_like(queries)
        for owner, some_keys, some_values in job.blocks(keys, values):
            scores = attend(job, queries, some_keys, owner, 1)
            if scores is None:
                continue
            higher = torch.maximum(most, scores.amax(dim=-1, keepdim=True))
            factor, exponents = (most - higher).exp(), (scores - higher).exp()
            output = output * factor + exponents @ some_values
            weight, most = weight * factor + exponents.sum(dim=-1, keepdim=True), higher
        output = output / weight
        ctx.job, ctx.logs = job, most + weight.log()
        ctx.save_for_backward(queries, keys, values, output)
        return output

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        job, logs = ctx.job, ctx.logs
        queries, keys, values, output = ctx.saved_tensors
        for_queries = torch.zeros_like(queries)
        found = torch.zeros(job.world, 2, *keys.shape)
        rest = (grad * output).sum(dim=-1, keepdim=True)
        for owner, some_keys, some_values in job.blocks(keys, values):
            scores = attend(job, queries, some_keys, owner, 2)
            if scores is None:
                continue
            shares = (scores - logs).exp()
            of_scores = shares * (grad @ some_values.transpose(-1, -2) - rest) / DEPTH**0.5
            for_queries += of_scores @ some_keys
            found[owner, 0] += of_scores.transpose(-1, -2) @ queries
            found[owner, 1] += shares.transpose(-1, -2) @ grad
        dist.all_reduce(found)
        return for_queries, found[job.rank, 0], found[job.rank, 1], None


class Gathered(torch.autograd.Function):
    """Keys and values of all ranks; their gradients are summed over the ranks."""

    @staticmethod
    def forward(ctx, keys, values, job):  # type: ignore[no-untyped-def]
        ctx.job = job
        return job.gathered(keys, values)

    @staticmethod
    def backward(ctx, *grads):  # type: ignore[no-untyped-def]
        job, both = ctx.job, torch.stack(grads)
        dist.all_reduce(both)
        tokens = both.shape[-2] // job.world
        both = both[..., job.rank * tokens : (job.rank + 1) * tokens, :]
        return both[0], both[1], None


class Exchanged(torch.autograd.Function):
    """Some heads of all tokens for all heads of some tokens, or back: an all-to-all."""

    @staticmethod
    def forward(ctx, tensor, from_dim, to_dim):  # type: ignore[no-untyped-def]
        ctx.dims = from_dim, to_dim
        parts = [part.contiguous() for part in tensor.chunk(dist.get_world_size(), dim=from_dim)]
        came = torch.empty(len(parts), *parts[0].shape)
        dist.all_to_all_single(came, torch.stack(parts))
        return torch.cat(list(came), dim=to_dim)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from_dim, to_dim = ctx.dims
        return Exchanged.apply(grad, to_dim, from_dim), None, None


class Scores(torch.autograd.Function):
    """The time that a block takes: once forward, twice backward."""

    @staticmethod
    def forward(ctx, scores, pairs, pair_s):  # type: ignore[no-untyped-def]
        ctx.seconds = pairs, pair_s
        emulate(pairs, pair_s)
        return scores.clone()

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        pairs, pair_s = ctx.seconds
        emulate(2 * pairs, pair_s)
        return grad, None, None


def attention(job: Job, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Attention over the tokens of all ranks ``[heads, tokens, depth]``."""
    if job.how == "ring":
        output: torch.Tensor = RingAttention.apply(queries, keys, values, job)
        return output
    whole, mine = torch.cat(job.positions), job.positions[job.rank]
    if job.how == "gather":
        keys, values = Gathered.apply(keys, values, job)
    else:
        queries, keys, values = Exchanged.apply(torch.stack((queries, keys, values)), 1, 2)
        mine = whole
    allowed = job.allowed(mine, whole)
    scores = (queries @ keys.transpose(-1, -2) / DEPTH**0.5).masked_fill(~allowed, float("-inf"))
    scores = Scores.apply(scores, int(allowed.sum()) * queries.shape[0], job.pair_s)
    output = scores.softmax(dim=-1) @ values
    return Exchanged.apply(output, 1, 0) if job.how == "ulysses" else output


class Layer(torch.nn.Module):
    """Attention and a projection, with a residual connection."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.inputs = torch.nn.Linear(HEADS * DEPTH, 3 * HEADS * DEPTH)
        self.outputs = torch.nn.Linear(HEADS * DEPTH, HEADS * DEPTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        three = self.inputs(hidden).view(len(hidden), 3, HEADS, DEPTH).permute(1, 2, 0, 3)
        output = attention(self.job, *three)
        result: torch.Tensor = hidden + self.outputs(output.transpose(0, 1).reshape(len(hidden), -1))
        return result


def train(model: torch.nn.Module, job: Job, steps: int) -> tuple[float, float]:
    """Seconds of the steps after the first, and the norm of the last gradients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    since = time.monotonic()
    for step in range(steps):
        if step == 1:
            since, EMULATED_S[0] = time.monotonic(), 0.0
        tokens = torch.randn(
            job.world * len(job.positions[0]), HEADS * DEPTH, generator=torch.Generator().manual_seed(step)
        )
        optimizer.zero_grad()
        loss = model(tokens[job.positions[job.rank]]).square().sum() / len(tokens)
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    norm = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None]).norm()
    return time.monotonic() - since, float(norm)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("ring", "gather", "ulysses"), default="ring")
    parser.add_argument("--layout", choices=("contiguous", "zigzag"), default="contiguous")
    parser.add_argument("--mask", choices=("causal", "full"), default="causal")
    parser.add_argument("--tokens", type=int, default=128, help="of each rank")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--pair-s", type=float, default=2.0e-6, help="seconds of a query and a key, in one head")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    job = Job(arguments)
    model = torch.nn.Sequential(*(Layer(job) for _ in range(arguments.layers)))
    seconds, norm = train(model, job, arguments.steps)
    emulated = torch.tensor(EMULATED_S)
    dist.all_reduce(emulated)
    if job.rank == 0:
        print(f"{seconds:.3f} s, {float(emulated):.3f} s emulated, gradients {norm:.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
