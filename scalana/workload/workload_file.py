"""The file of a workload: JSON lines, documented in docs/workloads.md.

A line each: the workload (its unit, where it comes from, costs), recorded steps, trajectories. What is not known is
left out. Other keys are left alone, so that files may say more.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from typing import IO, Any

import numpy as np

from scalana.workload.costs import Decode
from scalana.workload.errors import WorkloadError
from scalana.workload.trajectories import StepTimes, Turns, Workload

FORMAT = "scalana-rl-workload"
VERSION = 1


def lines_of(workload: Workload) -> Iterator[str]:
    """The lines of the file of a workload."""
    head: dict[str, Any] = {"kind": "workload", "format": FORMAT, "version": VERSION, "unit": workload.unit}
    head["source"] = workload.source
    if workload.decode is not None:
        head["decode"] = asdict(workload.decode)
    yield _line(head)
    times = workload.times
    for step in range(len(times.wall_s) if times is not None else 0):
        assert times is not None
        phases = {name: seconds[:, step].tolist() for name, seconds in times.phases.items()}
        entry = {"kind": "step", "step": step, "wall_s": float(times.wall_s[step]), "phases": phases}
        yield _line(entry | {"trained": [_known(one) for one in times.trained[:, step].tolist()]})
    for row in range(len(workload)):
        yield _line(_entry(workload, row))


def _entry(workload: Workload, row: int) -> dict[str, Any]:
    """One trajectory."""
    first, last = workload.turns.first[row], workload.turns.first[row + 1]
    entry: dict[str, Any] = {"kind": "trajectory", "step": int(workload.step[row])}
    numbers = {"group": int(workload.group[row]), "replica": int(workload.replica[row])}
    entry |= {key: value for key, value in numbers.items() if value >= 0}
    seconds = {
        "prompt": workload.prompt[row],
        "response": workload.response[row],
        "verifier_s": workload.verifier_s[row],
        "begin_s": workload.begin_s[row],
        "end_s": workload.end_s[row],
    }
    entry |= {key: _known(float(value)) for key, value in seconds.items() if math.isfinite(value)}
    if workload.clipped[row]:
        entry["clipped"] = True
    if last - first > 1 or workload.turns.tool_s[first:last].any():
        turns = workload.turns
        columns = zip(turns.read[first:last], turns.tokens[first:last], turns.tool_s[first:last], strict=True)
        entry["turns"] = [[_known(float(one)) for one in turn] for turn in columns]
    return entry


def _known(value: float) -> float | int | None:
    """A number as JSON has it: whole numbers without a point, None for what is not known."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else round(value, 9)


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def write(workload: Workload, path: str) -> None:
    """Write a file, compressed if its name ends in ``.gz``.

    Raises:
        OSError: it cannot be written.
    """
    file: IO[str]
    if path.endswith(".gz"):
        file = io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8")
    else:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    with file:
        file.writelines(lines_of(workload))


def is_workload(first: dict[str, Any]) -> bool:
    """Whether a file is one, by its first entry."""
    return first.get("format") == FORMAT


