"""Record what ``torch.distributed.pipelining`` does: actions of stages, their messages, runs of schedules.

All schedules of torch, those that are read from a CSV file too, work by the same methods of a stage and by three
functions for messages. These are wrapped in their classes and modules: no object of the program is touched but for an
attribute on each ``P2POp``, which says what the message is for.
"""

from __future__ import annotations

import sys
from functools import partial

from scalana.runtime import session
from scalana.runtime.device import marks
from scalana.runtime.patching import Patches
from scalana.runtime.pipeline.layer_marks import layer_marks
from scalana.runtime.pipeline.layers import Layers, layers_in
from scalana.runtime.pipeline.quick import Quick
from scalana.runtime.pipeline.runs import LONGEST_ORDER, Plan, runs
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable, Function

_patches = Patches("torch.distributed.pipelining")
_quick = Quick()
_begin = span.begin

Tag = tuple[str, int, int, span, span]
"""Of a message: what it is (``RECV_F``), and the stage and microbatch that it is for; spans of its post and of the wait
for it."""


class _Works(list):  # type: ignore[type-arg]
    """What torch waits for, with what it is."""

    __slots__ = ("tags",)
    tags: list[Tag]


# ---- stages ----


def patch_stage(module: Any) -> None:
    """Wrap the methods of stages; ``module`` is ``torch.distributed.pipelining.stage``."""
    owner = getattr(module, "_PipelineStageBase", None)
    if owner is None:
        session.note(f"{_patches.library}: _PipelineStageBase not found: actions are not recorded")
        return
    wrap = _patches.wrap
    wrap(owner, "forward_one_chunk", _quick.action("F", _action("F")), "actions of kind F")
    backward = _quick.action("B", _action("B"), flag="full_backward")
    wrap(owner, "backward_one_chunk", backward, "actions of kinds B and I")
    wrap(owner, "backward_weight_one_chunk", _quick.action("W", _action("W")), "actions of kind W")
    wrap(owner, "perform_reduce_grad", _reduce_grad, "reductions of gradients")
    for direction in ("RECV", "SEND"):
        for letter, word in (("F", "fwd"), ("B", "bwd")):
            method = f"get_{word}_{direction.lower()}_ops"
            name = f"{direction}_{letter}"
            make = _quick.operations(name, _tagging(name), partial(_not_told_apart, name))
            wrap(owner, method, make, f"messages of kind {name}")


def _by_name(named: dict[str, Any]) -> int:
    """The microbatch: the first argument of all methods, where it came by its name."""
    number: int = next(value for key, value in named.items() if key.endswith("chunk_id"))
    return number


def _action(kind: str) -> Callable[[Function], Function]:
    """Record calls as actions; of a backward, ``B``, the call itself tells whether it is I."""

    def make(original: Function) -> Function:
        def action(self: Any, *args: Any, **named: Any) -> Any:
            if session.core is None:
                return original(self, *args, **named)
            mark, on_device = None, -1
            try:
                microbatch = args[0] if args else _by_name(named)
                stage, run, name = self.stage_index, runs.current, kind
                if name != "F":
                    if not run.trains:
                        return original(self, *args, **named)  # which does nothing
                    if name == "B" and not (
                        named["full_backward"] if "full_backward" in named else len(args) < 3 or args[2]
                    ):
                        name = "I"
                if run.timed is not None:
                    run.timed.begin(name, stage, microbatch)
                mark = run.marks[name, stage]
                mark.__enter__()
                on_device = marks.begin()
                if run.timed is not None:
                    run.timed.begun()
            except Exception as failure:
                mark = None
                _patches.failed(f"an action of kind {kind} was not recorded", failure)
            try:
                return original(self, *args, **named)
            finally:
                if mark is not None:
                    if on_device >= 0:
                        marks.end(on_device, "action", name, ("stage", stage, "microbatch", microbatch))
                    timed = run.timed
                    if timed is not None:
                        _patches.tried("layers are not timed", timed.end)
                    if run.pairs and name == "F" and (stage, microbatch) in run.pairs:
                        mark.end(microbatch=microbatch, joined=1)
                    else:
                        mark.end(microbatch=microbatch)
                    if timed is not None:
                        _patches.tried("layers are not timed", timed.write)

        return action

    return make


