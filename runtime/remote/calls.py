"""Remote calls as communication: what one process hands to another, under an id that both know.

======  ====================  =================================================================
side    function              what happens
======  ====================  =================================================================
caller  :func:`submit`        hands a call over
callee  :func:`idle`,         waits until there is a call for it, and has one;
        :func:`take`          :func:`took` where only the end of that is seen
callee  :func:`reply`         has done it, and handed the result over
caller  :func:`wait`,         waits for results, and has some
        :func:`got`
caller  :func:`asked_in_vain` asks whether results are there,
        :func:`got_by_asking` and at last has some
any     :func:`put`           puts a message into a queue, or an object where others find it
any     :func:`expect`,       waits for a message, and has it;
        :func:`message`;      asks for one, and goes on
        :func:`asked`
any     :func:`expect_data`,  waits for data that others make, and has some
        :func:`got`
any     :func:`blocked`       has waited for room in a queue, until there was
        :func:`gave_room`     some
======  ====================  =================================================================

Each is an event of an operation of the same name, and no more than that: who waited for whom is found afterwards, by
the ids. An id is unique in the run, at least 1 and below 2**63. What is given once may be taken by several, and several
results may be waited for at once.

Nothing here raises, and nothing happens while the process is not recorded.
"""

from __future__ import annotations

import os
from _thread import _local
from itertools import count

from scalana.runtime import session
from scalana.runtime.operations import BY_NAME, IN_VAIN
from scalana.runtime.remote import part
from scalana.runtime.typed import Iterable

_SUBMIT, _TAKE, _REPLY, _RESULT, _PUT, _GET, _BLOCKED_PUT, _NEXT_BATCH, _TEST = (
    BY_NAME[name].code
    for name in ("submit", "take", "reply", "result", "put", "get", "blocked_put", "next_batch", "test")
)
_BLOCKING, _POST = 1, 2
"""Flags of events."""
_POSTS = (_SUBMIT, _PUT)
"""Operations that nobody is held up by."""
_LARGEST = (1 << 63) - 1
_FLUSH_NS = 20_000_000
_SHORT_NS = 100_000
"""Who puts something into a queue for less than this has found room there."""
_AGAIN_NS = 10_000_000
"""Who asks again within this has done nothing else in between."""
_GOLDEN, _OTHER = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F

_token: list[int] = []
_count = count(1)
"""What ids are made of that this process gives: a number that others do not have, and how many there were."""
_callees: dict[tuple[str, int], int] = {}
_MOST_CALLEES = 1000
"""Processes that this one calls: by the record in which they have a number."""
_idle = _local()
"""``since``: when this thread had done its last call, and its CPU clock then."""
_asking = _local()
"""``since``: when this thread began to ask for results in vain, and its CPU clock then; ``last``: when it did last, in
ns."""


