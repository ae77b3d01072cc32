"""Record the pipelines of Megatron-core: 1F1B and interleaved 1F1B.

Its schedules are functions that call ``forward_step``, ``backward_step`` and ``P2PCommunicator._communicate`` by their
names in the module, where wrappers take their place. A backward is told neither its microbatch nor its chunk: it is
known by the output of the forward that it is of. A message is told nothing at all: it is known by who is handed the
tensor that it brought.
"""

from __future__ import annotations

import sys
import weakref

from scalana.runtime import session
from scalana.runtime.device import marks
from scalana.runtime.patching import Patches
from scalana.runtime.pipeline.layer_marks import layer_marks
from scalana.runtime.pipeline.layers import Layers, layers_in
from scalana.runtime.pipeline.runs import Plan, Run, runs
from scalana.runtime.spans import span
from scalana.runtime.typed import Any, Callable, Function

_patches = Patches("megatron.core.pipeline_parallel")


class Schedule:
    """Stands for a schedule, which has no object of its own: one for each model and function."""

    def __init__(self, size: int, place: int) -> None:
        self.size, self.place = size, place
        self.outputs: dict[int, tuple[int, int]] = {}
        """Stage and microbatch whose forward gave an object."""
        self.gradients: dict[int, tuple[int, int]] = {}
        """Stage and microbatch whose backward gave an object, until it is sent."""
        self.received: dict[int, tuple[int, int, int]] = {}
        """When the wait for a tensor began and ended, ns, and how many messages were sent in it."""
        self.posted = 0
        """When all messages of a batch were posted, ns; 0 where that was not seen."""

    def forget(self) -> None:
        """A run is over: its objects are gone."""
        self.outputs.clear()
        self.gradients.clear()
        self.received.clear()


_schedules: weakref.WeakKeyDictionary[Any, dict[str, Schedule]] = weakref.WeakKeyDictionary()
"""By the first chunk of a model on this rank, and the name of the schedule."""


def patch_schedules(module: Any) -> None:
    """Wrap what schedules are and what they call; ``module`` is ``megatron.core.pipeline_parallel.schedules``."""
    wrap = _patches.wrap
    wrap(module, "forward_backward_pipelining_without_interleaving", _run("1F1B"), "runs of 1F1B")
    wrap(module, "forward_backward_pipelining_with_interleaving", _run("Interleaved1F1B"), "runs of interleaved 1F1B")
    wrap(module, "forward_step", _forward, "actions of kind F")
    wrap(module, "backward_step", _backward, "actions of kind B")


def patch_messages(module: Any) -> None:
    """Wrap the sending and receiving; ``module`` is ``megatron.core.pipeline_parallel.p2p_communication``."""
    owner = getattr(module, "P2PCommunicator", None)
    if owner is None:
        session.note(f"{_patches.library}: P2PCommunicator not found: waits for messages are not recorded")
    else:
        _patches.wrap(owner, "_communicate", _communicate, "waits for messages")
        _patches.wrap(module, "_p2p_ops", _post, "posts of messages")
        _patches.wrap(module, "_batched_p2p_ops", _post, "posts of batches of messages")


def patch_gradients(module: Any) -> None:
    """Wrap the reduction of gradients; ``module`` is ``megatron.core.distributed.finalize_model_grads``."""
    _patches.wrap(module, "finalize_model_grads", _finalize, "reductions of gradients")


# ---- runs ----


def _run(name: str) -> Callable[[Function], Function]:
    def make(original: Function) -> Function:
        def run(*args: Any, **named: Any) -> Any:
            current = _enter(name, named) if session.core is not None else None
            if current is None:
                return original(*args, **named)
            try:
                return original(*args, **named)
            finally:
                _patches.tried("the end of a run was not recorded", lambda: _leave(current))

        return run

    return make


def _enter(name: str, named: dict[str, Any]) -> Run | None:
    try:
        chunks = named["model"] if isinstance(named["model"], list) else [named["model"]]
        distributed = sys.modules["torch.distributed"].distributed_c10d
        group = _group(named)
        ranks = tuple(int(rank) for rank in distributed.get_process_group_ranks(group))
        of_model = _schedules.setdefault(chunks[0], {})
        schedule = of_model.get(name)
        if schedule is None:
            size, place = len(ranks), distributed.get_rank(group)
            schedule = of_model[name] = Schedule(size, place)
            held = [chunk * size + place for chunk in range(len(chunks))]
            plan = Plan((), {stage: chunk for chunk, stage in enumerate(held)}, list(ranks))
            plan.attributes.update(
                engine="megatron", schedule=name, stages=size * len(chunks), held=",".join(map(str, held))
            )
            runs.learn(schedule, plan)
        known = runs.plan(schedule)
        assert known is not None
        known.attributes["microbatches"] = named.get("num_microbatches")
        run = runs.enter(schedule, known, not named.get("forward_only", False))
        _patches.tried("layers are not timed", lambda: _time_layers(run, chunks))
        return run
    except Exception as failure:
        _patches.failed("a run of a schedule was not recorded", failure)
        return None


def _time_layers(run: Run, chunks: list[Any]) -> None:
    if layer_marks.wants(run):
        run.timed = Layers(layers_in(chunks), run)


def _leave(run: Run) -> None:
    if run.timed is not None:
        run.timed.detach()
    run.schedule.forget()
    runs.leave(run)


def _group(named: dict[str, Any]) -> Any:
    communicator, collection = named.get("p2p_communicator"), named.get("pg_collection")
    if communicator is not None:
        return communicator.pp_group
    if collection is not None and getattr(collection, "pp", None) is not None:
        return collection.pp
    return sys.modules["megatron.core.parallel_state"].get_pipeline_model_parallel_group()


# ---- actions ----


def _one(tensors: Any) -> Any:
    return tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors


class Action:
    """One that is under way: its span, and the mark on the device where it began, -1 for none."""

    __slots__ = ("kind", "mark", "microbatch", "on_device", "stage")

    def __init__(self, mark: span, kind: str, stage: int, microbatch: int) -> None:
        self.mark, self.kind, self.stage, self.microbatch = mark, kind, stage, microbatch
        self.on_device = marks.begin()


def _begin(kind: str, stage: int, microbatch: int, needed: Any) -> Action:
    """An action begins, and with it is known what the wait for its input was for."""
    run = runs.current
    schedule: Schedule = run.schedule
    wait = schedule.received.pop(id(_one(needed)), None)
    if wait is not None:
        began, ended, sends = wait
        _write("wait", "RECV_F" if kind == "F" else "RECV_B", (stage, microbatch), began, ended, sends)
    if run.timed is not None:
        run.timed.begin(kind, stage, microbatch)
    mark = run.marks[kind, stage]
    mark.__enter__()
    return Action(mark, kind, stage, microbatch)


def _end(action: Action) -> None:
    told = "stage", action.stage, "microbatch", action.microbatch
    marks.end(action.on_device, "action", action.kind, told)
    timed = runs.current.timed
    if timed is not None:
        _patches.tried("layers are not timed", timed.end)
    action.mark.end(microbatch=action.microbatch)
    if timed is not None:
        _patches.tried("layers are not timed", timed.write)


def _forward(original: Function) -> Function:
    def forward_step(*args: Any, **named: Any) -> Any:
        action = None
        schedule = runs.current.schedule
        if session.core is not None and isinstance(schedule, Schedule):
            try:
                needed = named.get("input_tensor", args[4] if len(args) > 4 else None)
                microbatch = named["current_microbatch"]
                stage = (named.get("vp_stage") or 0) * schedule.size + schedule.place
                action = _begin("F", stage, microbatch, needed)
            except Exception as failure:
                _patches.failed("an action of kind F was not recorded", failure)
        if action is None:
            return original(*args, **named)
        try:
            result = original(*args, **named)
            schedule.outputs[id(_one(_one(result)))] = (stage, microbatch)
            return result
        finally:
            _end(action)

    return forward_step


def _backward(original: Function) -> Function:
    def backward_step(*args: Any, **named: Any) -> Any:
        action = None
        schedule = runs.current.schedule
        if session.core is not None and isinstance(schedule, Schedule):
            try:
                output = named.get("output_tensor", args[1] if len(args) > 1 else None)
                needed = named.get("output_tensor_grad", args[2] if len(args) > 2 else None)
                stage, microbatch = schedule.outputs.pop(id(_one(output)))
                action = _begin("B", stage, microbatch, needed)
            except Exception as failure:
                _patches.failed("an action of kind B was not recorded", failure)
        if action is None:
            return original(*args, **named)
        try:
            result = original(*args, **named)
            schedule.gradients[id(_one(result))] = (stage, microbatch)
            return result
        finally:
            _end(action)

    return backward_step


def _finalize(original: Function) -> Function:
    def finalize_model_grads(*args: Any, **named: Any) -> Any:
        schedule = runs.current.schedule
        if session.core is None or not isinstance(schedule, Schedule):
            return original(*args, **named)
        with span("REDUCE_GRAD", "action", None, stage=schedule.place):
            return original(*args, **named)

    return finalize_model_grads


