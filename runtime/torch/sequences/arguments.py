"""Lengths of the sequences that a model is called with, from the arguments of the call.

Nothing here waits for a device, keeps a tensor, or changes one: of tensors on a device the shape alone is read, and no
operator runs where somebody watches operators.
"""

from __future__ import annotations

from itertools import islice

from scalana.runtime.typed import Any, Callable, Iterator, Mapping, Sequence

MOST_VALUES = 1 << 16
"""Numbers that are read of an argument one by one."""
MOST_KEYS = 64
"""Entries of a dictionary that are looked at."""
MOST_ELEMENTS = 1 << 22
"""Elements of an argument that operators are run on."""
MOST_SIZES = 8
"""Arguments whose sizes are read."""

SOURCES = ("cu_seqlens", "lengths", "sequences", "position_ids", "attention_mask", "shape")
"""What lengths are from, the most certain first."""
NAMES = {
    "cu_seqlens": ("cu_seqlens", "cu_seqlens_q", "cu_seq_lens_q", "cu_seq_lens", "cu_seqlens_q_padded"),
    "lengths": ("lengths", "seq_lens", "seqlens", "seq_lengths", "sequence_lengths", "input_lengths"),
    "position_ids": ("position_ids", "positions", "input_pos"),
    "attention_mask": ("attention_mask", "padding_mask", "key_padding_mask", "src_key_padding_mask"),
}
"""What arguments are called that say how long sequences are: those of flash-attn, transformers, Megatron and torch."""
_PADDING = ("key_padding_mask", "src_key_padding_mask")
"""Masks that are true where nothing is."""
_NESTED = ("cu_seqlens_q", "cu_seqlens")
"""Fields of an object that holds such arguments together."""
_EDGES = ("edge", "adj")
"""What names of arguments begin with that say how a graph is connected: not numbers of tokens."""