def id_of(data: bytes) -> int:
    """An id for something that both sides have a name for, or a number that is unique in the run."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return mixed(value, 0)


def mixed(base: int, number: int, piece: int = 0) -> int:
    """An id for the so manieth of what has an id itself, or for one part of that."""
    value = base ^ (number * _GOLDEN + piece * _OTHER)
    value = (value ^ value >> 29) * _GOLDEN
    return (value ^ value >> 32) & _LARGEST or 1


def submit(call: int, nbytes: int = 0) -> None:
    """This process hands a call over."""
    _hand(_SUBMIT, call, nbytes)


def submitted(call: int, at: tuple[int, int], takes_part: bool = True, to: int = 0) -> None:
    """It has done so at a moment that :func:`moment` told; ``takes_part``: and takes part in the run by that.

    ``to`` is the number of the one process that can take it, of :func:`callee`, where it is known before it does.
    """
    _event(_SUBMIT, call, (at, at), tag=to, takes_part=takes_part)


def callee(made: int) -> int:
    """The number in this record of a process that knows itself by ``made`` (``session.made_as``)."""
    known = session.record_path, made
    number = _callees.get(known, 0)
    if not number and session.core is not None and len(_callees) < _MOST_CALLEES:
        number = _callees[known] = len(_callees) + 1
        session.core.meta(f"callee {number}", str(made))
    return number


def reply(call: int, nbytes: int = 0, rests: bool = True, takes_part: bool = True) -> None:
    """A call is done, and its result is handed over; ``rests``: this thread has no other one under way."""
    _hand(_REPLY, call, nbytes, takes_part)
    if rests:
        rest()


def rest() -> None:
    """This thread has nothing to do until it begins with a call."""
    at = moment()
    if at is not None:
        _idle.since = at


def put(message_id: int, nbytes: int = 0) -> None:
    """A message is handed over."""
    _hand(_PUT, message_id, nbytes)


def was_put(message_id: int, nbytes: int, at: tuple[int, int]) -> None:
    """It was, at a moment that :func:`moment` told."""
    _event(_PUT, message_id, (at, at), nbytes=nbytes)


def idle(closed: int = 0) -> int:
    """This thread begins to wait for a call; ``closed`` is what it has waited for if there never comes one."""
    handle = _begin(_TAKE, closed)
    if handle:
        flush()
    return handle


def take(handle: int, *ids: int) -> None:
    """What :func:`idle` began is over: there is a call, of which it is not known by which of some ids it was handed
    over; or none."""
    _end(handle, ids)


def took_before(handle: int, since: tuple[int, int] | None, until: tuple[int, int] | None, *ids: int) -> None:
    """What :func:`idle` began at a moment was over at another one, if that is known: what came was unpickled then."""
    _end_before(_TAKE, handle, since, until, ids)


def took(call: int, *others: int, takes_part: bool = True) -> None:
    """This thread begins with a call; it was idle since it had done the last one, if it did one before.

    ``others`` are what else had to be there: results of other calls.
    """
    core = session.core
    if core is not None:
        now = moment()
        if now is not None:
            since = getattr(_idle, "since", None) or now
            _idle.since = None  # what it submits and waits for now is no part of being idle
            for one in (call, *others):
                _event(_TAKE, one, (since, now), takes_part=takes_part)


def started(call: int, at: tuple[int, int]) -> None:
    """This process started another one, at a moment that :func:`moment` told."""
    _start(_SUBMIT, call, _POST, at)


def began(call: int, name: str) -> None:
    """This process began because another one started it, as a process of some name."""
    _start(_TAKE, call, _BLOCKING, session.began_at, name)


def begun(call: int) -> None:
    """This process began because a call was to be done, if that had been handed over by then."""
    _event(_TAKE, call, (session.began_at, session.began_at))


def ended(call: int) -> None:
    """This process has done what it was started for."""
    _hand(_REPLY, call, 0, takes_part=False)


def join(call: int) -> int:
    """This thread begins to wait until a process has done what it was started for."""
    return _begin(_RESULT, call, takes_part=False)


def _start(operation: int, call: int, flags: int, at: tuple[int, int], name: str = "") -> None:
    if session.core is not None:
        try:
            part.start((operation, 0, call, -1, 0, 0, flags, 0, at[0], at[0], at[1], 0), name)
        except Exception as failure:
            _failed(failure)


def wait(for_id: int = 0, server: int = 0) -> int:
    """This thread begins to wait for results; ``for_id`` is one of them, if it is known which.

    ``server`` is the number of a server in this record that may be none of the run: its name is told if so.
    """
    return _begin(_RESULT, for_id, takes_part=not server, server=server)


def got(handle: int, *ids: int) -> None:
    """What :func:`wait` began is over, and the results with these ids are there; or none, and the wait is forgotten.

    Of a wait that was given up after some time, the ids may be told that it was for.
    """
    _end(handle, ids)


def asked_in_vain(handle: int, began: tuple[int, int] | None) -> bool:
    """Whether what :func:`wait` began at a moment was no wait, as none of the results was there, and that is known at
    once. Who asks again and again, and does nothing else in between, waits from the first time on."""
    now = moment()
    if began is None or now is None or now[0] - began[0] > _AGAIN_NS:
        return False
    _end(handle, ())
    if not _asks_again(began):
        _asking.since = began
    _asking.last = now[0]
    return True


def got_by_asking(handle: int, began: tuple[int, int] | None, *ids: int) -> None:
    """What :func:`wait` began at a moment is over, as :func:`got`; before, this thread may have asked in vain."""
    if began is None or not _asks_again(began):
        _asking.since = None
        got(handle, *ids)
        return
    _end(handle, ())
    since, now = _asking.since, moment()
    _asking.since = None
    if now is not None:
        for one in ids:
            _event(_RESULT, one, (since, now))


def _asks_again(at: tuple[int, int]) -> bool:
    """Whether this thread has asked in vain right before a moment, and had no call since."""
    return getattr(_asking, "since", None) is not None and at[0] - _asking.last <= _AGAIN_NS


def waited(call: int, since: tuple[int, int], until: tuple[int, int], path: int = 0, server: int = 0) -> None:
    """This thread has waited for a result, from and to moments that :func:`moment` told; ``path`` leads to where it did
    (:func:`own_path`), if that is not here; ``server`` is as for :func:`wait`."""
    _event(_RESULT, call, (since, until), path, tag=server, takes_part=not server)


def expect(closed: int = 0) -> int:
    """This thread begins to wait for a message; ``closed`` is what it has waited for if there never comes one."""
    return _begin(_GET, closed)


def message(handle: int, message_id: int, *others: int) -> None:
    """What :func:`expect` began is over: there is a message, or none (0). ``others`` are other ids that it may have."""
    _end(handle, (message_id, *others) if message_id else ())


def message_before(handle: int, since: tuple[int, int] | None, until: tuple[int, int] | None, message_id: int) -> None:
    """The same of what :func:`expect` began."""
    _end_before(_GET, handle, since, until, (message_id,) if message_id else ())


def asked() -> None:
    """This thread asks whether a message is there, and does not wait for it. Who asks until there is one waits, too."""
    core = session.core
    if core is not None:
        try:
            core.asked(_TEST)
        except Exception as failure:
            _failed(failure)


def expect_data() -> int:
    """This thread begins to wait for data that calls of others make."""
    return _begin(_NEXT_BATCH, 0)


def gave_room(queue_id: int, at: tuple[int, int] | None) -> None:
    """This thread took something out of a queue that was full, at a moment that :func:`moment` told."""
    if at is not None:
        _event(_PUT, queue_id, (at, at))


def blocked(queue_id: int, since: tuple[int, int] | None) -> None:
    """This thread has waited until now for room in a queue."""
    now = moment()
    if since is not None and now is not None and now[0] - since[0] >= _SHORT_NS:
        _event(_BLOCKED_PUT, queue_id, (since, now))


def expected(
    message_id: int,
    times: Iterable[tuple[tuple[int, int], tuple[int, int]]],
    path: int = 0,
    in_vain: bool = False,
) -> None:
    """This thread has waited for a message before, at times from and to which :func:`moment` told, and went on.

    ``path`` leads to where it did, if that is not here; ``in_vain``: the message had not been put by then, though
    others of the same id may have been.
    """
    if session.core is not None:
        for since, until in times:
            _event(_GET, message_id, (since, until), path, tag=IN_VAIN if in_vain else 0)


def moment() -> tuple[int, int] | None:
    """Now, and the CPU clock of this thread, in ns; None while nothing is recorded."""
    core = session.core
    try:
        return None if core is None else core.moment()
    except Exception as failure:
        session.pass_on(failure)
        return None


def own_path() -> int:
    """The call path of this thread, of use as long as this is recorded (``session.record_path``); 0 for none."""
    core = session.core
    try:
        return 0 if core is None else int(core.own_path())
    except Exception as failure:
        session.pass_on(failure)
        return 0


def _failed(failure: Exception) -> None:
    session.pass_on(failure)
    session.note(f"remote calls: {failure!r}")


def flush(after_ns: int = _FLUSH_NS) -> None:
    """Write what is pending, or have it written soon, if that was done last a moment ago: pools end their workers by a
    signal that leaves no time for it."""
    core = session.core
    if core is None:
        return
    try:
        core.flush(after_ns)
    except Exception as failure:
        _failed(failure)


def _hand(operation: int, call: int, nbytes: int, takes_part: bool = True) -> None:
    core = session.core
    if core is not None:
        _asking.since = None
        try:
            if takes_part and part.member_of[0] != session.record_path:
                part.take()
            core.hand(operation, call, nbytes)
        except Exception as failure:
            _failed(failure)


def _begin(operation: int, call: int, takes_part: bool = True, server: int = 0) -> int:
    core = session.core
    if core is None:
        return 0
    try:
        if takes_part and part.member_of[0] != session.record_path:
            part.take()
        handle: int = core.begin(operation, 0, call, -1, server, 0, _BLOCKING)
        return handle
    except Exception as failure:
        _failed(failure)
        return 0


def _end(handle: int, ids: tuple[int, ...]) -> None:
    core = session.core
    if handle and core is not None:
        if ids:
            _asking.since = None
        try:
            core.end_as(handle, *ids)
        except Exception as failure:
            _failed(failure)


def _end_before(
    operation: int,
    handle: int,
    since: tuple[int, int] | None,
    until: tuple[int, int] | None,
    ids: tuple[int, ...],
) -> None:
    if since is None or until is None or not ids:
        _end(handle, ids)
        return
    _end(handle, ())
    for one in ids:
        _event(operation, one, (since, until))


def _event(
    operation: int,
    call: int,
    times: tuple[tuple[int, int], tuple[int, int]],
    path: int = 0,
    nbytes: int = 0,
    tag: int = 0,
    takes_part: bool = True,
) -> None:
    core = session.core
    if core is None:
        return
    _asking.since = None
    try:
        if takes_part and part.member_of[0] != session.record_path:
            part.take()
        begin, end = times
        flags = _POST if operation in _POSTS else _BLOCKING
        at = (begin[0], end[0], begin[1], max(end[1] - begin[1], 0))
        core.event_at(operation, 0, call, -1, tag, nbytes, flags, 0, *at, *((path,) if path else ()))
    except Exception as failure:
        _failed(failure)


def new_id() -> int:
    """An id that nobody else has: of this process, which others are to be told."""
    if not _token:
        _token.append(int.from_bytes(os.urandom(8), "little"))
    # Steps of an odd number come back to where they began after all 2**63 others.
    return (_token[0] + next(_count) * _GOLDEN) & _LARGEST or new_id()


def _forget() -> None:
    """A process was forked: what this thread did before it was another one's, and so are ids."""
    _idle.since = _asking.since = None
    _token.clear()
    _callees.clear()


session.when_started(_forget)
