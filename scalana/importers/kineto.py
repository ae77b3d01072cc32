"""Traces of PyTorch's profiler (Kineto), which are Chrome traces: one file a rank.

Which names there are is a matter of age. Categories were ``Operator``, ``Kernel`` and ``Runtime`` at first, kernels of
NCCL ``ncclKernel...`` and later ``ncclDevKernel...``, and only newer ones say which process group they belong to.
"""

from __future__ import annotations

import re
from typing import Any

from scalana.importers import json_stream
from scalana.importers.errors import TraceError
from scalana.importers.files import TraceFile
from scalana.importers.trace import Kind, RankTrace, Track

CATEGORIES = {
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "memcpy": Kind.COPY,
    "gpu_memset": Kind.COPY,
    "memset": Kind.COPY,
    "cuda_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "runtime": Kind.RUNTIME,
    "cpu_op": Kind.OPERATOR,
    "operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "python function": Kind.PYTHON,
}
"""By the category of an event, in lower case."""
_LEFT_OUT = frozenset(
    {"ac2g", "async_cpu_to_gpu", "fwdbwd", "forward_backward", "trace", "gpu_user_annotation", "cuda_sync", ""}
)
"""Categories of arrows and frames, of which nothing is lost."""
COMMUNICATION = re.compile(r"nccl|rccl|hccl|oneccl", re.IGNORECASE)
"""In names of kernels that communicate."""
_TELLING = re.compile(r"nccl|rccl|hccl|oneccl|gloo:|mpi:|c10d::|record_param_comms", re.IGNORECASE)
_LATEST = 1 << 62
"""Times and numbers beyond are damage."""
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_ ]?(\d+)", re.IGNORECASE)


def recognises(beginning: bytes) -> bool:
    """Whether a file that begins so may be a trace of this kind."""
    text = beginning.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text[:1] in (b"{", b"[")


def read(file: TraceFile) -> RankTrace:
    """Read one file.

    Raises:
        TraceError: it cannot be read, is no trace, or holds no event with a begin and an end.
    """
    trace = RankTrace(file.name)
    taker = _Taker(trace)
    try:
        with file.open() as opened:
            stream = json_stream.read(opened, file.name, taker.take)
    except (OSError, EOFError) as error:
        raise TraceError(f"{file.name}: cannot be read: {error}") from error
    trace.damage = stream.damage
    trace.names, trace.tracks, trace.inputs = list(taker.names), list(taker.tracks), list(taker.inputs)
    if not len(trace.events):
        why = f" ({trace.damage})" if trace.damage else ""
        raise TraceError(f"{file.name}: contains no operator, kernel or annotation with a begin and an end{why}")
    _tell(trace, stream.header)
    return trace


class _Taker:
    """Puts events into the columns of a trace."""

    def __init__(self, trace: RankTrace) -> None:
        self._trace = trace
        self.names: dict[str, int] = {}
        self.inputs: dict[str, int] = {}
        self.tracks: dict[Track, int] = {}
        self._track_of: dict[tuple[Any, Any, bool], int] = {}
        self._kind_of: dict[Any, Kind | None] = {}
        self._telling: dict[str, bool] = {}

    def take(self, piece: list[Any]) -> None:
        """Take the events of a piece of the file."""
        trace = self._trace
        events = trace.events
        kind_of, names, track_of = self._kind_of, self.names, self._track_of
        add_kind, add_track, add_name = events.kind.append, events.track.append, events.name.append
        add_start, add_duration, add_correlation, add_inputs = (
            events.start_ns.append,
            events.duration_ns.append,
            events.correlation.append,
            events.inputs.append,
        )
        for event in piece:
            try:
                if event["ph"] != "X":
                    continue
                category = event.get("cat", "")
                kind = kind_of.get(category, ...)
                if kind is ...:
                    kind = kind_of[category] = CATEGORIES.get(str(category).lower())
                if kind is None:
                    if str(category).lower() not in _LEFT_OUT:
                        trace.other_categories[category] = trace.other_categories.get(category, 0) + 1
                    continue
                name, start = event["name"], event["ts"]
                start_ns = start * 1000 if type(start) is int else round(float(start) * 1000)
                duration_ns = round(float(event.get("dur", 0)) * 1000)
                if not (0 <= duration_ns < _LATEST and -_LATEST < start_ns < _LATEST) or type(name) is not str:
                    raise ValueError
                device = kind <= Kind.COPY
                at = event.get("pid"), event.get("tid"), device
                track = track_of.get(at)
                if track is None:
                    track = track_of[at] = self._track(*at)
                arguments = event.get("args")
                correlation, inputs = self._arguments(kind, name, arguments) if arguments else (-1, -1)
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
                trace.odd += 1
                continue
            add_kind(kind)
            add_track(track)
            add_name(names.setdefault(name, len(names)))
            add_start(start_ns)
            add_duration(duration_ns)
            add_correlation(correlation)
            add_inputs(inputs)
            if kind == Kind.PYTHON:
                trace.has_python = True

    def _arguments(self, kind: Kind, name: str, arguments: dict[str, Any]) -> tuple[int, int]:
        """Correlation and number of inputs of an event, -1 for none; keeps its arguments if they tell more."""
        correlation = inputs = -1
        if kind <= Kind.RUNTIME:
            correlation = int(arguments.get("correlation", -1))
            if abs(correlation) >= _LATEST:
                raise ValueError
        tells = self._telling.get(name)
        if tells is None:
            tells = self._telling[name] = _TELLING.search(name) is not None
        if kind == Kind.OPERATOR and (shapes := arguments.get("Input Dims")):
            inputs = self.inputs.setdefault(_shapes(shapes), len(self.inputs))
        stack = kind == Kind.OPERATOR and arguments.get("Call stack")
        if tells or stack or kind == Kind.COPY:
            self._trace.arguments[len(self._trace.events)] = arguments
            self._trace.has_python |= bool(stack)
        return correlation, inputs

    def _track(self, process: Any, thread: Any, device: bool) -> int:
        thread = str(thread).removeprefix("stream ") if device else str(thread)
        return self.tracks.setdefault(Track(str(process), thread, device), len(self.tracks))


def _shapes(told: Any) -> str:
    """Shapes of tensors as a text: ``64x128, 128x256``; what is no tensor has none."""
    shapes = told if isinstance(told, list) else []
    return ", ".join("x".join(map(str, shape)) for shape in shapes if isinstance(shape, list) and shape)


def _tell(trace: RankTrace, header: dict[str, Any]) -> None:
    """Put what stands beside the events into a trace."""
    told = header.get("distributedInfo")
    told = told if isinstance(told, dict) else {}
    trace.rank = _number(told.get("rank"), -1)
    trace.world_size = _number(told.get("world_size"), 0)
    trace.host = str(header.get("host_name") or "")
    for group in told.get("pg_config") or []:
        if isinstance(group, dict) and isinstance(group.get("ranks"), list):
            ranks = [_number(rank, -1) for rank in group["ranks"]]
            if ranks and min(ranks) >= 0:
                trace.groups[str(group.get("pg_name", ""))] = ranks
    base = _number(header.get("baseTimeNanoseconds"), 0)
    if base:
        trace.base_ns = base
    if trace.rank < 0:
        found = _RANK_IN_NAME.findall(trace.file.replace("\\", "/").rpartition("/")[2])
        trace.rank = int(found[0]) if found else -1


def _number(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return default
