"""The kernels that inductor makes of a graph: which operators, and so which lines, each of them came from.

While inductor writes code, it tells a function of its own, for each kernel, what that is made of; it is used there to
debug. Here that is noted as well. Where a graph comes from torch's cache nothing is written anew: then it is taken from
what an earlier process kept of the same code, or else from the text of it. The lines are in any case those of the
graph that this process captured, as code that does the same may stand somewhere else by now.
"""

from __future__ import annotations

import os
import sys

from scalana.runtime import session, user_cache
from scalana.runtime.patching import in_place_of
from scalana.runtime.torch import models_file, wrapper_text
from scalana.runtime.typed import Any, Iterable, Iterator, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Key = TypeVar("_Key")
    Origin = tuple[str, str, int]
    """Operator; name of a node of the captured graph; how much it does, 0 where unknown."""
    Part = tuple[int, Origin]
    """Of a kernel that is written: row of a source, and the same for other processes."""

MOST_WRAPPERS = 512
"""Of a process, and graphs."""
MOST_SOURCES = 100_000
"""Of a process, likewise."""
_VIEWS = frozenset(
    """
    alias as_strided detach diagonal expand getitem permute reshape select slice split squeeze t transpose unbind
    unsqueeze view _unsafe_view
    """.split()
)
"""What moves nothing."""
MOST_WRITTEN = 10_000
"""Kernels of a process that may wait for their wrapper: where C++ calls them, none is loaded."""

_written: list[tuple[str, str, list[Part]]] = []
"""Kernels that were written since a wrapper was loaded: number of the compilation, name, what each is made of."""
_graphs: dict[str, dict[str, int]] = {}
"""Rows of sources by the names of nodes, of every captured graph by the number of its compilation."""


def watch_kernels(module: Any) -> None:
    """Note what kernels are made of; ``module`` is ``torch._inductor.debug``."""
    name = "set_kernel_post_grad_provenance_tracing"
    original: Any = getattr(module, name, None)
    if original is None:  # an older torch has none
        return

    @in_place_of(original)
    def set_kernel_post_grad_provenance_tracing(*args: Any, **named: Any) -> Any:
        if session.core is not None and len(_written) < MOST_WRITTEN:
            try:
                schedule, kernel = (*args, *(named[key] for key in ("node_schedule", "kernel_name") if key in named))[
                    :2
                ]
                _written.append((_compilation(), str(kernel), list(_parts(schedule))))
            except Exception as failure:
                _failed(failure)
        return original(*args, **named)

    for user in [module, *(one for key, one in list(sys.modules.items()) if key.startswith("torch._inductor."))]:
        if getattr(user, "__dict__", {}).get(name) is original:  # also where it was imported before
            setattr(user, name, set_kernel_post_grad_provenance_tracing)


def watch_wrappers(module: Any) -> None:
    """See which wrappers are loaded, written anew or not; ``module`` is ``torch._inductor.codecache``."""
    owner = module.PyCodeCache
    original = getattr(getattr(owner, "load_by_key_path", None), "__func__", None)
    if original is None:
        return

    @in_place_of(original)
    def load_by_key_path(cls: Any, *args: Any, **named: Any) -> Any:
        if session.core is not None:
            try:
                given = (*args, *(named[key] for key in ("key", "path", "linemap")[len(args) :] if key in named))[:3]
                if len(given) == 3 and given[2] is not None:  # without lines it is one kernel alone
                    _loaded(str(given[0]), str(given[1]), given[2])
            except Exception as failure:
                _failed(failure)
        return original(cls, *args, **named)

    owner.load_by_key_path = classmethod(load_by_key_path)


def note_graph(graph_module: Any) -> None:
    """Note the nodes of a graph that goes to its compiler, by their names."""
    if _is_full():
        return
    known = _graphs.setdefault(_compilation(), {})
    for node in graph_module.graph.nodes:
        if node.op.startswith("call_"):
            row = _source(node)
            for name in (node.name, *(str(name) for name, _ in (node.meta.get("source_fn_stack") or ())[-1:])):
                known.setdefault(name, row)


def _is_full() -> bool:
    most = max(len(_graphs), len(models_file.wrappers))
    return most >= MOST_WRAPPERS or models_file.count_sources() >= MOST_SOURCES


