"""A plain simulator of pipelines, as oracle: every rank is a generator that reads like the engine's own loop.

A generator yields what it waits for and gets the time back. Nothing of the package is used but the data of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from scalana.detectors.pipeline.model.actions import Action, Kind

Key = tuple[str, int, int]
"""A message: direction, sending stage, microbatch."""


@dataclass
class World:
    """What all ranks see."""

    orders: list[list[Action]]
    cost: Callable[[Action], float]
    latency: float
    rendezvous: bool
    sent: dict[Key, float] = field(default_factory=dict)
    posted: dict[Key, float] = field(default_factory=dict)
    begin: dict[tuple[Kind, int, int], float] = field(default_factory=dict)
    end: dict[tuple[Kind, int, int], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.holder = {action.stage: rank for rank, order in enumerate(self.orders) for action in order}
        self.last = max(self.holder)

    def needs(self, action: Action) -> Key | None:
        """The message that an action needs from another rank."""
        if action.kind is Kind.W:
            return None
        away = -1 if action.kind is Kind.F else 1
        source = action.stage + away
        if not 0 <= source <= self.last or self.holder[source] == self.holder[action.stage]:
            return None
        return ("F" if away < 0 else "B", source, action.microbatch)

    def gives(self, action: Action) -> Key | None:
        """The message that an action sends to another rank."""
        if action.kind is Kind.W:
            return None
        target = action.stage + (1 if action.kind is Kind.F else -1)
        if not 0 <= target <= self.last or self.holder[target] == self.holder[action.stage]:
            return None
        return ("F" if action.kind is Kind.F else "B", action.stage, action.microbatch)

    def start(self, key: Key) -> float | None:
        """When a message begins to travel, None if that is not known yet."""
        if key not in self.sent or (self.rendezvous and key not in self.posted):
            return None
        return max(self.sent[key], self.posted[key]) if self.rendezvous else self.sent[key]


def compute(world: World, action: Action, now: float) -> float:
    """Run an action."""
    key = (action.kind, action.stage, action.microbatch)
    world.begin[key] = now
    world.end[key] = now + world.cost(action)
    return world.end[key]


def exchange(world: World, give: Key | None, need: Key | None, now: float) -> Generator[Any, float, float]:
    """Send and ask for messages in one batch, and wait for both; when that is done."""
    if give:
        world.sent[give] = now
    if need:
        world.posted[need] = now
    if give:
        now = max(now, (yield ("taken", give)))
    if need:
        now = max(now, (yield ("receive", need)))
    return now


def ideal(world: World, rank: int) -> Iterator[Any]:
    """Sends are handed over and forgotten."""
    now = 0.0
    held: list[Key] = []
    for action in world.orders[rank]:
        if need := world.needs(action):
            world.posted[need] = now
            now = max(now, (yield ("receive", need)))
        now = compute(world, action, now)
        if give := world.gives(action):
            held.append(give)
        if not action.joined:
            world.sent.update(dict.fromkeys(held, now))
            held = []
    yield ("done", now)


def torch_1f1b(world: World, rank: int) -> Iterator[Any]:
    """`Schedule1F1B._step_microbatches` of torch 2.13, line by line."""
    order, now = world.orders[rank], 0.0
    forwards = [a for a in order if a.kind is Kind.F]
    backwards = [a for a in order if a.kind is Kind.B]
    warm = min(len(forwards), len(world.orders) - rank)
    send_work: Key | None = None
    pending: Key | None = None
    f = b = 0
    for _ in range(warm):
        if need := world.needs(forwards[f]):
            world.posted[need] = now
            now = max(now, (yield ("receive", need)))
        now = compute(world, forwards[f], now)
        if send_work:
            now = max(now, (yield ("taken", send_work)))
            send_work = None
        give = world.gives(forwards[f])
        if f != warm - 1:
            send_work = give
            if give:
                world.sent[give] = now
        else:
            pending = give
        f += 1
    while True:
        now = yield from exchange(world, pending, world.needs(backwards[b]), now)
        now = compute(world, backwards[b], now)
        pending = world.gives(backwards[b])
        b += 1
        if f == len(forwards):
            break
        now = yield from exchange(world, pending, world.needs(forwards[f]), now)
        now = compute(world, forwards[f], now)
        pending = world.gives(forwards[f])
        f += 1
    send_work = pending
    if send_work:
        world.sent[send_work] = now
    while b < len(backwards):
        if need := world.needs(backwards[b]):
            world.posted[need] = now
            now = max(now, (yield ("receive", need)))
        now = compute(world, backwards[b], now)
        if send_work:
            now = max(now, (yield ("taken", send_work)))
        send_work = world.gives(backwards[b])
        if send_work:
            world.sent[send_work] = now
        b += 1
    if send_work:
        now = max(now, (yield ("taken", send_work)))
    yield ("done", now)


def megatron_1f1b(world: World, rank: int) -> Iterator[Any]:
    """Blocking sends; in the steady phase each in one batch with the receive of the other direction (megatron-core)."""
    order, now = world.orders[rank], 0.0
    for index, action in enumerate(order):
        if index == 0 and (need := world.needs(action)):
            world.posted[need] = now
            now = max(now, (yield ("receive", need)))
        now = compute(world, action, now)
        give = world.gives(action)
        following = order[index + 1] if index + 1 < len(order) else None
        need = world.needs(following) if following else None
        batched = following is not None and following.kind is not action.kind
        if give:
            world.sent[give] = now
        if need and batched:
            world.posted[need] = now
        if give:
            now = max(now, (yield ("taken", give)))
        if need:
            if not batched:
                world.posted[need] = now
            now = max(now, (yield ("receive", need)))
    yield ("done", now)


def megatron_interleaved(world: World, rank: int) -> Iterator[Any]:
    """`forward_backward_pipelining_with_interleaving` of Megatron-core without overlap: forwards alone, then each with
    a backward, then backwards; after each of these one batch, with all that the next one needs."""
    order, now, ranks = world.orders[rank], 0.0, len(world.orders)
    forwards = [a for a in order if a.kind is Kind.F]
    backwards = [a for a in order if a.kind is Kind.B]
    chunks = (world.last + 1) // ranks
    warm = min(2 * (ranks - rank - 1) + (chunks - 1) * ranks, len(forwards))
    rounds = [[f] for f in forwards[:warm]]
    rounds += [[f, b] for f, b in zip(forwards[warm:], backwards, strict=False)]
    rounds += [[b] for b in backwards[len(forwards) - warm :]]
    for index, actions in enumerate([[], *rounds]):
        for action in actions:
            now = compute(world, action, now)
        following = rounds[index] if index < len(rounds) else []
        gives = [give for action in actions if (give := world.gives(action))]
        needs = [need for action in following if (need := world.needs(action))]
        world.sent.update(dict.fromkeys(gives, now))
        world.posted.update(dict.fromkeys(needs, now))
        for what, keys in (("taken", gives), ("receive", needs)):
            for key in keys:
                now = max(now, (yield (what, key)))
    yield ("done", now)


def megatron_overlap(world: World, rank: int) -> Iterator[Any]:
    """The same with `overlap_p2p_comm`, but not in warm-up and cool-down: in between, each action sends, asks for what
    the next of its direction needs, and waits for the send before in this direction."""
    order, now, ranks = world.orders[rank], 0.0, len(world.orders)
    forwards = [a for a in order if a.kind is Kind.F]
    backwards = [a for a in order if a.kind is Kind.B]
    chunks = (world.last + 1) // ranks
    warm = min(2 * (ranks - rank - 1) + (chunks - 1) * ranks, len(forwards))
    left = len(forwards) - warm
    open_sends: dict[Kind, Key | None] = {Kind.F: None, Kind.B: None}

    def at(actions: list[Action], index: int) -> Key | None:
        return world.needs(actions[index]) if index < len(actions) else None

    now = yield from exchange(world, None, at(forwards, 0), now)
    for k in range(warm):
        now = compute(world, forwards[k], now)
        now = yield from exchange(world, world.gives(forwards[k]), at(forwards, k + 1), now)
    if left and (need := at(backwards, 0)):
        world.posted[need] = now
    for k in range(left):
        for actions, index in ((forwards, warm + k), (backwards, k)):
            action = actions[index]
            if (need := world.needs(action)) and (action.kind is Kind.B or k):
                now = max(now, (yield ("receive", need)))
            now = compute(world, action, now)
            if give := world.gives(action):
                world.sent[give] = now
            if need := at(actions, index + 1):
                world.posted[need] = now
            if before := open_sends[action.kind]:
                now = max(now, (yield ("taken", before)))
            open_sends[action.kind] = give
    if not left:
        now = yield from exchange(world, None, at(backwards, 0), now)
    for k in range(left, len(backwards)):
        if k == left and k and (need := at(backwards, k)):
            now = max(now, (yield ("receive", need)))
        now = compute(world, backwards[k], now)
        now = yield from exchange(world, world.gives(backwards[k]), at(backwards, k + 1), now)
    yield ("done", now)


def deepspeed_1f1b(world: World, rank: int) -> Iterator[Any]:
    """`TrainSchedule` of DeepSpeed, slot by slot: forwards in the even slots of even stages and the odd ones of odd
    stages, backwards in the others; every send and receive blocks."""
    order, now, before = {}, 0.0, None
    stages = len(world.orders)
    for action in world.orders[rank]:
        way = 2 * action.microbatch
        order[way + rank if action.kind is Kind.F else way + 2 * stages - 1 - rank] = action
    for slot in range(max(order) + 2):
        action = order.get(slot)
        need = world.needs(action) if action else None
        give = world.gives(before) if before else None
        forward = (slot - rank) % 2 == 0
        for what, key in (("taken", give), ("receive", need)) if forward else (("receive", need), ("taken", give)):
            if key:
                (world.sent if what == "taken" else world.posted)[key] = now
                now = max(now, (yield (what, key)))
        if action:
            now = compute(world, action, now)
        before = action
    yield ("done", now)


def torch_runtime(lowered: dict[int, list[Any]]) -> Callable[[World, int], Iterator[Any]]:
    """`_PipelineScheduleRuntime`: ``lowered`` is torch's own order with communication."""

    def run(world: World, rank: int) -> Iterator[Any]:
        now = 0.0
        for item in lowered[rank]:
            name = item.computation_type.name
            if name in ("SEND_F", "SEND_B"):
                world.sent[(name[-1], item.stage_index, item.microbatch_index)] = now
            elif name in ("RECV_F", "RECV_B"):
                away = -1 if name[-1] == "F" else 1
                world.posted[(name[-1], item.stage_index + away, item.microbatch_index)] = now
            elif name in ("FORWARD", "FULL_BACKWARD", "BACKWARD_INPUT", "BACKWARD_WEIGHT", "OVERLAP_F_B"):
                for sub in item.sub_actions or (item,):
                    kind = {"FORWARD": Kind.F, "FULL_BACKWARD": Kind.B, "BACKWARD_INPUT": Kind.I}.get(
                        sub.computation_type.name, Kind.W
                    )
                    action = Action(kind, sub.stage_index, sub.microbatch_index)
                    if need := world.needs(action):
                        now = max(now, (yield ("receive", need)))
                    now = compute(world, action, now)
        yield ("done", now)

    return run


def run(world: World, engine: Callable[[World, int], Iterator[Any]]) -> float:
    """Run all ranks to their end; the makespan.

    Raises:
        RuntimeError: where nobody can go on.
    """
    ranks = [engine(world, rank) for rank in range(len(world.orders))]
    asked = [next(rank) for rank in ranks]
    finish: dict[int, float] = {}
    while len(finish) < len(ranks):
        moved = False
        for rank, generator in enumerate(ranks):
            what, value = asked[rank]
            if rank in finish:
                continue
            if what == "done":
                finish[rank] = value
                moved = True
                continue
            start = world.start(value)
            if start is not None:
                asked[rank] = generator.send(start + (world.latency if what == "receive" else 0.0))
                moved = True
        if not moved:
            raise RuntimeError("nobody can go on")
    return max(finish.values())