def _reduce_grad(original: Function) -> Function:
    def perform_reduce_grad(self: Any, *args: Any, **named: Any) -> Any:
        if session.core is None:
            return original(self, *args, **named)
        with span("REDUCE_GRAD", "action", None, stage=getattr(self, "stage_index", None)):
            return original(self, *args, **named)

    return perform_reduce_grad


# ---- messages ----


def _tagging(name: str) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def get_ops(self: Any, *args: Any, **named: Any) -> Any:
            ops = original(self, *args, **named)
            if ops and session.core is not None:
                try:
                    stage, run = self.stage_index, runs.current
                    microbatch = args[0] if args else _by_name(named)
                    tag = (name, stage, microbatch, run.posts[name, stage], run.marks[name, stage])
                    for op in ops:
                        op._scalana_tag = tag
                except Exception as failure:
                    _not_told_apart(name, failure)
            return ops

        return get_ops

    return make


def _not_told_apart(name: str, failure: BaseException) -> None:
    _patches.failed(f"messages of kind {name} are not distinguished", failure)


def _tags(ops: Any) -> list[Tag]:
    """What some messages are, each stage and microbatch once."""
    tags: list[Tag] = []
    last = None
    for op in ops:
        tag = getattr(op, "_scalana_tag", None)
        if tag is not last and tag is not None:  # the tensors of one message have one tag
            tags.append(tag)
            last = tag
    return tags


def _batch(original: Function) -> Function:
    def _batch_p2p(p2p_ops: Any, *args: Any, **named: Any) -> Any:
        tags = _tags(p2p_ops) if p2p_ops and session.core is not None else ()
        if not tags:
            return original(p2p_ops, *args, **named)
        for tag in tags:
            tag[3].__enter__()
        try:
            works = original(p2p_ops, *args, **named)
        finally:
            for tag in tags:
                tag[3].end(microbatch=tag[2])
        if type(works) is list and works:
            works = _Works(works)
            works.tags = tags
        return works

    return _batch_p2p


def _wait(original: Function) -> Function:
    def _wait_batch_p2p(work: Any, *args: Any, **named: Any) -> Any:
        tags = getattr(work, "tags", None)
        if not tags or session.core is None:
            return original(work, *args, **named)
        chosen, sends = tags[0], len(tags) - 1
        for tag in tags[1:]:  # sends and receives in one batch: what the next action needs is what is received
            if tag[0][0] == "R" != chosen[0][0]:
                chosen = tag
        _, _, microbatch, _, wait = chosen
        wait.__enter__()
        try:
            return original(work, *args, **named)
        finally:
            if sends:
                wait.end(microbatch=microbatch, sends=sends)
            else:
                wait.end(microbatch=microbatch)

    return _wait_batch_p2p


# ---- schedules ----


def patch_schedules(module: Any) -> None:
    """Wrap the classes of schedules and their functions for messages; ``module`` is
    ``torch.distributed.pipelining.schedules``."""
    wrap = _patches.wrap
    wrap(module, "_batch_p2p", _quick.batch(_batch, _Works), "posts of messages, and waits for them,")
    wrap(module, "_wait_batch_p2p", _quick.wait(_wait, _Works), "waits for messages")
    base = getattr(module, "_PipelineSchedule", None)
    if base is None:
        session.note(f"{_patches.library}: _PipelineSchedule not found: runs of schedules are not recorded")
        return
    wrap(base, "_maybe_compute_loss", _loss, "computations of the loss")
    for name, method in (
        ("PipelineScheduleSingle", "_initialize_stage"),
        ("PipelineScheduleMulti", "_initialize_stages"),
    ):
        owner = getattr(module, name, None)
        if owner is not None:
            wrap(owner, "step", _run, f"runs of {name}")
            wrap(owner, method, _initialize, "runs that infer shapes")
        else:
            session.note(f"{_patches.library}: {name} not found: its runs are not recorded")
    # What splits batches by itself (torchtitan) begins here.
    for owner in {value for value in vars(module).values() if isinstance(value, type) and issubclass(value, base)}:
        own = vars(owner).get("_step_microbatches")
        if own is not None and not getattr(own, "__isabstractmethod__", False):
            wrap(owner, "_step_microbatches", _run, f"runs of {owner.__name__}")


