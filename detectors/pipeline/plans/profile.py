"""What a model costs, layer by layer, and what it runs on: all that a plan is made from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.model.partition import even_cut
from scalana.graphs.arrays.types import FloatArray, IntArray


class ProfileError(ValueError):
    """Costs that nothing can be planned with: the message names the file or field, and what to try."""


@dataclass(frozen=True)
class Now:
    """How the job runs today, where that is known."""

    engine: str
    """A name in :data:`~scalana.detectors.pipeline.model.engines.ENGINES`."""
    schedule: str
    """As people call it, "" for an order of its own."""
    step_s: float
    """Measured seconds of a step."""
    rank_of_layer: tuple[int, ...]
    """Which rank holds each layer ``[layers]``."""
    peak: float
    """The most that a rank holds, in the unit of :attr:`LayerProfile.activation`."""


@dataclass(frozen=True)
class LayerProfile:
    """Costs of layers for one microbatch, and the machine."""

    names: tuple[str, ...]
    seconds: FloatArray
    """By :class:`~scalana.detectors.pipeline.model.actions.Kind` and layer: F, whole backward, I, W ``[4, layers]``.
    What splitting a backward costs is I + W - B."""
    activation: FloatArray
    """What one microbatch keeps from its forward to its backward, bytes or just 1 ``[layers]``."""
    output: FloatArray
    """Bytes of what goes to the next layer ``[layers]``."""
    static: FloatArray
    """Parameters, gradients and state of the optimizer ``[layers]``, in the unit of :attr:`activation`."""
    ranks: int
    microbatches: int
    latency_s: FloatArray
    """From source to destination rank ``[ranks, ranks]``."""
    bytes_per_s: float = float("inf")
    """Of every link."""
    host_s: float = 0.0
    """What the host does before every action."""
    capacity: FloatArray | None = None
    """Memory of the ranks, in the unit of :attr:`activation` ``[ranks]``; None where it is not limited."""
    unit: str = "layers"
    """Of memory: `bytes`, or `layers` (microbatches times layers) where bytes are not known."""
    beside: float = 0.0
    """What every rank needs beside: activations that are computed anew, say."""
    outside: tuple[int, ...] = ()
    """Layers that are no blocks (an embedding, a head): an even split gives them to the first and last stage."""
    now: Now | None = None

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self.names)

    @property
    def work_s(self) -> FloatArray:
        """The least that a microbatch takes of each layer, forward and backward ``[layers]``."""
        split = self.seconds[Kind.I] + self.seconds[Kind.W]
        return self.seconds[Kind.F] + np.minimum(self.seconds[Kind.B], split)

    @property
    def limits(self) -> FloatArray:
        """Memory of the ranks, infinity where it is not limited ``[ranks]``."""
        return np.full(self.ranks, np.inf) if self.capacity is None else self.capacity

    def within(self, capacity: float | FloatArray | None) -> LayerProfile:
        """The same with another limit of memory, for all ranks or each ``[ranks]``."""
        if capacity is None:
            return replace(self, capacity=None)
        return replace(self, capacity=np.broadcast_to(np.asarray(capacity, float), (self.ranks,)).copy())

    def check(self, name: str = "layer costs") -> None:
        """Raise a :class:`ProfileError` for what cannot be planned with; ``name`` is the file for messages."""
        if self.ranks < 1 or self.microbatches < 1:
            raise ProfileError(f"{name}: ranks and microbatches must be at least 1")
        if self.layers < self.ranks:
            raise ProfileError(
                f"{name}: {self.layers} layers cannot be given to {self.ranks} ranks; take finer layers or fewer ranks"
            )
        for what, values in (("seconds", self.seconds), ("memory", np.stack([self.activation, self.static]))):
            if not np.isfinite(values).all() or (values < 0).any():
                bad = int(np.argwhere(~np.isfinite(values) | (values < 0))[0][-1])
                raise ProfileError(f"{name}: {what} of layer {self.names[bad]!r} must be numbers from 0")
        if not self.seconds[Kind.F].any():
            raise ProfileError(f"{name}: no layer has a forward time")


def uniform_cut(profile: LayerProfile, stages: int) -> IntArray:
    """The same number of blocks in every stage; what is outside of them goes to the first and the last.

    Raises:
        ProfileError: with fewer blocks than stages.
    """
    before, after = blocks_of(profile)
    if after - before < stages:
        raise ProfileError(f"{after - before} blocks cannot be cut into {stages} stages")
    cut = even_cut(after - before, stages) + before
    cut[0], cut[-1] = 0, profile.layers
    return cut


def blocks_of(profile: LayerProfile) -> tuple[int, int]:
    """The first block, and the end of the last one: what is no block stands before and after."""
    before = 0
    while before in profile.outside:
        before += 1
    after = profile.layers
    while after - 1 in profile.outside and after > before:
        after -= 1
    return before, after


def join_ends(profile: LayerProfile) -> tuple[LayerProfile, IntArray]:
    """The same with all that is before the blocks as one layer, and all that is after them: engines keep them together.

    Also the first layer of each layer of the result, and the number of layers ``[layers of the result + 1]``.
    """
    first, end = blocks_of(profile)
    begins = np.array([*([0] if first else []), *range(first, end), *([end] if end < profile.layers else [])], np.int64)
    cut = np.append(begins, profile.layers)
    names = tuple(" + ".join(profile.names[a:b]) for a, b in zip(cut[:-1], cut[1:], strict=True))
    outside = ([0] if first else []) + ([len(begins) - 1] if end < profile.layers else [])
    joined = replace(
        profile,
        names=names,
        seconds=np.add.reduceat(profile.seconds, begins, axis=1),
        activation=np.add.reduceat(profile.activation, begins),
        static=np.add.reduceat(profile.static, begins),
        output=profile.output[cut[1:] - 1],
        outside=tuple(outside),
        now=None,
    )
    return joined, cut


def split_layer(profile: LayerProfile, layer: int, parts: int) -> LayerProfile:
    """The same with one layer in ``parts`` equal ones, one after the other, that may be on different ranks.

    So a vocabulary may be split over ranks; that each part hands on what the whole would is on the safe side.
    """
    sizes = np.ones(profile.layers, np.int64)
    sizes[layer] = parts
    share = np.repeat(1.0 / sizes, sizes)
    names = [
        f"{name}[{part}/{size}]" if size > 1 else name
        for name, size in zip(profile.names, sizes.tolist(), strict=True)
        for part in range(size)
    ]
    at = np.repeat(np.arange(profile.layers), sizes)
    output = profile.output[at].copy()
    if parts > 1 and layer > 0:
        output[layer : layer + parts - 1] = np.maximum(output[layer : layer + parts - 1], profile.output[layer - 1])
    outside = tuple(np.flatnonzero(np.isin(at, profile.outside)).tolist())
    return replace(
        profile,
        names=tuple(names),
        seconds=profile.seconds[:, at] * share,
        activation=profile.activation[at] * share,
        output=output,
        static=profile.static[at] * share,
        outside=outside,
        now=None,
    )


def recompute(profile: LayerProfile, input_share: float | None = None) -> LayerProfile:
    """The same where backwards compute activations anew: only the input of each layer is kept, and the
    activations of one layer at a time.

    ``input_share`` is what an input takes of an activation, where bytes are not known. A split backward computes them
    twice, for I and for W.
    """
    seconds = profile.seconds.copy()
    for kind in (Kind.B, Kind.I, Kind.W):
        seconds[kind] += profile.seconds[Kind.F]
    if input_share is not None:
        kept = profile.activation * input_share
    else:
        kept = np.minimum(np.concatenate([profile.output[:1], profile.output[:-1]]), profile.activation)
    beside = profile.beside + float(profile.activation.max())
    return replace(profile, seconds=seconds, activation=kept, beside=beside)
