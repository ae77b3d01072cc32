"""Times requests to the process of a Manager of :mod:`multiprocessing`: spans of the type ``serialisation``.

A request takes tens of microseconds, so that a span is for many of them that come one after another: it says how many,
and how long they take together. Requests in which one may wait (queues, events) are no such requests, but messages and
signals of :mod:`scalana.runtime.remote.managers.waits`.
"""

from __future__ import annotations

from _thread import _local

from scalana.runtime import session
from scalana.runtime.patching import Patches
from scalana.runtime.record.span_kinds import REQUESTS
from scalana.runtime.remote import calls, pickles
from scalana.runtime.remote.managers import waits
from scalana.runtime.typed import Any, Moment

STRETCH_NS = 5_000_000
"""What the requests of one span take together, at least, where as many come."""
_patches = Patches("multiprocessing")
_own = _local()
"""``stretch``: requests of this thread without a span yet."""
_methods: set[str] = set()
"""Methods of proxies that this process has called. Their code is made from text: its record says by this what it is."""


class Stretch:
    """Requests of a thread that come one after another."""

    __slots__ = ("busy_ns", "count", "cpu_ns", "since", "until")

    def __init__(self, since: Moment) -> None:
        self.since = self.until = since
        self.busy_ns = self.cpu_ns = self.count = 0

    def add(self, since: Moment, until: Moment) -> None:
        """One more."""
        self.busy_ns += until[0] - since[0]
        self.cpu_ns += max(until[1] - since[1], 0)
        self.count += 1
        self.until = until

    def ends_before(self, since: Moment) -> bool:
        """Whether a request that begins then belongs to another stretch: more than half of this one would be something
        else."""
        return since[0] - self.since[0] > 2 * self.busy_ns


def patch(module: Any) -> None:
    """See requests of proxies; ``module`` is ``multiprocessing.managers``."""
    _patches.surround(module.BaseProxy, "_callmethod", _begin, _answered, "requests to a Manager")
    _patches.surround(module.Server, "serve_client", waits.serve, waits.served, "messages of a Manager's queues")


def _begin(arguments: tuple[Any, ...]) -> Moment | waits.Request | None:
    if session.core is None:
        return None
    try:
        proxy, method, *args = arguments
        if method not in _methods:
            _methods.add(method)
            session.core.meta(f"proxy {method}", "1")
        roles = waits.roles_of(type(proxy))
        if roles.waits:
            given, by_name = (args[0] if args else ()), (args[1] if len(args) > 1 else {})
            return waits.Request(roles, proxy, method, given, by_name)
    except Exception as failure:
        _patches.failed("requests to a Manager", failure)
        return None
    return calls.moment()


def _answered(
    state: Moment | waits.Request | None,
    arguments: tuple[Any, ...],
    result: Any,
    failure: type[BaseException] | None,
) -> None:
    until = calls.moment()
    if state is None or until is None:
        return
    try:
        if isinstance(state, waits.Request):
            state.answered(result, failure is not None)
        else:
            _requested(state, until)
    except Exception as unexpected:
        _patches.failed("requests to a Manager", unexpected)


def _requested(since: Moment, until: Moment) -> None:
    stretch: Stretch | None = getattr(_own, "stretch", None)
    if stretch is None or stretch.ends_before(since):
        stretch = _own.stretch = Stretch(since)
    stretch.add(since, until)
    if stretch.busy_ns >= STRETCH_NS:
        _own.stretch = None
        _write(stretch)


def _write(stretch: Stretch) -> None:
    core = session.core
    if core is None:
        return
    attributes = (core.intern("requests"), stretch.count, core.intern("busy_ns"), stretch.busy_ns)
    core.span(
        core.span_types.index(pickles.KIND), 0, core.intern(f"pickle {REQUESTS}"), stretch.since[0], stretch.until[0],
        stretch.cpu_ns, 0, attributes,
    )  # fmt: skip


def _forget() -> None:
    """A process was forked: what its thread did before was another one's."""
    _own.__dict__.clear()
    _methods.clear()


session.when_started(_forget)