def _failed(failure: Exception) -> None:
    session.note(f"torch: kernels of a compiled graph are not known: {type(failure).__name__}: {failure}")


def _compilation() -> str:
    from torch._guards import CompileContext

    return str(CompileContext.current_compile_id())


def _parts(schedule: Any) -> Iterator[Part]:
    """What a kernel is made of."""
    if _is_full():
        return
    for node in dict.fromkeys(_origins(schedule)):
        if node.op.startswith("call_"):
            yield _source(node), (_operator(node), _name(node), _work(node))


def _origins(schedule: Any) -> Iterator[Any]:
    """The nodes that a kernel is made of."""
    if hasattr(schedule, "origins"):
        yield from schedule.origins
        return
    for part in schedule:
        inner = getattr(part, "node", None)
        if inner is not None:
            yield from inner.origins


def _loaded(key: str, path: str, linemap: Sequence[Any]) -> None:
    compilation = _compilation()
    written = [(kernel, parts) for of, kernel, parts in _written if of == compilation]  # else of one that failed
    _written.clear()
    if _is_full() or any(one["file"] == path for one in models_file.wrappers):
        return
    with open(path, encoding="utf-8", errors="replace") as stream:
        text = stream.read()
    calls = wrapper_text.kernel_lines(text)
    if not calls:
        return
    kept = os.path.join(user_cache.folder_of(user_cache.INDUCTOR, os.environ), key[:2], key + ".json")
    found = _by_writing(calls, written)
    by, known = "writing", _graphs.get(compilation, {})
    if found is not None:
        _keep(kept, found)
        sources = [
            _sums((row, work) for row, (_, _, work) in parts) if parts else _by_text([call], (), known)[0]
            for call, parts in zip(calls, found, strict=True)
        ]
    else:
        by = "kept"
        remembered = _kept(kept, len(calls))
        if remembered is not None:
            sources = [_looked_up(origins, known) for origins in remembered]
        else:
            by, sources = "text", _by_text(calls, linemap, known)
    models_file.wrappers.append(
        {
            "file": path,
            "compilation": compilation,
            "phase": wrapper_text.phase_of(text),
            "by": by,
            "calls": [
                {"line": call.line, "kernel": call.kernel, "sources": [[row, work] for row, work in rows.items()]}
                for call, rows in zip(calls, sources, strict=True)
            ],
        }
    )
    models_file.write()


def _by_writing(calls: list[wrapper_text.KernelLine], written: list[tuple[str, list[Part]]]) -> list[list[Part]] | None:
    """What each call's kernel is made of; None where the code was not written just now. Of kernels with one name the
    first is called first."""
    waiting: dict[str, list[list[Part]]] = {}
    for kernel, parts in written:
        waiting.setdefault(kernel, []).append(parts)
    found = [waiting[call.kernel].pop(0) if waiting.get(call.kernel) else None for call in calls]
    if not written or any(parts is None for call, parts in zip(calls, found, strict=True) if not call.is_given):
        return None
    return [parts or [] for parts in found]


def _sums(parts: Iterable[tuple[_Key, int]]) -> dict[_Key, int]:
    """How much is done for each key: an operator that was taken apart is one."""
    result: dict[_Key, int] = {}
    for key, work in parts:
        result[key] = result.get(key, 0) + work
    return result


def _source(node: Any) -> int:
    """The row of the operator that a node is of, with its lines and modules."""
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return models_file.source(
        _operator(node),
        models_file.frames_in(node.stack_trace),
        [(str(value[0]), models_file.class_name(value[1])) for value in modules.values()],
    )


def _operator(node: Any) -> str:
    """The operator that a node is, or was made from: ``gelu_backward``."""
    return _operator_of(node.meta.get("original_aten") or node.target)


def _operator_of(target: Any) -> str:
    name = str(target)
    if name.startswith(("aten.", "prims.", "torch.ops.")):
        return name.removeprefix("torch.ops.").split(".")[1]
    return str(getattr(target, "__name__", name))


def _work(node: Any) -> int:
    """How much a node does: multiplications of a product, else elements of the largest tensor that it reads or makes;
    none for views."""
    if _operator_of(node.target) in _VIEWS:
        return 0
    values = [node.meta.get("val"), *(used.meta.get("val") for used in node.all_input_nodes)]
    return max(_multiplications(node), *map(_elements, values))


