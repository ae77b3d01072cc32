"""The Python that inductor writes for a graph, read: which line calls which kernel, and what comments say of it."""

from __future__ import annotations

import re

from scalana.runtime.typed import Iterable

_BEGINS = re.compile(r"\s*def (call|partition_\d+)\(")
"""Functions that call kernels."""
_ENDS = re.compile(r"(def (get_args|benchmark_compiled_module)\(|if __name__)")
_DEFINED = re.compile(r"([A-Za-z_]\w*) = async_compile\.(\w+)\(")
_CALL = re.compile(r"\s+(?:[\w, ()]+ = )?([A-Za-z_][\w.]*)\(")
_GIVEN = ("extern_kernels.", "torch.ops.", "aten.")
"""How the names of kernels begin that inductor did not make."""
_NO_KERNELS = ("torch.ops.inductor._reinterpret_tensor",)
_COMMENT = re.compile(r"\s*#.*Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]")
_AOT_ID = re.compile(r"# AOT ID: \['(\w+?)'\]")
PHASES = ("forward", "backward", "inference")


class KernelLine:
    """A line that calls a kernel."""

    __slots__ = ("atens", "kernel", "line", "nodes")

    def __init__(self, line: int, kernel: str, nodes: tuple[str, ...] = (), atens: tuple[str, ...] = ()) -> None:
        self.line = line
        self.kernel = kernel
        self.nodes = nodes
        """Names of the nodes of the captured graph, as a comment before it has them."""
        self.atens = atens
        """Operators, likewise, such as ``add``."""

    @property
    def is_given(self) -> bool:
        """Whether inductor did not make the kernel, but calls one that there is."""
        return self.kernel.startswith(_GIVEN)


def phase_of(text: str) -> str:
    """``forward``, ``backward`` or ``inference``; "" where the text does not say."""
    found = _AOT_ID.search(text[:4096])
    last = found.group(1).rpartition("_")[2] if found else ""
    return last if last in PHASES else ""


def kernel_lines(text: str) -> list[KernelLine]:
    """The lines of a wrapper that call kernels, in their order."""
    lines = text.splitlines()
    made = {found.group(1) for found in map(_DEFINED.match, lines) if found}
    result: list[KernelLine] = []
    nodes: tuple[str, ...] = ()
    atens: tuple[str, ...] = ()
    inside = False
    for number, line in enumerate(lines, 1):
        if _BEGINS.match(line):
            inside = True
        elif _ENDS.match(line):
            inside = False
        if not inside:
            continue
        comment = _COMMENT.match(line)
        if comment:
            nodes, atens = _names(comment.group(1)), tuple(map(_bare, _names(comment.group(2))))
            continue
        call = _CALL.match(line)
        if call is None:
            continue
        kernel = call.group(1).removesuffix(".run")
        if kernel in made or (kernel.startswith(_GIVEN) and kernel not in _NO_KERNELS):
            result.append(KernelLine(number, kernel, nodes, atens))
            nodes = atens = ()
    return result


def contexts_of(calls: list[KernelLine], places: Iterable[int]) -> list[list[int]]:
    """Which of the lines, at which torch notes what it writes code for, are of which call.

    Torch notes a line for each part of a kernel before it writes the call. Kernels for CPUs are gathered until another
    one is due: so the last note before a given kernel is that kernel's, even where a gathered one is called between.

    Args:
        calls: as :func:`kernel_lines` gives them.
        places: the lines that are noted, ascending.

    Returns:
        Of each call the places in ``places``.
    """
    noted = list(places)
    result: list[list[int]] = []
    taken = 0
    for number, call in enumerate(calls):
        upto = taken
        while upto < len(noted) and noted[upto] <= call.line:
            upto += 1
        following = calls[number + 1] if number + 1 < len(calls) else None
        if following is not None and following.is_given and not call.is_given and upto - taken > 1:
            if not any(call.line < at <= following.line for at in noted[upto : upto + 1]):
                upto -= 1  # it is the given kernel's
        result.append(list(range(taken, upto)))
        taken = upto
    return result


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _bare(operator: str) -> str:
    """``add`` of ``aten.add`` and ``aten.add.Tensor``."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator
