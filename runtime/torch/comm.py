"""Record the communication of ``torch.distributed``.

Every collective and message of torch, from whatever layer (the public functions, DDP's reducer in C++, FSDP, DTensor,
functional collectives, compiled code), goes through an operator of the dispatcher's ``c10d`` namespace. A kernel
on the ``BackendSelect`` key, which no c10d operator uses, sees each call before its backend does and sends it on with
``redispatch_boxed``, which releases the interpreter lock while the backend works. That call is the *post* of the
operation. The wait that completes it is seen in ``Work.wait`` or ``_c10d_functional::wait_tensor``, or reconstructed
where it happens in C++ (``_core/torch/posts.h``). Where kernels in C++ have been compiled
(:mod:`scalana.runtime.torch.native`), they stand in front of these and leave to them what they do not know.

What fails in here is noted in the record and switched off; the user's call itself always runs, exactly once.
"""

from __future__ import annotations

import sys

from scalana.runtime import session
from scalana.runtime.device import marks
from scalana.runtime.device.collectives import collectives, watch_waits
from scalana.runtime.operations import BY_TORCH_OP
from scalana.runtime.torch import futures as torch_futures
from scalana.runtime.torch import native as torch_native
from scalana.runtime.torch.state import recording
from scalana.runtime.typed import Any, Callable

_MESSAGE, _ANY_SOURCE, _HAS_WORK, _WAITS, _FROM_CPP = 1, 2, 4, 8, 16
"""Bits of a call for ``_core.torch_enter``."""

# Of several candidates the first that an operator has is what this rank puts in (or, of a scatter, gets).
_PAYLOAD = ("tensors", "input_tensors", "input_tensor", "input_list", "inputs", "input")
_PAYLOAD_OF = {"scatter_": ("output_tensors",)}
_NO_PAYLOAD = ("barrier", "monitored_barrier_")
_FROM_ANYBODY = "recv_any_source_"


_library: list[Any] = []  # keeps the registrations alive


def install(c10d: Any) -> None:
    """Start to record the communication of ``torch.distributed``; ``c10d`` is its module ``distributed_c10d``.

    torch must have been imported by then, to the end."""
    if _library:
        return
    torch = sys.modules["torch"]
    recording.groups.c10d = c10d
    recording.restart()
    session.when_started(recording.restart)
    _register_kernels(torch)
    _patch_work(c10d.Work)
    torch_futures.patch(c10d.Work, torch._C.Future)
    watch_waits(c10d.Work)
    # Kernels in C++ know nothing of marks on devices: where there are some, those in Python see all calls.
    marks.when_found(torch_native.detach)
    _patch_cpp_calls(sys.modules["torch.distributed"], torch._C._distributed_c10d)


# ---- the kernels ----


def _register_kernels(torch: Any) -> None:
    library = torch.library.Library("c10d", "IMPL")
    _library.append(library)
    operators: list[torch_native.Operator] = []
    for name in _operator_names(torch, "c10d"):
        try:
            operators += _register(torch, library, name)
        except Exception as failure:
            recording.failed(f"operator c10d::{name} is not recorded", failure)
    try:
        functional = torch.library.Library("_c10d_functional", "IMPL")
        _library.append(functional)
        kernel = _wait_tensor_kernel(torch, torch.ops._c10d_functional.wait_tensor.default)
        functional.impl("wait_tensor", kernel, "BackendSelect", with_keyset=True)
    except Exception as failure:
        recording.failed("waits of functional collectives are not recorded", failure)
    try:
        torch_native.attach(torch, recording.core, recording.groups.c10d, operators)
    except Exception as failure:
        recording.failed("kernels in C++", failure)


def _operator_names(torch: Any, namespace: str) -> list[str]:
    prefix = namespace + "::"
    every = torch._C._dispatch_get_all_op_names()
    return sorted({name[len(prefix) :].split(".")[0] for name in every if name.startswith(prefix)})


def _register(torch: Any, library: Any, name: str) -> list[torch_native.Operator]:
    """Put our kernel in front of ``c10d::name``, if it communicates; what a kernel in C++ is to know of it."""
    operator = getattr(torch.ops.c10d, name).default
    places = {argument.name: place for place, argument in enumerate(operator._schema.arguments)}
    if "process_group" not in places:
        return []
    row = BY_TORCH_OP.get(name)
    if row is None:
        session.note(f"torch: c10d::{name} is not in the table of operations")
    kernel = _kernel(torch, operator, name, row.code if row is not None else 0, places)
    library.impl(name, kernel, "BackendSelect", with_keyset=True)
    if row is None:
        return []
    message = "tag" in places
    payload = _payload_place(name, places)
    peer = max(places.get("dst", -1), places.get("src", -1)) if message else places.get("root_rank", -1)
    return [
        torch_native.Operator(
            f"c10d::{name}".encode(), row.code, places["process_group"], payload, _result_place(places, payload), peer,
            places.get("tag", -1), places.get("async_op", -1), message, name == _FROM_ANYBODY, _has_work(operator),
        )
    ]  # fmt: skip