def read(entries: Iterable[tuple[int, dict[str, Any]]], name: str) -> Workload:
    """Read the entries of a file, each with the number of its line.

    Raises:
        WorkloadError: they cannot be used.
    """
    head: dict[str, Any] = {}
    steps: dict[int, dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    for number, entry in entries:
        kind = entry.get("kind")
        try:
            if kind == "workload":
                head = _head(entry)
            elif kind == "step":
                steps[int(entry["step"])] = entry
            elif kind == "trajectory":
                rows.append(_row(entry))
            else:
                raise WorkloadError(f"kind is {kind!r}, not workload, step or trajectory")
        except KeyError as error:
            raise WorkloadError(f"{name}: line {number}: {error.args[0]!r} is missing") from error
        except (TypeError, ValueError) as error:
            raise WorkloadError(f"{name}: line {number}: {error}") from error
    if not rows:
        raise WorkloadError(f"{name}: has no trajectory")
    return made_of(
        rows, head.get("unit", "token"), head.get("source") or name, _decode(head, name), _times(steps, name)
    )


def _head(entry: dict[str, Any]) -> dict[str, Any]:
    version = entry.get("version")
    if version != VERSION:
        raise WorkloadError(f"version {version!r} of the format; this scalana reads version {VERSION}: install another")
    return entry


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Check a trajectory."""
    row: dict[str, Any] = {"step": int(entry["step"]), "response": float(entry["response"])}
    row["clipped"] = bool(entry.get("clipped"))
    if row["step"] < 0 or not row["response"] > 0.0:
        raise WorkloadError(f"step {row['step']} and response {row['response']:g} must be at least 0 and 1")
    row |= {key: int(entry.get(key, -1)) for key in ("group", "replica")}
    for key in ("prompt", "verifier_s", "begin_s", "end_s"):
        value = entry.get(key)
        row[key] = math.nan if value is None else float(value)
    turns = entry.get("turns") or [[row["prompt"], row["response"], 0.0]]
    row["turns"] = [tuple(float(one or 0.0) for one in turn) for turn in turns]
    if any(len(turn) != 3 for turn in row["turns"]):
        raise WorkloadError("a turn is [tokens read, tokens generated, seconds of tools]")
    return row


def made_of(
    rows: list[dict[str, Any]], unit: str, source: str, decode: Decode | None = None, times: StepTimes | None = None
) -> Workload:
    """A workload of checked trajectories, in the order of their steps; steps that have none are closed up, unless they
    were recorded."""
    step = np.array([row["step"] for row in rows])
    order = np.argsort(step, kind="stable")
    rows = [rows[number] for number in order.tolist()]
    if times is None:
        step = np.unique(step, return_inverse=True)[1].reshape(-1)
    turns = [turn for row in rows for turn in row["turns"]]
    read, tokens, tool_s = np.array(turns, np.float64).reshape(-1, 3).T
    first = np.concatenate(([0], np.cumsum([len(row["turns"]) for row in rows])))

    def column(key: str, kind: type = np.float64) -> Any:
        return np.array([row[key] for row in rows], kind)

    return Workload(
        step=step[order],
        group=column("group", np.int64),
        prompt=column("prompt"),
        response=column("response"),
        verifier_s=column("verifier_s"),
        replica=column("replica", np.int64),
        begin_s=column("begin_s"),
        end_s=column("end_s"),
        clipped=column("clipped", np.bool_),
        turns=Turns(first, np.nan_to_num(read), tokens.copy(), tool_s.copy()),
        unit=unit,
        source=source,
        decode=decode,
        times=times,
    )


def _decode(head: dict[str, Any], name: str) -> Decode | None:
    given = head.get("decode")
    if given is None:
        return None
    names = {field.name for field in fields(Decode)}
    try:
        known = {key: value for key, value in given.items() if key in names}
        return Decode(**known | {"factor": tuple(map(float, known.get("factor", ())))})
    except (AttributeError, TypeError, ValueError) as error:
        raise WorkloadError(f"{name}: 'decode' cannot be used: {error}") from error


def _times(steps: dict[int, dict[str, Any]], name: str) -> StepTimes | None:
    if not steps:
        return None
    if sorted(steps) != list(range(len(steps))):
        raise WorkloadError(f"{name}: recorded steps are {sorted(steps)}, not numbered from 0 on")
    entries = [steps[number] for number in range(len(steps))]
    try:
        names = list(dict.fromkeys(key for entry in entries for key in entry["phases"]))
        ranks = {len(row) for entry in entries for row in (*entry["phases"].values(), entry["trained"])}
        if len(ranks) != 1:
            raise ValueError("phases and 'trained' have different numbers of processes")
        nothing = [0.0] * ranks.pop()
        phases = {key: np.array([entry["phases"].get(key, nothing) for entry in entries], float).T for key in names}
        trained = np.array([[math.nan if one is None else one for one in entry["trained"]] for entry in entries], float)
        return StepTimes(np.array([entry["wall_s"] for entry in entries], float), phases, trained.T)
    except KeyError as error:
        raise WorkloadError(f"{name}: a step lacks {error.args[0]!r}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise WorkloadError(f"{name}: recorded steps cannot be used: {error}") from error
