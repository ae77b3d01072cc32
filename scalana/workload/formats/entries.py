"""Entries of files: JSON lines, plain or compressed, JSON documents, and what torch saved."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalana.workload.errors import WorkloadError

_DTYPES = tuple(
    type(np.dtype(name))
    for name in ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
)
SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".pt")
"""Of files that are taken from a folder."""


@dataclass(frozen=True, slots=True)
class EntryFile:
    """What one file holds."""

    name: str
    entries: tuple[tuple[int, dict[str, Any]], ...]
    """Each with the number of its line."""

    @property
    def number(self) -> int:
        """The last number in its name, by which tools number their steps; 0 for none.

        >>> EntryFile("run2/train_rollout_17.jsonl", ()).number
        17
        """
        base = os.path.basename(self.name).split(".")[0]
        found = re.findall(r"\d+", base)
        return int(found[-1]) if found else 0


def paths_below(path: str) -> list[str]:
    """A file itself, or the files of a folder that may hold entries, by name and number.

    Raises:
        WorkloadError: there is nothing there.
    """
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise WorkloadError(f"{path}: no such file or folder")
        return [path]
    found = [
        os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(SUFFIXES)
    ]
    if not found:
        raise WorkloadError(
            f"{path}: contains neither a run of scalana nor files of a workload ({', '.join(SUFFIXES)})"
        )
    return sorted(
        found, key=lambda name: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
    )


def read_file(path: str) -> EntryFile:
    """Read a file.

    Raises:
        WorkloadError: it cannot be read, or is something else.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error
    if zipfile.is_zipfile(io.BytesIO(content)):
        return EntryFile(path, tuple(_listed(_saved(path), path)))
    try:
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: not a text file of JSON: {error}") from error
    if not text.strip():
        raise WorkloadError(f"{path}: empty file")
    return EntryFile(path, tuple(_parsed(text, path)))


def _parsed(text: str, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The entries of a text: one a line, or one document."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    entries: list[tuple[int, dict[str, Any]]] = []
    for number, line in lines:
        try:
            entry = json.loads(line)
        except ValueError as error:
            if not entries:
                yield from _document(text, path)
                return
            cut = " (the file may be cut off)" if number == lines[-1][0] else ""
            raise WorkloadError(f"{path}: line {number} is not JSON{cut}: {error}") from error
        if not isinstance(entry, dict):
            yield from _document(text, path)
            return
        entries.append((number, entry))
    for number, entry in entries:
        yield from ((number, one) for _, one in _listed(entry, path))


def _document(text: str, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        yield from _listed(json.loads(text), path)
    except ValueError as error:
        raise WorkloadError(f"{path}: neither JSON lines nor a JSON document: {error}") from error


def _listed(value: Any, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The entries of a value: those of a list; the samples of a rollout, each with its number; or itself."""
    if isinstance(value, dict) and isinstance(value.get("samples"), list):
        rest = {key: one for key, one in value.items() if key != "samples"}
        value = [rest | one for one in value["samples"] if isinstance(one, dict)]
    for number, entry in enumerate(value if isinstance(value, list) else [value], 1):
        if not isinstance(entry, dict):
            raise WorkloadError(f"{path}: entry {number} is no JSON object")
        yield number, entry


def _arrays() -> list[Any]:
    """What arrays of numpy consist of in such files: samples of models with experts have some."""
    kept = np.zeros(0).__reduce__()[0]
    return [kept, (kept, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype, *_DTYPES]


def _saved(path: str) -> Any:
    """What ``torch.save`` wrote: plain data alone, as anything else could run code."""
    try:
        import torch
    except ImportError:
        raise WorkloadError(f"{path}: reading this file needs torch: pip install torch") from None
    try:
        allowed = getattr(torch.serialization, "safe_globals", None)  # torch 2.5 or newer
        with allowed(_arrays()) if allowed is not None else nullcontext():
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WorkloadError(f"{path}: torch cannot load it as plain data: {reason}") from error
