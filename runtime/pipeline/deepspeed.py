"""Record the pipeline engine of DeepSpeed, instruction by instruction.

Its engine carries a schedule out by functions that its classes hold in a table, ``_INSTRUCTION_MAP``: wrappers take
their places there. An instruction names a buffer, not a microbatch, but those of one kind come in the order of the
microbatches, so they are counted.
"""

from __future__ import annotations

import sys
import weakref

from scalana.runtime import session
from scalana.runtime.device import marks
from scalana.runtime.patching import Patches
from scalana.runtime.pipeline.layer_marks import layer_marks
from scalana.runtime.pipeline.layers import Layers, is_compiled
from scalana.runtime.pipeline.runs import Plan, Run, runs
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable, Function, Iterator

_patches = Patches("deepspeed.runtime.pipe")

NAMES = {"TrainSchedule": "1F1B", "InferenceSchedule": "1F1B"}
"""What is usually called otherwise. An engine evaluates by a schedule of its own, in the same pipeline."""


class Schedule:
    """Stands for the schedules of one engine, which makes a new one for each batch."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        """How many instructions of a kind the run has begun."""

    def next(self, name: str) -> int:
        """The microbatch of an instruction."""
        microbatch = self.done.get(name, 0)
        self.done[name] = microbatch + 1
        return microbatch


_schedules: weakref.WeakKeyDictionary[Any, Schedule] = weakref.WeakKeyDictionary()


def patch_engine(module: Any) -> None:
    """Wrap what an engine does; ``module`` is ``deepspeed.runtime.pipe.engine``."""
    owner = getattr(module, "PipelineEngine", None)
    if owner is None:
        session.note(f"{_patches.library}: PipelineEngine not found: its pipelines are not recorded")
        return
    _patches.wrap(owner, "_exec_schedule", _run, "runs of schedules")
    table = getattr(owner, "_INSTRUCTION_MAP", None)
    table = table if isinstance(table, dict) else {}
    named = {getattr(instruction, "__name__", ""): instruction for instruction in table}
    for name, (make, recorded) in INSTRUCTIONS.items():
        _patches.wrap_item(table, named.get(name), f"the instruction {name}", make, recorded)


# ---- runs ----


def _run(original: Function) -> Function:
    def _exec_schedule(self: Any, *args: Any, **named: Any) -> Any:
        if session.core is None:
            return original(self, *args, **named)
        current = _enter(self, args[0] if args else named.get("pipe_schedule"))
        try:
            return original(self, *args, **named)
        finally:
            if current is not None and runs.current is current:
                _patches.tried("the end of a run was not recorded", lambda: _leave(current))

    return _exec_schedule


def _enter(engine: Any, planned: Any) -> Run | None:
    try:
        stage = engine.stage_id
        schedule = _schedules.get(engine)
        if schedule is None:
            schedule = _schedules[engine] = Schedule()
            plan = Plan((), {stage: 0}, [int(rank) for rank in engine.grid.pp_group])
            name = type(planned).__name__
            plan.attributes.update(
                engine="deepspeed",
                schedule=NAMES.get(name, name.removesuffix("Schedule")),
                stages=engine.num_stages,
                held=str(stage),
            )
            runs.learn(schedule, plan)
        known = runs.plan(schedule)
        assert known is not None
        known.attributes["microbatches"] = planned.num_micro_batches
        schedule.done.clear()
        run = runs.enter(schedule, known, sys.modules["torch"].is_grad_enabled())
        _patches.tried("layers are not timed", lambda: _time_layers(run, engine.module))
        return run
    except Exception as failure:
        _patches.failed("a run of a schedule was not recorded", failure)
        return None


def _leave(run: Run) -> None:
    if run.timed is not None:
        run.timed.detach()
    runs.leave(run)


def _time_layers(run: Run, module: Any) -> None:
    if layer_marks.wants(run):
        run.timed = Layers(layers_of(module), run)


def layers_of(module: Any) -> Iterator[tuple[str, Any]]:
    """The layers of a stage by their numbers in the whole pipeline; what is a function, and no module, has no hooks."""
    kind = sys.modules["torch"].nn.Module
    seen = set()
    for number, layer in enumerate(module.forward_funcs, getattr(module, "_local_start", 0)):
        if isinstance(layer, kind) and id(layer) not in seen and not is_compiled(layer):
            seen.add(id(layer))
            yield f"layers.{number}", layer


# ---- instructions ----


def _under_way() -> Schedule | None:
    """The run of a schedule that the instruction belongs to."""
    schedule = runs.current.schedule
    return schedule if session.core is not None and type(schedule) is Schedule else None


def _recorded(name: str) -> Callable[[Function], Function]:
    """Record an instruction as an action, a wait or a loading. Sends and receives both block."""

    def make(original: Function) -> Function:
        def instruction(self: Any, *args: Any, **named: Any) -> Any:
            mark = None
            schedule = _under_way()
            if schedule is not None:
                try:
                    mark, microbatch, timed = _begin(name, self.stage_id, schedule)
                    on_device = marks.begin() if name in ACTIONS else -1
                except Exception as failure:
                    _patches.failed(f"{name} was not recorded", failure)
            if mark is None:
                return original(self, *args, **named)
            try:
                return original(self, *args, **named)
            finally:
                marks.end(on_device, "action", name, ("stage", self.stage_id, "microbatch", microbatch))
                if timed is not None:
                    _patches.tried("layers are not timed", timed.end)
                mark.end(microbatch=microbatch)
                if timed is not None:
                    _patches.tried("layers are not timed", timed.write)

        return instruction

    return make


def _begin(name: str, stage: int, schedule: Schedule) -> tuple[span, int, Any]:
    run, microbatch = runs.current, schedule.next(name)
    timed = run.timed if name in ACTIONS else None
    if timed is not None:
        timed.begin(name, stage, microbatch)
    mark = run.marks[name, stage]
    mark.__enter__()
    return mark, microbatch, timed


def _reduce(original: Function) -> Function:
    def reduce_grads(self: Any, *args: Any, **named: Any) -> Any:
        if _under_way() is None:
            return original(self, *args, **named)
        with span("REDUCE_GRAD", "action", None, stage=self.stage_id):
            return original(self, *args, **named)

    return reduce_grads


def _step(original: Function) -> Function:
    """A run ends where its optimizer begins, which is the last instruction."""

    def optimizer_step(self: Any, *args: Any, **named: Any) -> Any:
        if _under_way() is not None:
            _patches.tried("the end of a run was not recorded", lambda: _leave(runs.current))
        return original(self, *args, **named)

    return optimizer_step


ACTIONS = ("F", "B")
INSTRUCTIONS = {
    "ForwardPass": (_recorded("F"), "actions of kind F"),
    "BackwardPass": (_recorded("B"), "actions of kind B"),
    "RecvActivation": (_recorded("RECV_F"), "waits for activations"),
    "RecvGrad": (_recorded("RECV_B"), "waits for gradients"),
    "SendActivation": (_recorded("SEND_F"), "sends of activations"),
    "SendGrad": (_recorded("SEND_B"), "sends of gradients"),
    "LoadMicroBatch": (_recorded("LOAD"), "loadings of microbatches"),
    "ReduceGrads": (_reduce, "reductions of gradients"),
    "ReduceTiedGrads": (_reduce, "reductions of gradients of tied weights"),
    "OptimizerStep": (_step, "ends of runs"),
}
"""By the name of an instruction, how it is recorded, and what is not recorded without it."""
