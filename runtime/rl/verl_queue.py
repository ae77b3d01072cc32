"""Who waits for answers in verl's queue (``trainer.use_v1``, read in release 0.9.1).

Its trainer asks over and over which prompts are answered, and sleeps in between. That is waiting for the prompt that is
answered next, by whichever process: both know it by one name.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.patching import in_place_of
from scalana.runtime.remote import calls
from scalana.runtime.rl.wrap import absent, quietly
from scalana.runtime.typed import Any, Callable, Function, Moment

_AGENT, _ANSWER = "AgentLoopWorkerTQ", "_run_prompt"
_BUFFER, _POLL, _LOOK = "ReplayBuffer", "_wait_for_next_poll", "_sync_metadata_from_transfer_queue"
_MOST_POLLS = 1000
"""Polls that are told with the prompt that is answered in the end."""


def record_answers(module: Any) -> None:
    """Tell when prompts are answered; ``module`` is ``verl.trainer.ppo.v1.agent_loop_tq``."""
    _wrap(module, _AGENT, _ANSWER, _answers)


def record_polls(module: Any) -> None:
    """Tell what was waited for them; ``module`` is ``verl.trainer.ppo.v1.replay_buffer``."""
    _wrap(module, _BUFFER, _POLL, _polls)
    _wrap(module, _BUFFER, _LOOK, _looks)


def _wrap(module: Any, kind: str, method: str, make: Callable[[Function], Function]) -> None:
    owner = getattr(module, kind, None)
    function = getattr(owner, method, None)
    if callable(function):
        setattr(owner, method, make(function))
    else:
        absent(module.__name__, kind, method)


def _id_of(prompt: str) -> int:
    return calls.id_of(f"verl:{prompt}".encode())


def _answers(function: Function) -> Function:
    @in_place_of(function)
    async def answers(self: Any, *arguments: Any, **named: Any) -> Any:
        name = quietly(lambda: str((arguments[0] if arguments else named["prompt"])["uid"]))
        try:
            return await function(self, *arguments, **named)
        finally:
            if name:
                calls.put(_id_of(name))

    return answers


def _polls(function: Function) -> Function:
    @in_place_of(function)
    def polls(self: Any, *arguments: Any, **named: Any) -> Any:
        since = calls.moment()
        try:
            return function(self, *arguments, **named)
        finally:
            until = calls.moment()
            if since is not None and until is not None:
                quietly(_keep, self, since, until)

    return polls


def _keep(buffer: Any, since: Moment, until: Moment) -> None:
    polls = buffer.__dict__.setdefault("_scalana_polls", [])
    polls.append((since, until, session.record_path, calls.own_path()))
    del polls[:-_MOST_POLLS]


def _looks(function: Function) -> Function:
    @in_place_of(function)
    def looks(self: Any, *arguments: Any, **named: Any) -> Any:
        before = quietly(_answered, self)
        result = function(self, *arguments, **named)
        if before is not None:
            quietly(_tell, self, before)
        return result

    return looks


def _answered(buffer: Any) -> set[str]:
    """The prompts that a buffer knows to be answered, or to have failed."""
    return {str(key) for keys in (buffer.finished_keys, buffer.failure_keys) for some in keys.values() for key in some}


def _tell(buffer: Any, before: set[str]) -> None:
    """A buffer has looked: if more is answered than before, this is what was waited for since."""
    polls = buffer.__dict__.get("_scalana_polls")
    if not polls:
        return
    more = _answered(buffer) - before
    if not more:
        return
    for since, until, record, path in polls:
        if record == session.record_path:
            calls.expected(_id_of(min(more)), ((since, until),), path)
    polls.clear()
