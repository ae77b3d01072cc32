"""Engines: how each sends and receives, and which one runs a program. The one table of engines that a replay knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from scalana.detectors.pipeline.model.actions import Kind, Program


class SendWait(IntEnum):
    """When a rank waits for its own message to be taken."""

    NEVER = 0
    """At the end of the step, where it costs nothing."""
    AT_ONCE = 1
    """Before anything else; with the next receive in one batch, where the direction changes."""
    NEXT_SEND = 2
    """Before the next message in the same direction; with the next receive in one batch, where it changes."""
    TURN = 3
    """Before the first action of the other direction."""
    BLOCKING = 4
    """Before anything else, a receive too."""


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine communicates."""

    name: str
    rendezvous: bool = False
    """Whether a message travels only once its receive is posted (gloo; large messages of NCCL)."""
    early: bool = False
    """Whether a receive is posted as soon as the order of its sender allows, not just before its use."""
    send_wait: SendWait = SendWait.NEVER
    split_first: bool = False
    """Whether stage 0 computes its I together with W (torch: its I is empty)."""
    gradient_first: bool = False
    """Whether a rank that goes on to a backward sends what its forward made only when the gradient has come
    (DeepSpeed)."""
    batched: bool = False
    """Whether all that is sent and received between two actions is one batch that is waited for, a forward and the
    backward after it in the steady state being one action (Megatron's interleaved schedule)."""
    ahead: bool = False
    """Whether, where forwards and backwards take turns, each asks for what the next of its direction needs, and waits
    only until what the one before sent is taken (Megatron's interleaved schedule that overlaps messages)."""
    is_unknown: bool = False
    """Whether nothing is known of it but what it did: nobody can say which other orders it runs."""
    schedules: tuple[str, ...] = ()
    """The standard schedules that it has; empty where it runs any."""


_OF_MEGATRON = ("1F1B", "Interleaved1F1B")

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("ideal"),
        Engine("table", is_unknown=True, schedules=("GPipe", "1F1B", "Interleaved1F1B")),
        Engine("torch-gpipe", rendezvous=True, send_wait=SendWait.TURN),
        Engine("torch-1f1b", rendezvous=True, send_wait=SendWait.NEXT_SEND),
        Engine("torch", rendezvous=True, early=True, split_first=True),
        Engine("megatron", rendezvous=True, send_wait=SendWait.AT_ONCE, schedules=_OF_MEGATRON),
        Engine("megatron-interleaved", rendezvous=True, batched=True, schedules=_OF_MEGATRON),
        Engine("megatron-overlap", rendezvous=True, batched=True, ahead=True, schedules=_OF_MEGATRON),
        Engine("deepspeed", rendezvous=True, send_wait=SendWait.BLOCKING, gradient_first=True, schedules=("1F1B",)),
    )
}
"""Engines by name. `ideal`, and that of an imported table, post sends and go on; `torch` is torch's runtime of all
schedules with several stages."""


_BY_TORCH = ("torch", "torchtitan")
"""Names of engines of recorded pipelines whose actions torch's runtime runs."""
_OF_SEVERAL = {"megatron": ("megatron-interleaved", "megatron-overlap")}
"""The engines by which one with this name runs several stages a rank: without messages that overlap, and with them."""

RUNTIMES = {"torch": "torch's runtime", "megatron": "Megatron", "deepspeed": "DeepSpeed"}
"""Names of engines for people, where these differ from those on the command line."""


def torch_engine(schedule: str) -> Engine:
    """The engine by which torch runs a schedule of this name."""
    return ENGINES[{"GPipe": "torch-gpipe", "1F1B": "torch-1f1b"}.get(schedule, "torch")]


def variant(engine: Engine, program: Program) -> Engine:
    """The engine by which the makers of ``engine`` would run another program: several stages a rank need another
    one."""
    several = program.stages > program.ranks
    sweeps = bool((program.kind[: program.first[1]][: program.microbatches] == Kind.F).all())
    if engine.name.startswith("torch"):
        if several or bool((program.kind == Kind.W).any()):
            return ENGINES["torch"]
        return ENGINES["torch-gpipe" if sweeps else "torch-1f1b"]
    if engine.name.startswith("megatron"):
        if several:
            return engine if engine.batched else ENGINES["megatron-interleaved"]
        return ENGINES["megatron"]
    if engine.send_wait is SendWait.BLOCKING and not sweeps:
        engine = replace(engine, send_wait=SendWait.AT_ONCE)  # or two neighbours would send to each other for ever
    return ENGINES["ideal"] if several else engine


def engine_of_run(name: str, schedule: str, several: bool, in_turn: bool) -> Engine:
    """How an engine that recorded a pipeline sends and receives: by its name, that of the schedule, whether ranks have
    several stages, and whether they wait between a forward and the backward that comes right after it."""
    if name in _BY_TORCH:
        return torch_engine(schedule)
    if several and name in _OF_SEVERAL:
        return ENGINES[_OF_SEVERAL[name][in_turn]]
    return ENGINES.get(name, ENGINES["ideal"])
