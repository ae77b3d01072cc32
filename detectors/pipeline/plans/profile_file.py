"""Files of layer costs: our own format, and those of other tools. Pure: from what JSON holds, and to it.

`docs/pipeline-plans.md` describes the format, `docs/layers.schema.json` checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalana.detectors.pipeline.model.actions import Kind
from scalana.detectors.pipeline.plans.profile import LayerProfile, Now, ProfileError
from scalana.graphs.arrays.types import FloatArray

SCHEMA = "scalana.layers/1"
SECONDS = {"forward_s": Kind.F, "backward_s": Kind.B, "input_s": Kind.I, "weight_s": Kind.W}
"""Fields of a layer, and the kind of action whose seconds they are."""


def to_document(profile: LayerProfile) -> dict[str, Any]:
    """What the file of a profile holds."""
    latency = profile.latency_s
    off = latency[~np.eye(profile.ranks, dtype=bool)]
    same = len(off) == 0 or np.ptp(off) == 0
    layers = []
    for i, name in enumerate(profile.names):
        layer: dict[str, Any] = {"name": name}
        layer |= {field: float(profile.seconds[kind, i]) for field, kind in SECONDS.items()}
        layer |= {"activation": float(profile.activation[i]), "static": float(profile.static[i])}
        if profile.output[i]:
            layer["output_bytes"] = float(profile.output[i])
        if i in profile.outside:
            layer["outside"] = True
        layers.append(layer)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "ranks": profile.ranks,
        "microbatches": profile.microbatches,
        "unit": profile.unit,
        "latency_s": (float(off[0]) if len(off) else 0.0) if same else latency.tolist(),
        "host_s": profile.host_s,
    }
    if np.isfinite(profile.bytes_per_s):
        document["bytes_per_s"] = profile.bytes_per_s
    if profile.beside:
        document["beside"] = profile.beside
    if profile.capacity is not None and np.isfinite(profile.capacity).all():
        document["memory"] = profile.capacity.tolist()
    if profile.now is not None:
        now = profile.now
        document["now"] = {
            "engine": now.engine,
            "schedule": now.schedule,
            "step_s": now.step_s,
            "rank_of_layer": list(now.rank_of_layer),
            "peak": None if np.isnan(now.peak) else now.peak,
        }
    return document | {"layers": layers}


def read_document(data: Any, name: str, ranks: int | None = None, microbatches: int | None = None) -> LayerProfile:
    """The profile that a file holds; ``ranks`` and ``microbatches`` replace what it says.

    Raises:
        ProfileError: for what is no profile, or lacks something.
    """
    if isinstance(data, Mapping) and str(data.get("schema", "")).startswith("scalana.layers/"):
        profile = _own(data, name, ranks, microbatches)
    elif isinstance(data, Mapping) and "forward_ms" in data and "pattern" in data:
        profile = _pattern(data, name, *_given(name, ranks, microbatches))
    elif isinstance(data, Mapping) and {"f", "b"} <= set(data):
        profile = _lists(data, name, *_given(name, ranks, microbatches))
    else:
        raise ProfileError(
            f'{name}: neither a file of layer costs ("schema": "{SCHEMA}", see docs/pipeline-plans.md) nor a'
            " profile of SimPipe (`pattern`, `forward_ms`, `backward_ms`) or of PipelineSimulator (`f`, `b`)"
        )
    profile.check(name)
    return profile


def _given(name: str, ranks: int | None, microbatches: int | None) -> tuple[int, int]:
    if ranks is None or microbatches is None:
        raise ProfileError(f"{name} lacks the number of ranks or microbatches; give --ranks and --microbatches")
    return ranks, microbatches


def _number(of: Mapping[str, Any], field: str, place: str, default: float | None = None) -> float:
    value = of.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProfileError(f"{place}: {field} must be a number, not {value!r}")
    return float(value)


def _own(data: Mapping[str, Any], name: str, ranks: int | None, microbatches: int | None) -> LayerProfile:
    if data["schema"] != SCHEMA:
        raise ProfileError(f"{name}: schema {data['schema']} is not supported, only {SCHEMA}")
    rows = data.get("layers")
    if not isinstance(rows, Sequence) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise ProfileError(f"{name}: layers must be a list of objects")
    said = int(_number(data, "ranks", name))
    count = said if ranks is None else ranks
    places = [f"{name}, layer {row.get('name', i)!r}" for i, row in enumerate(rows)]
    seconds = np.zeros((4, len(rows)))
    for i, (row, place) in enumerate(zip(rows, places, strict=True)):
        seconds[:, i] = _seconds(row, place)

    def column(field: str, default: float) -> FloatArray:
        return np.array([_number(row, field, place, default) for row, place in zip(rows, places, strict=True)])

    profile = LayerProfile(
        names=tuple(str(row.get("name", i)) for i, row in enumerate(rows)),
        seconds=seconds,
        activation=column("activation", 1.0),
        output=column("output_bytes", 0.0),
        static=column("static", 0.0),
        ranks=count,
        microbatches=int(_number(data, "microbatches", name)) if microbatches is None else microbatches,
        latency_s=_latency(data.get("latency_s", 0.0), name, count, said),
        bytes_per_s=_number(data, "bytes_per_s", name, float("inf")),
        host_s=_number(data, "host_s", name, 0.0),
        capacity=None,
        unit=str(data.get("unit", "layers")),
        beside=_number(data, "beside", name, 0.0),
        outside=tuple(i for i, row in enumerate(rows) if row.get("outside")),
        now=_now(data.get("now"), len(rows), name) if count == said and microbatches is None else None,
    )
    memory = data.get("memory")
    if memory is None:
        return profile
    try:
        return profile.within(np.asarray(memory, float) if count == said else float(np.min(memory)))
    except (TypeError, ValueError) as error:
        raise ProfileError(f"{name}: memory must be a number, or one per rank") from error


def _seconds(row: Mapping[str, Any], place: str) -> FloatArray:
    """F, B, I and W of a layer: what is not given follows from the rest."""
    forward = _number(row, "forward_s", place)
    if "input_s" in row and "weight_s" in row:
        back, weight = _number(row, "input_s", place), _number(row, "weight_s", place)
        return np.array([forward, _number(row, "backward_s", place, back + weight), back, weight])
    whole = _number(row, "backward_s", place)
    return np.array([forward, whole, whole / 2, whole / 2])


def _latency(value: Any, name: str, ranks: int, said: int) -> FloatArray:
    try:
        table = np.asarray(value, float)
    except (TypeError, ValueError) as error:
        raise ProfileError(f"{name}: latency_s must be a number, or a table by source and destination") from error
    if table.ndim == 0:
        return np.full((ranks, ranks), float(table))
    if table.shape != (said, said):
        raise ProfileError(f"{name}: latency_s has the shape {table.shape} for {said} ranks")
    if ranks == said:
        return table
    return np.full((ranks, ranks), float(np.median(table[~np.eye(said, dtype=bool)])) if said > 1 else 0.0)


def _now(value: Any, layers: int, name: str) -> Now | None:
    if value is None:
        return None
    held = value.get("rank_of_layer") if isinstance(value, Mapping) else None
    if not isinstance(held, Sequence) or len(held) != layers:
        raise ProfileError(f"{name}: now.rank_of_layer must have one rank for each of {layers} layers")
    return Now(
        str(value.get("engine", "ideal")),
        str(value.get("schedule", "")),
        _number(value, "step_s", f"{name}, now"),
        tuple(int(rank) for rank in held),
        float("nan") if value.get("peak") is None else _number(value, "peak", f"{name}, now"),
    )


# ---- profiles of others ----


def _plain(
    names: Sequence[str], seconds: FloatArray, outside: tuple[int, ...], ranks: int, microbatches: int
) -> LayerProfile:
    layers = len(names)
    return LayerProfile(
        names=tuple(names),
        seconds=seconds,
        activation=np.ones(layers),
        output=np.zeros(layers),
        static=np.zeros(layers),
        ranks=ranks,
        microbatches=microbatches,
        latency_s=np.zeros((ranks, ranks)),
        outside=outside,
    )


def _pattern(data: Mapping[str, Any], name: str, ranks: int, microbatches: int) -> LayerProfile:
    """A profile of SimPipe (AdaPtis, OctoPipe): a letter a layer, and milliseconds of each letter.

    `backward_ms` is the gradient of the input, `weight_ms` that of the weights. `E` and `L` are the embedding and the
    head; where the pattern has none, they are put around it.
    """
    pattern = str(data["pattern"])
    tables = [data["forward_ms"], data["backward_ms"], data.get("weight_ms", {})]
    if not all(isinstance(table, Mapping) for table in tables):
        raise ProfileError(f"{name}: forward_ms, backward_ms and weight_ms must be objects")
    if "E" not in pattern and "E" in tables[0]:
        pattern = "E" + pattern
    if "L" not in pattern and "L" in tables[0]:
        pattern += "L"
    seconds = np.zeros((4, len(pattern)))
    for i, letter in enumerate(pattern):
        if letter not in tables[0] or letter not in tables[1]:
            raise ProfileError(f"{name}: the pattern has {letter!r}, forward_ms and backward_ms do not")
        for kind, table in zip((Kind.F, Kind.I, Kind.W), tables, strict=True):
            seconds[kind, i] = _number(table, letter, name, 0.0) / 1000
    seconds[Kind.B] = seconds[Kind.I] + seconds[Kind.W]
    counts: dict[str, int] = {}
    names = []
    for letter in pattern:
        names.append(f"{letter}{counts.get(letter, 0)}")
        counts[letter] = counts.get(letter, 0) + 1
    outside = tuple(i for i, letter in enumerate(pattern) if letter in "EL")
    return _plain(names, seconds, outside, ranks, microbatches)


def _lists(data: Mapping[str, Any], name: str, ranks: int, microbatches: int) -> LayerProfile:
    """A profile of PipelineSimulator (AdaPtis): milliseconds of forwards `f`, whole backwards `b`, and `w` of weights
    where they are split."""
    try:
        forward, back = (np.asarray(data[key], float) / 1000 for key in ("f", "b"))
        weight = np.asarray(data["w"], float) / 1000 if "w" in data else None
        seconds = np.stack(
            [forward, back, back / 2 if weight is None else back, back / 2 if weight is None else weight]
        )
    except (TypeError, ValueError) as error:
        raise ProfileError(f"{name}: f, b and w must be lists of milliseconds of the same length") from error
    if weight is not None:
        seconds[Kind.B] = back + weight
    kinds = [str(kind) for kind in data.get("arch", ["layer"] * len(forward))]
    names = [f"{kind}{i}" for i, kind in enumerate(kinds)]
    if len(names) != len(forward):
        raise ProfileError(f"{name}: arch has {len(names)} layers, f {len(forward)}")
    return _plain(names, seconds, (), ranks, microbatches)