def _multiplications(node: Any) -> int:
    """Half of the FLOPs by torch's formulas; 0 where it has none, or sizes are not known.

    The formulas compare sizes: of symbolic ones that would be guards of the code that is compiled. So they are given
    plain numbers.
    """
    from torch.fx.node import map_arg
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(getattr(node.target, "_overloadpacket", None))
    if formula is None:
        return 0
    try:
        args, named = map_arg((node.args, dict(node.kwargs)), lambda used: _plain(used.meta.get("val")))
        flops = formula(*args, **named, out_val=_plain(node.meta.get("val")))
    except Exception:  # of a formula that torch has, for other arguments than it was made for
        return 0
    return flops // 2 if type(flops) is int else 0


def _plain(value: Any) -> Any:
    """What a formula takes for a value: a tensor itself, or its sizes, without one that is symbolic in them."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    shape = getattr(value, "shape", None)
    if shape is None:
        return value if getattr(value, "node", None) is None else _size(value)
    return value if all(type(size) is int for size in shape) else tuple(map(_size, shape))


def _elements(value: Any) -> int:
    if isinstance(value, (tuple, list)):
        return max(map(_elements, value), default=0)
    total = 1
    for size in map(_size, getattr(value, "shape", (0,))):
        if size is None:
            return 0
        total *= size
    return total


def _size(size: Any) -> int | None:
    """A size as a number: of a symbolic one what it was when that was traced, None where it is not known."""
    known = size if type(size) is int else getattr(getattr(size, "node", None), "hint", None)
    return known if type(known) is int else None


def _name(node: Any) -> str:
    """The node of the captured graph that a node came from, "" where that is not known."""
    origins = node.meta.get("from_node")
    if origins:
        return str(origins[0].name)
    forward = node.meta.get("fwd_source_fn_stack")
    return str(forward[-1][0]) if forward else ""


def _keep(path: str, found: list[list[Part]]) -> None:
    """Keep what kernels are made of for processes that get the same code from torch's cache."""
    import json

    calls = [
        [(*key, work) for key, work in _sums(((name, node), work) for _, (name, node, work) in parts).items()]
        for parts in found
    ]
    user_cache.keep(path, json.dumps({"calls": calls}).encode())


def _kept(path: str, count: int) -> list[list[Origin]] | None:
    import json

    data = user_cache.kept(path)
    if data is None:
        return None
    try:
        calls = [[(str(a), str(b), int(c)) for a, b, c in call] for call in json.loads(data)["calls"]]
    except (ValueError, KeyError, TypeError):
        return None
    return calls if len(calls) == count else None


def _looked_up(origins: list[Origin], known: dict[str, int]) -> dict[int, int]:
    """Sources of operators by the names of nodes: the lines are those of the graph that was captured here."""
    rows = []
    for operator, name, work in origins:
        at = known.get(name)
        row = models_file.source(operator, [], []) if at is None else models_file.as_operator([at], operator)
        rows.append((row, work))
    return _sums(rows)


def _by_text(
    calls: list[wrapper_text.KernelLine], linemap: Sequence[Any], known: dict[str, int]
) -> list[dict[int, int]]:
    """Sources by what comments name, and by the lines that torch keeps with the code, where these are in the captured
    graph, too. How much each does is not known, and the operators may be known by the name of the kernel alone: then
    they are ""."""
    at_place: dict[Any, list[int]] = {}
    for row in known.values():
        at_place.setdefault(models_file.innermost(row), []).append(row)
    result: list[dict[int, int]] = []
    lines = [int(line) for line, _ in linemap]
    for call, noted in zip(calls, wrapper_text.contexts_of(calls, lines), strict=True):
        label = " ".join(call.atens)
        named = [[known[name]] for name in call.nodes if name in known]
        traces = (models_file.frames_in(linemap[row][1]) for row in noted)
        rows = named or [at_place[trace[-1]] for trace in traces if trace and trace[-1] in at_place]
        found = {models_file.as_operator(some, label): 0 for some in rows}
        result.append(found or {models_file.source(label, [], []): 0})
    return result
