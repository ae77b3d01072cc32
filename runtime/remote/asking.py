"""Records that somebody asks whether something is there, and it is not: who asks until it is waits for it.

A program may look at results, processes and queues over and over, with a sleep in between, rather than wait for them.
What it looks at is not always what it waits for next: it may go on when the last of several is there. So the end of
each such wait is recorded where an answer says that it is there.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.remote import calls
from scalana.runtime.typed import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.patching import Patches

    Ids = Callable[[Any], tuple[int, ...]]

_ASKED = "_scalana_asked"
"""What an object has that somebody has asked in vain."""


def _no_ids(owner: Any) -> tuple[int, ...]:
    """Whoever gets a message of a queue says which."""
    return ()


def see(patches: Patches, owner: Any, name: str, in_vain: bool, recorded: str, ids: Ids = _no_ids) -> None:
    """See calls of ``owner.name``, which returns ``in_vain`` if what it asks for is not there. ``ids`` says of an
    object by which ids that is known, none where it has not been handed over by a recorded call."""

    def leave(state: None, arguments: tuple[Any, ...], result: Any, failure: type[BaseException] | None) -> None:
        if session.core is None or failure is not None:
            return
        asked = arguments[0].__dict__
        if result is in_vain:
            asked[_ASKED] = session.record_path
            calls.asked()
        elif asked.pop(_ASKED, "") == session.record_path:
            patches.tried("the end of a wait was not recorded", lambda: _is_there(ids(arguments[0])))

    patches.surround(owner, name, lambda arguments: None, leave, recorded)


def _is_there(ids: tuple[int, ...]) -> None:
    """What somebody has asked for in vain is there."""
    if ids:
        calls.asked()
        calls.got(calls.wait(ids[0]), *ids)
