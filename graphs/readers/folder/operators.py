"""What processes counted beside their records: the operators that modules ran on few steps, by kind."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scalana.graphs.arrays.types import FloatArray, IntArray
from scalana.runtime.record import layout

_TENSOR = re.compile(r"([A-Za-z0-9_]+)\[([^\]]*)\](~?)(@?)|(-)")
_MORE = re.compile(r"\+\d+:(\d+);")
_TYPES = {
    "Byte": ("uint8", 1),
    "Char": ("int8", 1),
    "Short": ("int16", 2),
    "Int": ("int32", 4),
    "Long": ("int64", 8),
    "Half": ("float16", 2),
    "Float": ("float32", 4),
    "Double": ("float64", 8),
    "ComplexHalf": ("complex32", 4),
    "ComplexFloat": ("complex64", 8),
    "ComplexDouble": ("complex128", 16),
    "Bool": ("bool", 1),
    "BFloat16": ("bfloat16", 2),
    "Float8_e5m2": ("float8_e5m2", 1),
    "Float8_e4m3fn": ("float8_e4m3fn", 1),
}
"""torch's names of types in C++: those in Python, and bytes of an element."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """What an operator reads or makes."""

    dtype: str
    """Such as ``float32``."""
    shape: tuple[int, ...] | None
    """None where it is not known."""
    element_bytes: int
    is_contiguous: bool = True
    is_on_device: bool = False

    @property
    def elements(self) -> int:
        """How many, 0 where that is not known."""
        count = 1
        for size in self.shape if self.shape is not None else (0,):
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Size, 0 where it is not known."""
        return self.elements * self.element_bytes

    def __str__(self) -> str:
        sizes = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return f"{self.dtype}[{sizes}]"


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """An operator on tensors of some types and shapes."""

    name: str
    """As torch calls it, such as ``aten::mm``."""
    inputs: tuple[Tensor | None, ...]
    """In order; numbers and the like are left out."""
    outputs: tuple[Tensor | None, ...]
    """Those that it makes, and not what it writes in place; None for one that was not asked for."""
    more_bytes: int = 0
    """Of the tensors of long lists that are in neither of these."""

    @property
    def is_on_device(self) -> bool:
        """Whether the host only launches it."""
        return any(tensor is not None and tensor.is_on_device for tensor in (*self.inputs, *self.outputs))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(tensor) for tensor in self.inputs if tensor is not None)})"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a process computed on: what tells how fast it may be."""

    cpu: str
    """Model of the CPU, "" where unknown."""
    cores: int
    """That the process might use."""
    threads: int
    """Of torch in one operator."""
    torch: str
    """Its version."""
    device: str
    """Its name, "" for none."""


@dataclass(slots=True)
class OperatorCounts:
    """The operators that modules ran; what is inside of another module counts for that one. Columns are ``[rows]``."""

    modules: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Class of the model, qualified name, class and direction; each once."""
    kinds: list[OperatorKind] = field(default_factory=list)
    """Each once."""
    machines: dict[int, Machine] = field(default_factory=dict)
    """By rank, also of ranks that counted nothing."""
    rank: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    step: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Number of the step."""
    module: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    kind: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    calls: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: FloatArray = field(default_factory=lambda: np.zeros(0))
    cpu_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Of these, the calling thread on a CPU."""

    def __len__(self) -> int:
        return len(self.rank)


def read_operators(records: Mapping[int, str | os.PathLike[str]]) -> OperatorCounts:
    """What ranks counted, by the files of their records; what cannot be read is left out, for it only adds to the
    report."""
    found = OperatorCounts()
    modules: dict[tuple[str, str, str, str], int] = {}
    kinds: dict[tuple[str, str], int] = {}
    rows: list[tuple[int, ...]] = []
    for rank, record in records.items():
        try:
            with open(layout.operators_file(record), encoding="utf-8") as stream:
                told = json.load(stream)
            found.machines[rank] = _machine(told["machine"])
            module_of = [modules.setdefault(_module(row), len(modules)) for row in told["modules"]]
            kind_of = [kinds.setdefault((str(name), str(text)), len(kinds)) for name, text in told["kinds"]]
            steps = [int(step) for step in told["steps"]]
            rows += [
                (rank, steps[step], module_of[module], kind_of[kind], *map(int, sums))
                for step, module, kind, *sums in told["rows"]
                if len(sums) == 3
            ]
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            continue
    found.modules = list(modules)
    found.kinds = [operator_kind(name, text) for name, text in kinds]
    table = np.array(rows, np.int64).reshape(-1, 7)
    found.rank, found.step, found.module, found.kind, found.calls = table[:, :5].T
    found.seconds, found.cpu_s = table[:, 5:].T.astype(np.float64) * 1e-9
    return found


def operator_kind(name: str, text: str) -> OperatorKind:
    """The kind that a recorder calls so: the operator, and its tensors as ``inputs>outputs``.

    >>> str(operator_kind("aten::mm", "Float[8,4,];Float[4,2,]~;>Float[8,2,];"))
    'aten::mm(float32[8, 4], float32[4, 2])'
    """
    inputs, _, outputs = text.partition(">")
    more_bytes = sum(int(found.group(1)) for found in _MORE.finditer(text))
    return OperatorKind(name, _tensors(inputs), _tensors(outputs), more_bytes)


def _tensors(text: str) -> tuple[Tensor | None, ...]:
    return tuple(_tensor(match) for match in _TENSOR.finditer(text))


def _tensor(match: re.Match[str]) -> Tensor | None:
    kind, sizes, strided, device, nothing = match.groups()
    if nothing:
        return None
    name, width = _TYPES.get(kind, (kind.lower(), 0))
    shape = None if "?" in sizes else tuple(int(size) for size in sizes.split(",") if size)
    return Tensor(name, shape, width, not strided, bool(device))


def _module(row: list[object]) -> tuple[str, str, str, str]:
    root, name, kind, direction = map(str, row)
    return root, name, kind, direction


def _machine(told: Mapping[str, object]) -> Machine:
    return Machine(
        str(told["cpu"]), int(str(told["cores"])), int(str(told["threads"])), str(told["torch"]), str(told["device"])
    )