# ---- messages ----


def _write(kind: str, name: str, of: tuple[int, int], begin: int, end: int, sends: int = 0) -> None:
    """A wait for a message, or the call that posts it: ``of`` is the stage and microbatch that it is for."""
    core = session.core
    attributes = [core.intern("stage"), of[0], core.intern("microbatch"), of[1]]
    if sends:
        attributes += [core.intern("sends"), sends]
    core.span(core.span_types.index(kind), 0, core.intern(name), begin, end, -1, 0, tuple(attributes))


def _post(original: Function) -> Function:
    """What comes before is the host's, and what comes after is waiting."""

    def post(*args: Any, **named: Any) -> Any:
        result = original(*args, **named)
        schedule = runs.current.schedule
        if session.core is not None and isinstance(schedule, Schedule):
            schedule.posted = session.core.now()
        return result

    return post


def _communicate(original: Function) -> Function:
    def communicate(self: Any, *args: Any, **named: Any) -> Any:
        core, schedule = session.core, runs.current.schedule
        if core is None or not isinstance(schedule, Schedule):
            return original(self, *args, **named)
        schedule.posted = 0
        began = core.now()
        result = original(self, *args, **named)
        ended = core.now()
        try:
            if _tells_shapes(self):
                schedule.posted = 0  # what comes before is waiting, too
            _communicated(schedule, named, result, began, ended)
        except Exception as failure:
            _patches.failed("a wait for a message was not recorded", failure)
        return result

    return communicate


def _tells_shapes(communicator: Any) -> bool:
    """Whether shapes are sent before the messages, and waited for."""
    config = communicator.config
    return bool(config.variable_seq_lengths or getattr(config, "mtp_standalone", False))


class Request:
    """Stands for a request that is waited for later, and records that wait."""

    __slots__ = ("_tell", "_work")

    def __init__(self, work: Any, tell: Callable[[int, int], None]) -> None:
        self._work, self._tell = work, tell

    def wait(self, *args: Any, **named: Any) -> Any:
        """Wait as the request does."""
        core = session.core
        if core is None:
            return self._work.wait(*args, **named)
        began = core.now()
        result = self._work.wait(*args, **named)
        ended = core.now()
        _patches.tried("a wait for a message was not recorded", lambda: self._tell(began, ended))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


SENDS = (("SEND_F", "tensor_send_next", "send_next"), ("SEND_B", "tensor_send_prev", "send_prev"))
RECEIVES = ("recv_prev", "recv_next")
"""Kinds of message, the arguments that have what is sent, and the requests."""


def _communicated(schedule: Schedule, named: dict[str, Any], result: Any, began: int, ended: int) -> None:
    sent = {}
    for (name, key, _), known in zip(SENDS, (schedule.outputs, schedule.gradients), strict=True):
        of = known.get(id(named[key])) if named[key] is not None else None
        if of is not None:
            sent[name] = of
    schedule.gradients.clear()
    waits = schedule.posted or began
    if schedule.posted:
        for name, of in sent.items():
            _write("transfer", name, of, began, waits)
    if not named.get("wait_on_reqs", True):
        _watch(schedule, result, sent)
        return
    received = [tensor for tensor in result[:2] if tensor is not None]
    for tensor in received:
        schedule.received[id(tensor)] = (waits, ended, len(sent))
    if sent and not received:
        name, of = next(iter(sent.items()))
        _write("wait", name, of, waits, ended)


def _watch(schedule: Schedule, result: Any, sent: dict[str, tuple[int, int]]) -> None:
    """Record the waits for requests, which come later."""
    requests = result[2]
    if not isinstance(requests, dict):
        session.note(f"{_patches.library}: waits for messages that overlap with computing are not recorded")
        return
    for name, _, request in SENDS:
        if name in sent and request in requests:
            requests[request] = Request(requests[request], _sending(name, sent[name]))
    for tensor, request in zip(result[:2], RECEIVES, strict=True):
        if tensor is not None and request in requests:
            requests[request] = Request(requests[request], _receiving(schedule, id(tensor)))


def _sending(name: str, of: tuple[int, int]) -> Callable[[int, int], None]:
    return lambda began, ended: _write("wait", name, of, began, ended)


def _receiving(schedule: Schedule, tensor: int) -> Callable[[int, int], None]:
    def tell(began: int, ended: int) -> None:
        schedule.received[tensor] = (began, ended, 0)

    return tell