def _has_work(operator: Any) -> bool:
    return any("Work" in str(result.type) for result in operator._schema.returns)


def _payload_place(name: str, places: dict[str, int]) -> int:
    if name in _NO_PAYLOAD:
        return -1
    for argument in _PAYLOAD_OF.get(name, _PAYLOAD):
        if argument in places:
            return places[argument]
    return -1


def _nbytes(payload: Any) -> int:
    """Bytes of a tensor, or of a list, or of a list of lists of tensors."""
    if isinstance(payload, (list, tuple)):
        total = 0
        for part in payload:
            total += _nbytes(part) if isinstance(part, (list, tuple)) else part.nbytes
        return total
    return int(payload.nbytes)


def _first_tensor(payload: Any) -> Any:
    while isinstance(payload, (list, tuple)):
        if not payload:
            return None
        payload = payload[0]
    return payload


def _kernel(torch: Any, operator: Any, name: str, code: int, places: dict[str, int]) -> Callable[..., Any]:
    """The kernel of one c10d operator. Everything that does not depend on the call is worked out here."""
    redispatch = operator._handle.redispatch_boxed
    backend_select = torch._C.DispatchKey.BackendSelect
    unbox_group = torch._C._distributed_c10d.ProcessGroup.unbox
    graph_task = torch._C._current_graph_task_id
    frame_of = sys._getframe
    api = vars(recording.groups.c10d)
    group_place = places["process_group"]
    payload_place = _payload_place(name, places)
    result_place = _result_place(places, payload_place)
    peer_place = places.get("dst", places.get("src", -1)) if "tag" in places else places.get("root_rank", -1)
    tag_place = places.get("tag", 1 << 30)
    async_place = places.get("async_op", 1 << 30)
    message = "tag" in places
    has_work = _has_work(operator)
    base_bits = message * _MESSAGE | (name == _FROM_ANYBODY) * _ANY_SOURCE | has_work * _HAS_WORK
    shared = recording

    def kernel(keyset: Any, *args: Any) -> Any:
        event = 0
        try:
            payload = args[payload_place] if payload_place >= 0 else None
            tensor = _first_tensor(payload)
            if tensor is None or not tensor.is_meta:
                core = shared.core
                nbytes = _nbytes(payload) if tensor is not None else 0
                caller = frame_of().f_back
                from_api = caller is not None and caller.f_globals is api
                bits = base_bits
                task = -1
                if from_api and (
                    _is_blocking_message(caller, api) if message else async_place < len(args) and not args[async_place]
                ):
                    bits |= _WAITS
                elif has_work:
                    task = graph_task()
                    if task != -1:
                        _look_after_backward(torch, task)
                        bits |= _is_engine(caller) * _FROM_CPP
                process_group = unbox_group(args[group_place])
                peer = args[peer_place] if peer_place >= 0 else -1
                tag = args[tag_place] if tag_place < len(args) else 0
                event = core.torch_enter(process_group, code, bits, peer, tag, nbytes, task)
                if not event and shared.groups.learn(process_group):
                    event = core.torch_enter(process_group, code, bits, peer, tag, nbytes, task)
        except Exception as failure:
            shared.failed(f"a call of c10d::{name} was not recorded", failure)
        if not event:
            return redispatch(keyset.remove(backend_select), *args)
        on_device = collectives.coming(event, code) if tensor is not None and marks.holds(tensor) else None
        try:
            result = redispatch(keyset.remove(backend_select), *args)
        except BaseException:
            core.torch_leave(event, False)
            raise
        try:
            work = (result[-1] if type(result) is tuple else result) if has_work else None
            if on_device is not None:
                if not message:
                    collectives.number(on_device, process_group, tensor)
                unboxed = torch._C._distributed_c10d.Work.unbox(work) if work is not None else None
                collectives.launched(on_device, unboxed, waits=bool(bits & _WAITS))
            if work is None or bits & _WAITS:
                # Without a Work the backend has waited by itself.
                core.torch_leave(event, work is not None)
            else:
                results = args[result_place] if not from_api and result_place >= 0 else None
                _posted(torch, core, event, work, results, tensor is None or not marks.holds(tensor))
        except Exception as failure:
            core.torch_leave(event, False)
            shared.failed(f"the completion of a call of c10d::{name} is not recorded", failure)
        return result

    return kernel


def _result_place(places: dict[str, int], payload_place: int) -> int:
    """Argument with the tensors by which ``wait_tensor`` will know the operation."""
    for argument in ("output_tensors", "output_tensor", "outputs", "output"):
        if argument in places:
            return places[argument]
    return payload_place