def _run(original: Function) -> Function:
    def run(self: Any, *args: Any, **named: Any) -> Any:
        if session.core is None or runs.inside(self):
            return original(self, *args, **named)
        current = _enter(self)
        try:
            return original(self, *args, **named)
        finally:
            if current is not None:
                _leave(current)

    return run


def _enter(schedule: Any) -> Any:
    try:
        plan = runs.plan(schedule)
        if plan is None:
            plan = _plan(schedule)
            runs.learn(schedule, plan)
        run = runs.enter(schedule, plan, bool(getattr(schedule, "_has_backward", True)))
    except Exception as failure:
        _patches.failed("a run of a schedule was not recorded", failure)
        return None
    try:
        if layer_marks.wants(run):
            run.timed = Layers(layers_in(stage.submod for stage in plan.stages), run)
    except Exception as failure:
        _patches.failed("layers are not timed", failure)
    _patches.tried("a run is recorded by the slow path", lambda: _quick.begin(run))
    return run


def _leave(run: Any) -> None:
    try:
        _quick.end()
        if run.timed is not None:
            run.timed.detach()
        runs.leave(run)
    except Exception as failure:
        runs.current = runs.none
        _patches.failed("the end of a run was not recorded", failure)


def _initialize(original: Function) -> Function:
    def _initialize_stages(self: Any, *args: Any, **named: Any) -> Any:
        run = runs.current
        if session.core is None or run.schedule is None:
            return original(self, *args, **named)
        before = _uninitialized(self)
        inference = _begin("INFER", "action") if before else None
        try:
            return original(self, *args, **named)
        finally:
            if inference is not None and _uninitialized(self) != before:
                inference.end()
                run.infers = True

    return _initialize_stages


def _uninitialized(schedule: Any) -> list[str]:
    """Flags of what a schedule has still to find out."""
    return [name for name, value in vars(schedule).items() if name.endswith("_initialized") and value is False]


def _loss(original: Function) -> Function:
    def _maybe_compute_loss(self: Any, *args: Any, **named: Any) -> Any:
        stage = args[0] if args else named.get("stage")
        if session.core is None or getattr(self, "_loss_fn", None) is None or not getattr(stage, "is_last", False):
            return original(self, *args, **named)
        microbatch = args[3] if len(args) > 3 else named.get("mb_index")
        with span("LOSS", "action", None, stage=getattr(stage, "stage_index", None), microbatch=microbatch):
            return original(self, *args, **named)

    return _maybe_compute_loss


# ---- what a schedule is ----


def _plan(schedule: Any) -> Plan:
    stages = list(getattr(schedule, "_stages", None) or (schedule._stage,))
    numbers = [stage.stage_index for stage in stages]
    plan = Plan(stages, {number: place for place, number in enumerate(numbers)}, _ranks(stages[0]))
    order = _order(schedule, stages[0])
    plan.pairs = frozenset(
        (parts[0].stage_index, parts[0].microbatch_index)
        for action in order
        if action is not None and (parts := getattr(action, "sub_actions", None))
    )
    text = " ".join(map(str, order))
    # Schedules of one stage a rank don't run by their order, and torch 2.13 has a wrong one for 1F1B.
    plan.order = text if len(stages) > 1 and len(text) <= LONGEST_ORDER else ""
    plan.attributes.update(
        engine="torchtitan" if "torchtitan" in sys.modules else "torch",
        schedule=type(schedule).__name__.removeprefix("Schedule"),
        stages=stages[0].num_stages,
        microbatches=getattr(schedule, "_n_microbatches", None),
        held=",".join(map(str, numbers)),
        loss=int(getattr(schedule, "_loss_fn", None) is not None),
    )
    return plan


def _order(schedule: Any, stage: Any) -> list[Any]:
    """What the schedule plans for this rank, without the places where it would idle."""
    try:
        order = getattr(schedule, "pipeline_order", None) or {}
        return [action for action in order.get(stage.group_rank, ()) if action is not None]
    except Exception as failure:
        _patches.failed("the planned order is not recorded", failure)
        return []


def _ranks(stage: Any) -> list[int]:
    """World ranks of the pipeline, in its order."""
    try:
        distributed = sys.modules["torch.distributed"].distributed_c10d
        group = stage.group if stage.group is not None else distributed._get_default_group()
        return [int(rank) for rank in distributed.get_process_group_ranks(group)]
    except Exception as failure:
        _patches.failed("the ranks of a pipeline are not known", failure)
        return []
