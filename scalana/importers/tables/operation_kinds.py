"""Kinds of operations in tables: what each does, and which ranks take part in a collective one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What an operation is to its rank."""

    ACTION = "action"
    """Computing of a stage for a microbatch."""
    SEND = "send"
    RECEIVE = "receive"
    COLLECTIVE = "collective"
    OWN = "own"
    """Other work of the rank."""


class Members(Enum):
    """Who takes part in a collective operation, where the table has no groups."""

    REPLICAS = "replicas"
    """The ranks of all replicas that hold the same stage."""
    ENDS = "ends"
    """The first stage and the last one of a replica."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of operations."""

    name: str
    """As the table calls it."""
    role: Role
    action: str = ""
    """Of an action and of what sends and receives for it: ``F``, ``B``, ``I`` or ``W``."""
    operation: str = ""
    """Of a collective: its name in the table of communication operations."""
    members: Members = Members.ALL
    span: str = "region"
    """Of own work: the type of span that it becomes."""


_ACTIONS = {
    "F": ("forward", "forward_compute", "forward_pass", "fwd", "f"),
    "B": ("backward", "backward_compute", "backward_pass", "bwd", "b"),
    "I": ("backward_input", "input_gradients", "i"),
    "W": ("backward_weight", "backward_weights", "weight_gradients", "w"),
}
_DIRECTIONS = {"F": ("forward", "fwd", "f"), "B": ("backward", "bwd", "b")}
_POSTS = {Role.SEND: ("send",), Role.RECEIVE: ("recv", "receive")}
_MEMBERS = {
    "params_all_gather": Members.REPLICAS,
    "grads_reduce_scatter": Members.REPLICAS,
    "grads_all_reduce": Members.REPLICAS,
    "separate_grads_all_reduce": Members.REPLICAS,
    "embedding_grads_all_reduce": Members.ENDS,
    "optimizer_clip_main_grad": Members.ALL,
}
_ALONE = ("layernorm_grads_all_reduce",)
"""Collectives of ranks that share a stage, of which the tables have one: nobody to match them with is known."""
_COLLECTIVES = (
    ("reduce_scatter", "reduce_scatter"),
    ("reducescatter", "reduce_scatter"),
    ("all_gather", "allgather"),
    ("allgather", "allgather"),
    ("all_to_all", "alltoall"),
    ("alltoall", "alltoall"),
    ("all_reduce", "allreduce"),
    ("allreduce", "allreduce"),
    ("clip_main_grad", "allreduce"),
    ("clip_grad", "allreduce"),
    ("barrier", "barrier"),
)
"""How names of collectives go on, and what these are; the first that fits."""


def kind_of(name: str) -> Kind:
    """What a kind of a table is, by its name."""
    plain = re.sub(r"[\s\-.]+", "_", name.strip().lower())
    for action, names in _ACTIONS.items():
        if plain in names:
            return Kind(name, Role.ACTION, action)
    for action, directions in _DIRECTIONS.items():
        for role, posts in _POSTS.items():
            if plain in {f"{a}_{b}" for a in directions for b in posts} | {
                f"{b}_{a}" for a in directions for b in posts
            }:
                return Kind(name, role, action)
    operation = next((meant for part, meant in _COLLECTIVES if part in plain), "")
    if operation and plain not in _ALONE:
        return Kind(name, Role.COLLECTIVE, operation=operation, members=_MEMBERS.get(plain, Members.ALL))
    span = "optimizer" if plain.startswith("optim") else "data" if plain.startswith(("data", "load")) else "region"
    return Kind(name, Role.OWN, span=span)