def _is_blocking_message(caller: Any, api: dict[str, Any]) -> bool:
    """Whether the caller is ``send`` or ``recv`` of the public API, or ``isend`` or ``irecv`` called by those."""
    for _ in range(3):
        if caller is None:
            return False
        if caller.f_code.co_name in ("send", "recv"):
            return caller.f_globals is api
        caller = caller.f_back
    return False


def _posted(torch: Any, core: Any, event: int, boxed_work: Any, results: Any, on_host: bool) -> None:
    """Connect a post with whatever will tell of its completion."""
    work = torch._C._distributed_c10d.Work.unbox(boxed_work)
    # torch hands out one C++ Work here and, later, to the user; the Python objects around it need not be the same, and
    # keeping one alive would keep its tensors alive.
    has_future = core.torch_posted(event, work)
    if results is not None:
        for result in results if isinstance(results, (list, tuple)) else (results,):
            if not isinstance(result, (list, tuple)):
                core.torch_posted_result(event, _storage(result))
    # A work of a device completes, as far as the host can see, when its kernel is enqueued: that says nothing.
    if has_future and on_host:
        try:
            future = torch_futures.future_of(work)
        except RuntimeError:  # gloo's messages have none
            core.torch_without_future(event)
            return
        future.add_done_callback(_completion(core.torch_completed, event))


def _completion(completed: Callable[[int], Any], event: int) -> Callable[[Any], None]:
    def done(_: Any) -> None:
        try:
            completed(event)
        except Exception:
            pass

    return done


# ---- waits in Python ----


def _patch_work(work_class: Any) -> None:
    for owner in (work_class, *work_class.__subclasses__()):
        for name in ("wait", "synchronize"):
            original = vars(owner).get(name)
            if original is not None:
                setattr(owner, name, recording.core.torch_recorded_wait(original, owner.__name__, name))


# ---- functional collectives ----


def _storage(tensor: Any) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def _wait_tensor_kernel(torch: Any, operator: Any) -> Callable[..., Any]:
    redispatch = operator._handle.redispatch_boxed
    backend_select = torch._C.DispatchKey.BackendSelect
    shared = recording

    def kernel(keyset: Any, *args: Any) -> Any:
        event = 0
        try:
            event = shared.core.torch_wait_for_storage(_storage(args[0]))
        except Exception as failure:
            shared.failed("a wait for a tensor was not recorded", failure)
        try:
            return redispatch(keyset.remove(backend_select), *args)
        finally:
            if event:
                shared.core.torch_leave(event, False)

    return kernel


# ---- waits in C++ ----


def _is_engine(caller: Any) -> bool:
    """Whether a call during a backward pass is one of C++.

    In a hook written in Python, that hook is our caller; the reducer's caller is the engine, which Python entered in
    torch.autograd, or nobody on a thread of the engine."""
    return caller is None or caller.f_globals.get("__name__", "").startswith("torch.autograd")


def _look_after_backward(torch: Any, task: int) -> None:
    """Collect posts until the backward pass of this thread is over.

    Final callbacks run in the order in which they were queued. The reducer queues its own, which waits, when its last
    bucket has been posted, so after our first one, and before the one that our first one queues. In the first step of a
    static graph it posts and waits within one final callback, where no node of the graph is at work.
    """
    core = recording.core
    node = getattr(torch._C, "_current_autograd_node", None)
    scope = core.torch_open_scope(task, node is not None and node() is None)
    if not scope:
        return
    queue = torch.autograd.Variable._execution_engine.queue_callback

    def graph_is_done() -> None:
        try:
            core.torch_begin_scope(scope)
            queue(waited)
        except Exception as failure:
            core.torch_drop_scope(scope)
            recording.failed("waits of a backward pass are not recorded", failure)

    def waited() -> None:
        core.torch_close_scope(scope)

    try:
        queue(graph_is_done)
    except Exception as failure:  # not every engine takes final callbacks
        core.torch_drop_scope(scope)
        recording.failed("waits of a backward pass are not recorded", failure)


def _patch_cpp_calls(distributed: Any, bindings: Any) -> None:
    """Functions of C++ that post and wait within one call."""
    for owner, name in (
        (distributed, "_broadcast_coalesced"),
        (distributed, "_verify_params_across_processes"),
        (getattr(bindings, "Reducer", None), "_rebuild_buckets"),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _recorded_cpp_call(original, name))


def _recorded_cpp_call(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        core = recording.core
        outer = core.torch_enter_cxx()
        try:
            return original(*args, **kwargs)
        finally:
            core.torch_leave_cxx(outer)

    call.__name__ = name
    call.__qualname__ = getattr(original, "__qualname__", name)
    call.__doc__ = original.__doc__
    call.__wrapped__ = original  # type: ignore[attr-defined]
    return call
