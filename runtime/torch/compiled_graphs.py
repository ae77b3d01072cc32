"""The graphs that ``torch.compile`` captures, noted as they go to their compiler: operators, lines, modules, shapes."""

from __future__ import annotations

import os

from scalana.runtime import session
from scalana.runtime.patching import in_place_of
from scalana.runtime.torch import compiled_kernels, models_file
from scalana.runtime.typed import Any, Iterator

MOST_GRAPHS = 256
"""Of a process: whatever is captured anew again and again is noted no more."""
MOST_NODES = 50_000
"""Of a process, likewise."""
TRACED = ("steps.py", os.path.join("torch", "modules.py"), os.path.join("torch", "optimizers.py"))
"""Files of the recorder with hooks that return at once while dynamo goes through them: to leave these out would break
the program's graphs."""
_CALLS = ("call_function", "call_method", "call_module")


def watch_graphs(module: Any) -> None:
    """Note the graphs that dynamo hands to compilers; ``module`` is ``torch._dynamo.output_graph``."""
    owner = module.OutputGraph
    original = owner.call_user_compiler

    @in_place_of(original)
    def call_user_compiler(self: Any, gm: Any, *args: Any, **named: Any) -> Any:
        if session.core is not None:
            try:
                compiled_kernels.note_graph(gm)
                _note(gm)
            except Exception as failure:
                session.note(f"torch: a compiled graph was not noted: {type(failure).__name__}: {failure}")
        return original(self, gm, *args, **named)

    owner.call_user_compiler = call_user_compiler


def leave_recorder_out(module: Any) -> None:
    """Have dynamo compile nothing of the recorder, whose kernels in Python are called from what it does compile;
    ``module`` is ``torch._dynamo.trace_rules``."""
    if not hasattr(module, "SKIP_DIRS") or not hasattr(module, "_recompile_re"):
        return
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    module.SKIP_DIRS += [path for folder in ("", "torch") for path in _files_below(root, folder)]
    module._recompile_re()


def _files_below(root: str, folder: str) -> Iterator[str]:
    """What is in a folder of the recorder, but for what dynamo goes through and what is looked into by itself."""
    for name in os.listdir(os.path.join(root, folder)):
        path = os.path.join(root, folder, name)
        if os.path.join(folder, name) not in TRACED and name != "torch":
            yield path + os.sep if os.path.isdir(path) else path


def _note(graph_module: Any) -> None:
    noted = sum(len(graph["nodes"]) for graph in models_file.graphs)
    if len(models_file.graphs) >= MOST_GRAPHS or noted >= MOST_NODES:
        return
    models_file.graphs.append({"nodes": list(_nodes(graph_module))})
    models_file.write()


def _nodes(graph_module: Any) -> Iterator[dict[str, Any]]:
    for node in graph_module.graph.nodes:
        if node.op not in _CALLS:
            continue
        stack = [value[:2] for value in (node.meta.get("nn_module_stack") or {}).values()]
        value = node.meta.get("example_value")
        shape = getattr(value, "shape", None)
        yield {
            "op": _name(node),
            "frames": [models_file.frame(*one) for one in models_file.frames_in(node.meta.get("stack_trace"))],
            "modules": [[str(path), models_file.class_name(kind)] for path, kind in stack],
            "shape": None if shape is None else [size if type(size) is int else str(size) for size in shape],
            "dtype": "" if shape is None else str(value.dtype).removeprefix("torch."),
        }


def _name(node: Any) -> str:
    if node.op == "call_method":
        return f"Tensor.{node.target}"
    if node.op == "call_module":
        return str(node.target)
    return str(getattr(node.target, "__name__", node.target))
