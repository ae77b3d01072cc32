"""Loops that Python itself runs, one short turn after the other, on all ranks: serial code that limits a step.

A loop whose header takes a part of its time that samples show has turns of a few microseconds: going on to the next
element takes Python some ten nanoseconds. Most of such a turn is the interpreter's work, whatever the loop is for:
operations on whole arrays do the same in a fraction of the time. Comprehensions have their header and their body in one
line; there it is the source that says whether anything but Python runs.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from dataclasses import replace
from functools import lru_cache

import numpy as np

from scalana.detectors.evidence import Evidence
from scalana.detectors.facts import Facts
from scalana.detectors.limits.advice import ADVICE
from scalana.detectors.limits.causal_profile import HALF, NOTHING, CausalProfile
from scalana.detectors.limits.data.loader_pace import Removal
from scalana.detectors.limits.shared_cause import (
    SharedCause,
    all_spend_alike,
    is_worth,
    is_worth_alike,
    place_of_work,
    step_limit,
)
from scalana.detectors.reconcile import Extent
from scalana.detectors.rollup.callers import callers
from scalana.detectors.rollup.finding_at import finding_at
from scalana.detectors.rollup.leaf import leaf_below
from scalana.detectors.thresholds.shares import MAJORITY, WORTH_FOLLOWING, WORTH_IF_ONCE
from scalana.graphs.arrays.segments import weighted_count
from scalana.graphs.arrays.types import BoolArray, FloatArray
from scalana.graphs.metrics import own_by_activity, own_by_rank
from scalana.graphs.structure.psg import PSG, Place, VertexKind

KIND = "python-bound"
_METHODS = frozenset(
    name for kind in (str, bytes, bytearray, list, dict, set, tuple) for name in vars(kind) if not name.startswith("_")
)
"""Methods of what Python itself has."""
_FUNCTIONS = frozenset(vars(builtins))
_CLOCKS = ("perf_counter", "monotonic", "process_time", "thread_time", "time")
"""Calls in the condition of a loop that waits for a time to come: how programs stand in for work which they lack."""
_OF_NUMBERS = (ast.Mod, ast.FloorDiv, ast.BitAnd, ast.BitXor, ast.BitOr, ast.LShift, ast.RShift)


def python_loops(profile: CausalProfile, facts: Facts) -> list[SharedCause]:
    """At most one cause: all such loops, at the place that takes most of them."""
    stretch = facts.stretch
    if stretch is None:
        return []
    timeline, own = facts.timeline, facts.timeline.own
    spent_s = stretch.of_main(own.seconds, timeline)
    of_activity = own_by_activity(timeline, spent_s)
    inside = _in_loops(of_activity / timeline.ranks, facts)
    if not inside.any():
        return []
    of_activity[~inside] = 0.0
    rows, ranks = inside[own.activity], list(range(timeline.ranks))
    of_rank = own_by_rank(timeline, np.where(rows, spent_s, 0.0))
    if not is_worth_alike(of_rank, profile):
        return []
    with_core_s = float(own.seconds[rows].sum() - own.core_wait_s[rows].sum())
    if float(own.cpu_s[rows].sum()) < MAJORITY * with_core_s:
        return []  # what rests waits for a core as well, each time that it goes on
    removal = Removal.of(stretch, facts)
    changes = [removal.of_work(rows, part * own.seconds) for part in (HALF, NOTHING)]
    half_s, without_s = stretch.left_s(changes, facts.replay)
    if not is_worth(without_s, profile):
        return []
    activities = np.flatnonzero(of_activity > 0.0)
    place, work = place_of_work(activities, of_activity[activities], facts)
    finding = replace(
        finding_at(place, ranks, float(of_rank.sum()) * stretch.steps, facts.psg, KIND),
        saving_s=(profile.step_s - without_s) * stretch.steps,
        evidence=Evidence(
            step_limit=step_limit(float(of_rank.mean()), half_s, without_s, profile),
            leaf=leaf_below(place, work, facts.timeline, facts.psg),
            callers=callers(place.vertex, facts.psg),
        ),
        advice=ADVICE[KIND],
    )
    return [SharedCause(finding, Extent(tuple(ranks), activities, np.zeros(0, np.int64)), all_spend_alike(of_rank))]


def _in_loops(seconds: FloatArray, facts: Facts) -> BoolArray:
    """Which activities lie in loops that Python runs; ``seconds`` are those of an average rank in a step
    ``[activities]``. The header of a loop that makes steps takes the data of one: no turn is short."""
    psg, table = facts.psg, facts.timeline.activities
    vertex = np.where(table.helper, 0, np.clip(table.vertex, 0, len(psg) - 1))
    below_s = _below(weighted_count(vertex, seconds, len(psg)), psg)
    spans = facts.ppg.spans
    loads = set(spans.places(spans.rows("data")))
    least_s = WORTH_FOLLOWING * WORTH_IF_ONCE * seconds.sum()
    in_loop = np.zeros(len(psg), np.bool_)
    for loop in psg.vertices:  # parents come before their children
        index = loop.index
        if loop.parent >= 0 and in_loop[loop.parent]:
            in_loop[index] = True
        elif loop.kind is VertexKind.LOOP and below_s[index] >= least_s:
            header = (vertex == index) & (table.line == loop.place.line)
            share = float(seconds[header].sum()) / max(float(below_s[index]), 1e-300)
            other = psg.makes_steps(index) or (index, loop.place.line) in loads
            in_loop[index] = not other and runs_in_python(loop.place, share)
    return np.asarray(in_loop[vertex] & (vertex > 0))


def _below(of_vertex: FloatArray, psg: PSG) -> FloatArray:
    """What is spent at or below each vertex ``[vertices]``."""
    result = of_vertex.copy()
    for one in reversed(psg.vertices):
        if one.parent >= 0:
            result[one.parent] += result[one.index]
    return result


def runs_in_python(place: Place, header_share: float) -> bool:
    """Whether a loop has so short turns that most of them is the interpreter's work.

    Args:
        place: of the loop.
        header_share: which part of its time is spent in its first line, not in what that calls.
    """
    if not place.file.endswith(".py"):
        return False
    loop = _loops(place.file).get(place.line)
    if isinstance(loop, ast.For) and any(not _of_python(call) for call in _calls(loop.iter)):
        return False  # what gives the elements may take the time of the header
    if isinstance(loop, (ast.For, ast.While)) and loop.body[0].lineno > loop.lineno:
        waits = isinstance(loop, ast.While) and any(_name(call) in _CLOCKS for call in _calls(loop.test))
        return not waits and header_share >= WORTH_FOLLOWING
    return loop is not None and _is_of_python(loop)


@lru_cache(maxsize=256)
def _loops(file: str) -> dict[int, ast.AST]:
    """The loops of a source file as it stands today, by their first lines; the outermost of each."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    kinds = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    found: dict[int, ast.AST] = {}
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            found.setdefault(node.lineno, node)
    return found


def _is_of_python(loop: ast.AST) -> bool:
    """Whether a loop in one line calls functions and methods of Python itself, and computes with its numbers, and calls
    nothing else."""
    calls = list(_calls(loop))
    operators = [node.op for node in ast.walk(loop) if isinstance(node, ast.BinOp)]
    of_python = all(map(_of_python, calls)) and not any(isinstance(operator, ast.MatMult) for operator in operators)
    return of_python and (bool(calls) or any(isinstance(operator, _OF_NUMBERS) for operator in operators))


def _of_python(call: ast.Call) -> bool:
    """Whether a call is of a function or a method of Python itself, by its name."""
    return _name(call) in (_METHODS if isinstance(call.func, ast.Attribute) else _FUNCTIONS)


def _calls(node: ast.AST) -> list[ast.Call]:
    return [one for one in ast.walk(node) if isinstance(one, ast.Call)]


def _name(call: ast.Call) -> str:
    """The last name of what is called, "" where it has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
