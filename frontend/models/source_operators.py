"""Operators of PyTorch as they are written in a source: what each line calls, by name.

Nothing is run and no types are known: a method counts if tensors have one of that name, a function if it is one of
``torch`` or ``torch.nn.functional``.

>>> operators_by_line("import torch\\ny = torch.softmax(q @ k.transpose(-1, -2) / 8, -1)\\n")
{2: ('transpose', 'matmul', 'div', 'softmax')}
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_METHODS = frozenset(
    """
    abs add add_ addmm all amax amin any argmax argmin argsort backward bernoulli bincount bitwise_and bmm bool byte
    chunk clamp clamp_ clone conj contiguous copy_ cos cpu cuda cumprod cumsum detach diag diagonal div div_ double
    einsum eq erf exp expand expand_as fill_ flatten flip float floor gather ge gt half index_add index_add_
    index_copy_ index_fill_ index_put_ index_select int inverse isfinite isinf isnan item kthvalue le lerp log log1p
    log_softmax logsumexp long lt masked_fill masked_fill_ masked_scatter masked_select matmul max maximum mean median
    min minimum mm movedim mul mul_ multinomial narrow ne neg nonzero norm numpy one_hot outer permute pow prod quantile
    reciprocal relu relu_ repeat repeat_interleave reshape roll round rsqrt scatter scatter_ scatter_add scatter_add_
    select sigmoid sign sin softmax sort split sqrt square squeeze std sub sub_ sum svd swapaxes t take tanh tile to
    tolist topk transpose tril triu type unbind unfold unique unsqueeze var view view_as where zero_
    """.split()
)
_FUNCTIONS = ("torch.", "F.", "functional.", "nn.functional.")
_OTHERS = ("torch.cuda.", "torch.distributed.", "torch.utils.", "torch.autograd.", "torch.profiler.", "torch.no_grad")
_BINARY = {
    ast.MatMult: "matmul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
}


def operators_by_line(source: str) -> dict[int, tuple[str, ...]]:
    """The operators that each line of a source calls, inner ones first; nothing of a source that is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, dict[str, None]] = {}
    for line, name in _found(tree):
        found.setdefault(line, {})[name] = None
    return {line: tuple(names) for line, names in sorted(found.items())}


def _found(node: ast.AST) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        yield from _found(child)
    if isinstance(node, ast.Call):
        name = _called(node.func)
        if name:
            yield node.lineno, name
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _BINARY:
        yield node.lineno, _BINARY[type(node.op)]


def _called(function: ast.expr) -> str:
    """The operator that a call is of; "" where it is of none."""
    if not isinstance(function, ast.Attribute):
        return ""
    whole = ast.unparse(function)
    if whole.replace(".", "").isidentifier():  # a chain of names, and no method of what something else returns
        if whole.startswith(_OTHERS):
            return ""
        prefix = next((prefix for prefix in _FUNCTIONS if whole.startswith(prefix)), "")
        if prefix:
            return whole[len(prefix) :].removeprefix("nn.functional.")
    return function.attr if function.attr in _METHODS else ""