class Reader:
    """Reads the arguments of calls.

    Args:
        torch: the module.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._tensor = torch.Tensor
        self._source = ""
        self._place: int | str | None = None
        """Number or name of the argument that said lengths before, and what kind of argument that is ..."""
        self._names: Sequence[str] | None = None
        """... where parameters have these names."""
        self._read: tuple[tuple[str, Callable[[str, Any], list[int] | None]], ...] = (
            ("cu_seqlens", self._cumulative),
            ("lengths", self._plain),
            ("position_ids", self._positions),
            ("attention_mask", self._mask),
        )

    def lengths(
        self, args: Sequence[Any], by_name: Mapping[str, Any], names: Sequence[str]
    ) -> tuple[str, list[int]] | None:
        """Where lengths are from, of :data:`SOURCES`, and the lengths; None where no argument says any.

        Args:
            args: of the call, without their names.
            by_name: those with names.
            names: of the parameters that take ``args``, as far as they are known.
        """
        with self._torch._C.DisableTorchFunction():
            if self._torch._C._len_torch_dispatch_stack():
                return None
            if names == self._names and (found := self._again(args, by_name)) is not None:
                return self._source, found
            given = dict(self._named(args, by_name, names))
            for source, read in self._read[:2]:
                if found := self._of(source, read, given):
                    self._names = names
                    self._remember(source, given, args, by_name)
                    return source, found
            values = [value for name, value in given.items() if not name.startswith(_EDGES)]
            if found := next(filter(None, map(self._sequences, values)), None):
                return "sequences", found
            for value in values[1:]:
                if found := self._unnamed(value):
                    return "cu_seqlens", found
            if not self._is_watched():
                for source, read in self._read[2:]:
                    if found := self._of(source, read, given):
                        return source, found
            found = next(filter(None, map(self._shape, values)), None)
            return ("shape", found) if found else None

    def sizes(self, args: Sequence[Any], by_name: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, int]]:
        """Names of the arguments that are tensors, and how many elements each has: of a sparse one those that are
        there. The arguments are as for :meth:`lengths`."""
        with self._torch._C.DisableTorchFunction():
            if self._torch._C._len_torch_dispatch_stack():
                return []
            named = ((name, value) for name, value in self._named(args, by_name, names) if type(value) is self._tensor)
            strided = self._torch.strided
            found = [
                (name, value.numel() if value.layout is strided else value._nnz())
                for name, value in islice(named, MOST_SIZES)
                if not value.is_nested
            ]
            return found

    # ---- arguments ----

    def _remember(self, source: str, given: Mapping[str, Any], args: Sequence[Any], by_name: Mapping[str, Any]) -> None:
        """Where bounds or lengths are that are an argument of their own: they will be there again."""
        self._source, self._place = source, None
        value = next(value for name in NAMES[source] if (value := given.get(name)) is not None)
        for number, one in enumerate(args):
            if one is value:
                self._place = number
        for name, one in by_name.items():
            if one is value:
                self._place = name

    def _again(self, args: Sequence[Any], by_name: Mapping[str, Any]) -> list[int] | None:
        """The lengths in the argument that said them before."""
        place = self._place
        if place is None:
            return None
        if isinstance(place, int):
            value = args[place] if place < len(args) else None
        else:
            value = by_name.get(place)
        if value is None:
            return None
        return self._cumulative("", value) if self._source == SOURCES[0] else self._plain("", value)

    def _named(
        self, args: Sequence[Any], by_name: Mapping[str, Any], names: Sequence[str]
    ) -> Iterator[tuple[str, Any]]:
        """All arguments by their names, with what a mapping among them holds; by numbers what has no name."""
        for number, value in enumerate(args):
            yield from self._inside(names[number] if number < len(names) else str(number), value)
        for name, value in by_name.items():
            yield from self._inside(name, value)

    def _inside(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """An argument, or what a dictionary or an object with fields holds, without calling any code of theirs."""
        if isinstance(value, (self._tensor, int, float, str, list, tuple, type(None))):
            yield name, value
            return
        fields = getattr(value, "__dict__", {}) if not isinstance(value, dict) else {}
        if "_store" in fields:  # a graph of PyTorch Geometric
            fields = {"data": getattr(fields["_store"], "__dict__", {}).get("_mapping")}
        inner = value if isinstance(value, dict) else fields.get("data")  # of a UserDict
        if isinstance(inner, dict):
            yield from ((key, inner[key]) for key in list(inner)[:MOST_KEYS] if type(key) is str)
        else:
            yield from ((field, fields[field]) for field in _NESTED if fields.get(field) is not None)

    @staticmethod
    def _of(source: str, read: Callable[[str, Any], list[int] | None], given: Mapping[str, Any]) -> list[int] | None:
        for name in NAMES[source]:
            value = given.get(name)
            if value is not None and (found := read(name, value)):
                return found
        return None

    # ---- values ----

    def _is_here(self, value: Any, most: int) -> bool:
        """Whether a value is a tensor of integers whose elements can be read at once."""
        return (
            type(value) is self._tensor and value.is_cpu and not value.is_floating_point() and 0 < value.numel() <= most
        )

    def _is_watched(self) -> bool:
        """Whether operators of ours would show up somewhere."""
        return bool(self._torch._C._autograd._profiler_enabled())

    def _integers(self, value: Any) -> list[int] | None:
        if isinstance(value, (list, tuple)):
            return list(value) if 0 < len(value) <= MOST_VALUES and all(type(one) is int for one in value) else None
        if self._is_here(value, MOST_VALUES) and value.dim() == 1:
            values: list[int] = value.tolist()
            return values
        return None

    def _cumulative(self, name: str, value: Any) -> list[int] | None:
        """Of bounds, each that of a sequence's begin."""
        bounds = self._integers(value)
        if bounds is None or len(bounds) < 2 or bounds[0] != 0:
            return None
        lengths = [after - before for before, after in zip(bounds, bounds[1:], strict=False)]
        return [one for one in lengths if one] if min(lengths) >= 0 else None

    def _plain(self, name: str, value: Any) -> list[int] | None:
        lengths = self._integers(value)
        return lengths if lengths and min(lengths) > 0 else None

    def _unnamed(self, value: Any) -> list[int] | None:
        """Of an argument whose name says nothing, if it can be nothing but bounds."""
        bounds = self._integers(value)
        if bounds is None or not all(before < after for before, after in zip(bounds, bounds[1:], strict=False)):
            return None
        return self._cumulative("", bounds)

    def _sequences(self, value: Any) -> list[int] | None:
        """Of tensors one by one, or of a tensor that is made of them."""
        if isinstance(value, (list, tuple)) and 0 < len(value) <= MOST_VALUES:
            if all(isinstance(one, self._tensor) and 0 < one.dim() <= 2 for one in value):
                return [one.shape[0] for one in value]
            return None
        if isinstance(value, self._tensor) and value.is_nested and value.layout is self._torch.jagged:
            return self._cumulative("", value.offsets())
        return None

    def _positions(self, name: str, value: Any) -> list[int] | None:
        """Of positions in sequences: each begins at 0, or with a row."""
        if not self._is_here(value, MOST_ELEMENTS) or not 1 <= value.dim() <= 2:
            return None
        width = value.shape[-1]
        begins = set(range(0, value.numel(), width)).union((value.reshape(-1) == 0).nonzero().reshape(-1).tolist())
        bounds = [*sorted(begins), value.numel()]
        return [after - before for before, after in zip(bounds, bounds[1:], strict=False)]

    def _mask(self, name: str, value: Any) -> list[int] | None:
        """Of a mask of what is no padding, a row for each sequence."""
        if not self._is_here(value, MOST_ELEMENTS) or value.dim() != 2:
            return None
        there = (value == 0) if name in _PADDING else (value != 0)
        return [one for one in there.sum(-1).tolist() if one]

    def _shape(self, value: Any) -> list[int] | None:
        """Of numbers of tokens, or of what stands for each of them."""
        if type(value) is not self._tensor:
            return None
        dimensions = 3 if value.is_floating_point() else 2
        if value.dim() == 1 and dimensions == 2:
            return [value.shape[0]]
        if value.dim() != dimensions or value.shape[0] > MOST_VALUES:
            return None
        return [value.shape[1]] * value.shape[0]
