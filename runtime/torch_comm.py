"""Record the communication of ``torch.distributed``.

Every collective and message of torch, from whatever layer (the public functions, DDP's reducer in C++, FSDP, DTensor,
functional collectives, compiled code), goes through an operator of the dispatcher's ``c10d`` namespace. A kernel
on the ``BackendSelect`` key, which no c10d operator uses, sees each call before its backend does and sends it on with
``redispatch_boxed``, which releases the interpreter lock while the backend works. That call is the *post* of the
operation. The wait that completes it is seen in ``Work.wait`` or ``_c10d_functional::wait_tensor``, or reconstructed
where it happens in C++ (:mod:`scalana.runtime.torch_blocked`).

What fails in here is noted in the record and switched off; the user's call itself always runs, exactly once.
"""

from __future__ import annotations

import sys

from scalana.runtime import recorder, torch_futures, torch_native
from scalana.runtime.operations import BY_NAME, BY_TORCH_OP
from scalana.runtime.torch_blocked import Post, Scope
from scalana.runtime.torch_groups import Group, address
from scalana.runtime.torch_state import (
    ANY_SOURCE,
    BLOCKING,
    FROM_CPP,
    POST,
    WAIT,
    Pending,
    recording,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WAIT_OPERATION = BY_NAME["wait"].code
_MAX_PENDING = 1 << 16

# Of several candidates the first that an operator has is what this rank puts in (or, of a scatter, gets).
_PAYLOAD = ("tensors", "input_tensors", "input_tensor", "input_list", "inputs", "input")
_PAYLOAD_OF = {"scatter_": ("output_tensors",)}
_NO_PAYLOAD = ("barrier", "monitored_barrier_")


_library: list[Any] = []  # keeps the registrations alive


def install(c10d: Any) -> None:
    """Start to record the communication of ``torch.distributed``; ``c10d`` is its module ``distributed_c10d``.

    torch must have been imported by then, to the end."""
    if _library:
        return
    torch = sys.modules["torch"]
    recording.groups.c10d = c10d
    recording.restart()
    recorder.when_started(recording.restart)
    _register_kernels(torch)
    _patch_work(c10d.Work)
    torch_futures.patch(c10d.Work, torch._C.Future, _enter_wait, _leave_wait)
    _patch_cpp_calls(sys.modules["torch.distributed"], torch._C._distributed_c10d)


# ---- the kernels ----


def _register_kernels(torch: Any) -> None:
    library = torch.library.Library("c10d", "IMPL")
    _library.append(library)
    waiting: list[torch_native.Operator] = []
    for name in _operator_names(torch, "c10d"):
        try:
            waiting += _register(torch, library, name)
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
        recording.groups.known_to_kernels = torch_native.attach(torch, recording.core, recording.groups.c10d, waiting)
    except Exception as failure:
        recording.failed("kernels in C++", failure)


def _operator_names(torch: Any, namespace: str) -> list[str]:
    prefix = namespace + "::"
    every = torch._C._dispatch_get_all_op_names()
    return sorted({name[len(prefix) :].split(".")[0] for name in every if name.startswith(prefix)})


def _register(torch: Any, library: Any, name: str) -> list[torch_native.Operator]:
    """Put our kernel in front of ``c10d::name``, if it communicates; what a kernel in C++ is to know if it may wait."""
    operator = getattr(torch.ops.c10d, name).default
    places = {argument.name: place for place, argument in enumerate(operator._schema.arguments)}
    if "process_group" not in places:
        return []
    row = BY_TORCH_OP.get(name)
    if row is None:
        recorder.note(f"torch: c10d::{name} is not in the table of operations")
    kernel = _kernel(torch, operator, name, row.code if row is not None else 0, places)
    library.impl(name, kernel, "BackendSelect", with_keyset=True)
    message = "tag" in places
    if row is None or not _has_work(operator) or name == "recv_any_source_" or not (message or "async_op" in places):
        return []
    places = {"dst": -1, "src": -1, "tag": -1, "root_rank": -1, "async_op": -1, **places}
    peer = max(places["dst"], places["src"]) if message else places["root_rank"]
    return [
        torch_native.Operator(
            name.encode(), row.code, places["process_group"], _payload_place(name, places), peer, places["tag"],
            places["async_op"], message,
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
    root_place = places.get("root_rank", -1)
    peer_place = places.get("dst", places.get("src", -1))
    tag_place = places.get("tag", -1)
    async_place = places.get("async_op", 1 << 30)
    message = "tag" in places
    any_source = name == "recv_any_source_"
    has_work = _has_work(operator)
    base_flags = ANY_SOURCE if any_source else 0
    by_name = recording.groups
    shared = recording

    def kernel(keyset: Any, *args: Any) -> Any:
        event = 0
        scope = None
        try:
            core = shared.core
            process_group = unbox_group(args[group_place])
            torch_name = process_group.group_name
            group = by_name.by_name.get(torch_name) or by_name.lookup(process_group, torch_name)
            payload = args[payload_place] if payload_place >= 0 else None
            tensor = _first_tensor(payload)
            if tensor is None or not tensor.is_meta:
                nbytes = _nbytes(payload) if tensor is not None else 0
                if message:
                    tag = args[tag_place] if tag_place < len(args) else 0
                    peer = group.world_rank(args[peer_place]) if peer_place >= 0 else -1
                    seq = 0 if any_source else group.message_number(code, peer, tag)
                else:
                    tag = 0
                    peer = group.world_rank(args[root_place]) if root_place >= 0 else -1
                    seq = group.collective_number()
                caller = frame_of().f_back
                from_api = caller is not None and caller.f_globals is api
                flags = base_flags | POST
                thread = shared.thread
                if core.waits():
                    _leave_blocking(None)  # its wait did not come
                if not has_work:
                    flags = base_flags | BLOCKING
                elif from_api and (
                    _is_blocking_message(caller, api) if message else async_place < len(args) and not args[async_place]
                ):
                    flags = base_flags | BLOCKING
                elif thread.scope is not None or graph_task() != -1:
                    scope, from_cpp = _scope_of_post(torch, graph_task(), caller)
                    if from_cpp:
                        flags |= FROM_CPP
                entered = core.now() if scope is not None else 0
                event = core.begin(code, group.id, seq, peer, tag, nbytes, flags)
        except Exception as failure:
            shared.failed(f"a call of c10d::{name} was not recorded", failure)
        if not event:
            return redispatch(keyset.remove(backend_select), *args)
        over = True
        try:
            result = redispatch(keyset.remove(backend_select), *args)
            if flags & BLOCKING and has_work:
                # Without a Work the backend has waited by itself.
                over = (result[-1] if type(result) is tuple else result) is None
        finally:
            if over:
                core.end(event)
        try:
            if not over:
                core.wait_follows(event)
                if any_source:
                    thread.any_source = (event, group)
            elif flags & POST:
                work = result[-1] if type(result) is tuple else result
                if work is not None:
                    pending = Pending(event, group, seq, peer, tag, nbytes, any_source, None)
                    results = args[result_place] if not from_api and result_place >= 0 else None
                    _posted(torch, core, work, pending, name, tensor, results, scope, entered)
        except Exception as failure:
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


def _posted(
    torch: Any,
    core: Any,
    boxed_work: Any,
    pending: Pending,
    name: str,
    tensor: Any,
    results: Any,
    scope: Scope | None,
    entered: int,
) -> None:
    """Connect a post with whatever will tell of its completion."""
    work = torch._C._distributed_c10d.Work.unbox(boxed_work)
    key = address(work)
    # torch hands out one C++ Work here and, later, to the user; the Python objects around it need not be the same, and
    # keeping one alive would keep its tensors alive.
    _remember(recording.works, key, pending)
    if results is not None:
        for result in results if isinstance(results, (list, tuple)) else (results,):
            if not isinstance(result, (list, tuple)):
                _remember(recording.storages, _storage(result), pending)
    callback: Callable[[Any], None] | None = None
    if scope is not None:
        post = pending.post = Post(pending.event, entered)
        post.exit = core.now()
        post.cpu_at_exit = core.thread_cpu()
        post.key = key
        post.pending = pending
        scope.posts.append(post)
        callback = scope.completion(post, core.done)
    # A work of a device completes, as far as the host can see, when its kernel is enqueued: that says nothing.
    if (tensor is None or tensor.is_cpu) and (name, pending.group.name) not in recording.no_future:
        try:
            future = torch_futures.future_of(work)
        except RuntimeError:  # gloo's messages have none
            recording.no_future.add((name, pending.group.name))
            return
        future.add_done_callback(callback or _completion(core.done, pending.event))


def _remember(table: dict[int, Pending], key: int, pending: Pending) -> None:
    """Enter a post by address, which overrides what was there before; the oldest are dropped if too many pile up."""
    table[key] = pending
    if len(table) > _MAX_PENDING:
        table.pop(next(iter(table)), None)


def _completion(done: Callable[[int], Any], event: int) -> Callable[[Any], None]:
    def completed(_: Any) -> None:
        try:
            done(event)
        except Exception:
            pass

    return completed


# ---- waits in Python ----


def _patch_work(work_class: Any) -> None:
    for owner in (work_class, *work_class.__subclasses__()):
        for name in ("wait", "synchronize"):
            original = vars(owner).get(name)
            if original is not None:
                setattr(owner, name, _recorded_wait(original, name))


def _recorded_wait(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    shared = recording

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        if shared.core.waits():
            try:
                return original(self, *args, **kwargs)
            finally:
                _leave_blocking(self)
        pending = None
        try:
            if shared.works:
                key = address(self)
                pending = shared.works.pop(key, None)
        except Exception as failure:
            shared.failed("a wait was not recorded", failure)
        if pending is None:
            return original(self, *args, **kwargs)
        event = _enter_wait(pending)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            shared.works[key] = pending  # it may be tried again
            raise
        finally:
            _leave_wait(event)
        if pending.any_source:
            _found_source(pending.event, pending.group, self)
        return result

    wait.__name__ = name
    wait.__qualname__ = "Work." + name
    wait.__doc__ = original.__doc__
    wait.__wrapped__ = original  # type: ignore[attr-defined]
    return wait


def _enter_wait(pending: Pending) -> int:
    try:
        if pending.post is not None:
            pending.post.waited = True
        group = pending.group
        event: int = recording.core.begin(
            _WAIT_OPERATION, group.id, pending.seq, pending.peer, pending.tag, pending.nbytes, WAIT, pending.event
        )
        return event
    except Exception as failure:
        recording.failed("a wait was not recorded", failure)
        return 0


def _leave_wait(event: int) -> None:
    if event:
        recording.core.end(event)


def _leave_blocking(work: Any) -> None:
    """The blocking call of this thread is over; ``work`` is what it waited for."""
    try:
        event = recording.core.waited()
        source, recording.thread.any_source = recording.thread.any_source, None
        if source is not None and source[0] == event and work is not None:
            _found_source(event, source[1], work)
    except Exception as failure:
        recording.failed("a blocking call was not recorded", failure)


def _found_source(event: int, group: Group, work: Any) -> None:
    try:
        recording.core.done(event, group.world_rank(work._source_rank()))
    except Exception as failure:
        recording.failed("the source of a receive is not recorded", failure)


# ---- functional collectives ----


def _storage(tensor: Any) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def _wait_tensor_kernel(torch: Any, operator: Any) -> Callable[..., Any]:
    redispatch = operator._handle.redispatch_boxed
    backend_select = torch._C.DispatchKey.BackendSelect
    shared = recording

    def kernel(keyset: Any, *args: Any) -> Any:
        pending = None
        try:
            if shared.storages:
                pending = shared.storages.pop(_storage(args[0]), None)
        except Exception as failure:
            shared.failed("a wait for a tensor was not recorded", failure)
        if pending is None:
            return redispatch(keyset.remove(backend_select), *args)
        event = _enter_wait(pending)
        try:
            return redispatch(keyset.remove(backend_select), *args)
        finally:
            _leave_wait(event)

    return kernel


# ---- waits in C++ ----


def _scope_of_post(torch: Any, task: int, caller: Any) -> tuple[Scope | None, bool]:
    """Where the waits of the post that is being made are collected, and whether C++ made it."""
    thread = recording.thread
    if thread.scope is not None:
        return thread.scope, True
    backward = thread.backward
    if backward is None or backward[0] != task:
        try:
            thread.backward = backward = (task, _scope_of_backward(torch))
        except Exception as failure:  # not every engine takes final callbacks
            recording.failed("waits of a backward pass are not recorded", failure)
            return None, False
    # In a hook written in Python, that hook is our caller; the reducer's caller is the engine, which Python entered in
    # torch.autograd, or nobody on a thread of the engine.
    from_cpp = caller is None or caller.f_globals.get("__name__", "").startswith("torch.autograd")
    return backward[1], from_cpp


def _scope_of_backward(torch: Any) -> Scope:
    """Collect posts until the backward pass of this thread is over.

    Final callbacks run in the order in which they were queued. The reducer queues its own, which waits, when its last
    bucket has been posted, so after our first one, and before the one that our first one queues. (In the first step
    with ``static_graph`` the reducer even posts in its callback; the waits of that step are not seen.)
    """
    thread = recording.thread
    scope = Scope(recording.core.now, recording.core.thread_cpu)
    queue = torch.autograd.Variable._execution_engine.queue_callback

    def graph_is_done() -> None:
        try:
            scope.mark_begin()
            queue(waited)
        except Exception as failure:
            recording.failed("waits of a backward pass are not recorded", failure)

    def waited() -> None:
        if thread.backward is not None and thread.backward[1] is scope:
            thread.backward = None
        _record_waits(scope)

    queue(graph_is_done)
    return scope


def _record_waits(scope: Scope) -> None:
    """Write the waits of ``scope`` that no Python saw."""
    try:
        core = recording.core
        for wait in scope.waits():
            pending = wait.post.pending
            group = pending.group
            core.event_at(
                _WAIT_OPERATION, group.id, pending.seq, pending.peer, pending.tag, pending.nbytes, WAIT | FROM_CPP,
                pending.event, wait.enter, wait.exit, wait.cpu_enter, wait.cpu_inside,
            )  # fmt: skip
        for post in scope.posts:
            if not post.waited and recording.works.get(post.key) is post.pending:
                del recording.works[post.key]
    except Exception as failure:
        recording.failed("waits inside C++ are not recorded", failure)


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
        thread = recording.thread
        outer = thread.scope
        scope = thread.scope = Scope(core.now, core.thread_cpu)
        scope.mark_begin()
        try:
            return original(*args, **kwargs)
        finally:
            thread.scope = outer
            if scope.posts:
                _record_waits(scope)

    call.__name__ = name
    call.__qualname__ = getattr(original, "__qualname__", name)
    call.__doc__ = original.__doc__
    call.__wrapped__ = original  # type: ignore[attr-defined]
    return call
