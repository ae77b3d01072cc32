"""Times what is pickled for other processes and unpickled from them: spans of the type ``serialisation``, with bytes.

Pools and queues do it in threads of their own, or in the loops of their workers, where no line of the program is on the
call path. A span there has the id of what is handed over (``call``), by which the line is found afterwards. Such a
thread takes what it pickles, and hands the pickle on, under the same id: who waits for it waits for that thread.

What takes less than a moment is not recorded.
"""

from __future__ import annotations

from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Callable, Moment

ARGUMENTS, RESULT, MESSAGE, OBJECT, COLLECTIVE = "arguments", "result", "message", "object", "collective"
"""What is handed over; the second word of a span's name, behind ``pickle`` or ``unpickle``."""
LONG_NS = 300_000
"""What takes less is no cause: pools need as long for a task."""
KIND = "serialisation"
_own = _local()
"""Of this thread: ``next``, what it pickles next (:class:`Next`); ``loaded``: what it unpickled last, if that took
long; ``since``: when it was done with what it handed on last."""


class Next:
    """What a thread pickles next.

    Args:
        what: that is: arguments of a call, its result, or a message.
        call: an id of the call that hands it over, by which its line is found.
        given: the id under which this thread gives it to others, 0 where it does so itself.
        taken: the id under which it was given it, 0 for none.
        then: is called when it is pickled, before it is sent.
    """

    __slots__ = ("call", "given", "taken", "then", "what")

    def __init__(
        self, what: str, call: int, given: int = 0, taken: int = 0, then: Callable[[], None] | None = None
    ) -> None:
        self.what, self.call, self.given, self.taken, self.then = what, call, given, taken, then


def expect(what: Next) -> None:
    """What this thread pickles next."""
    _own.next = what


def left() -> Next | None:
    """What it has not pickled after all; it is expected no more."""
    what: Next | None = _own.__dict__.pop("next", None)
    return what


def dump(pickle: Callable[[], Any], what: Next | None = None) -> Any:
    """Pickle something; ``what`` that is, if it is not what was expected."""
    what = what or left()
    since = calls.moment()
    data = pickle()
    until = calls.moment()
    if since is not None and until is not None:
        try:
            if until[0] - since[0] >= LONG_NS:
                _dumped(what, since, until, len(data))
            if what is not None and what.then is not None:
                what.then()
        except Exception as failure:
            session.pass_on(failure)
            session.note(f"serialisation: {failure!r}")
    return data


def load(unpickle: Callable[[], Any], nbytes: int) -> Any:
    """Unpickle something that came from another process."""
    since = calls.moment()
    result = unpickle()
    until = calls.moment()
    if since is not None and until is not None and until[0] - since[0] >= LONG_NS:
        _own.loaded = since, until, nbytes
    return result


def around_dumps(dumps: Callable[..., Any], what: str, size: Callable[[Any], int] = len) -> Callable[..., Any]:
    """The same function, which pickles at the line that calls it; ``size`` of what it returns are the bytes."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        since = calls.moment()
        data = dumps(*args, **kwargs)
        _note(f"pickle {what}", since, lambda: size(data))
        return data

    return recorded


def around_loads(loads: Callable[..., Any], what: str, size: Callable[[Any], int] = len) -> Callable[..., Any]:
    """The same for one that unpickles its first argument."""

    def recorded(data: Any, *args: Any, **kwargs: Any) -> Any:
        since = calls.moment()
        result = loads(data, *args, **kwargs)
        _note(f"unpickle {what}", since, lambda: size(data))
        return result

    return recorded


def _note(name: str, since: Moment | None, size: Callable[[], int]) -> None:
    until = calls.moment()
    if since is not None and until is not None and until[0] - since[0] >= LONG_NS:
        try:
            _span(name, since, until, size(), 0)
        except Exception as failure:
            session.pass_on(failure)
            session.note(f"serialisation: {failure!r}")


def patch_mpi4py(module: Any) -> None:
    """See what lower-case methods pickle; ``module`` is ``mpi4py.MPI``. A program that chooses another pickler does so
    later, and that one is not seen."""
    own = module.pickle
    dumps, loads = _pickle_functions()
    own.__init__(
        around_dumps(dumps, OBJECT), around_loads(loads, OBJECT), protocol=own.PROTOCOL, threshold=own.THRESHOLD
    )


def patch_torch(module: Any) -> None:
    """See what collectives of objects pickle; ``module`` is torch's ``distributed_c10d``."""
    patches = Patches("torch.distributed")

    def around(make: Callable[..., Any], size: Callable[[Any], int]) -> Callable[[Any], Any]:
        return lambda original: make(original, COLLECTIVE, size)

    recorded = "how long objects take to pickle"
    patches.wrap(module, "_object_to_tensor", around(around_dumps, lambda made: int(made[0].numel())), recorded)
    patches.wrap(module, "_tensor_to_object", around(around_loads, lambda given: int(given.numel())), recorded)


def _pickle_functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Those of the standard library."""
    import pickle

    return pickle.dumps, pickle.loads


def begin_load() -> None:
    """This thread begins to wait for something that it unpickles then."""
    _own.loaded = None


def loading_since() -> Moment | None:
    """When what this thread waited for was there, if it took long to unpickle it then."""
    loaded = getattr(_own, "loaded", None)
    return loaded[0] if loaded is not None else None


def loaded(what: str, call: int = 0, given: int = 0, taken: int = 0) -> None:
    """What this thread unpickled last is :data:`ARGUMENTS` and the like that were handed over by a call, by which the
    line is found (0: it is on the path of this thread).

    ``given`` is the id under which others wait for what is unpickled, ``taken`` that under which this thread was given
    it; 0 for none.
    """
    last = getattr(_own, "loaded", None)
    _own.loaded = None
    if last is None or session.core is None:
        return
    since, until, nbytes = last
    _span(f"unpickle {what}", since, until, nbytes, call)
    if given:
        _hand_on(taken, given, since, until, nbytes)


def _dumped(what: Next | None, since: Moment, until: Moment, nbytes: int) -> None:
    if what is None:
        _span(f"pickle {MESSAGE}", since, until, nbytes, 0)
        return
    _span(f"pickle {what.what}", since, until, nbytes, what.call)
    if what.given:
        _hand_on(what.taken, what.given, since, until, nbytes)


def _hand_on(taken: int, call: int, since: Moment, until: Moment, nbytes: int) -> None:
    idle: Moment = getattr(_own, "since", None) or since
    if taken:
        calls.expected(taken, [(idle, since)])
    calls.was_put(call, nbytes, until)
    _own.since = until


def _span(name: str, since: Moment, until: Moment, nbytes: int, call: int) -> None:
    core = session.core
    if core is None:
        return
    attributes: list[int] = [core.intern("bytes"), nbytes]
    if call:
        attributes += [core.intern("call"), call]
    core.span(
        core.span_types.index(KIND), 0, core.intern(name), since[0], until[0], max(until[1] - since[1], 0), 0,
        tuple(attributes),
    )  # fmt: skip


def _forget() -> None:
    """A process was forked: what its thread did before was another one's."""
    _own.__dict__.clear()


session.when_started(_forget)
