"""Trajectories of engines that generate answers side by side: coroutines of trainers, one call an answer.

Rows are those whose source was read in the release that is named; what is not there (any more) becomes a note. Tokens
are those that the framework itself counts. A call that raises has no tokens.
"""

from __future__ import annotations

import heapq
import itertools
from contextvars import ContextVar
from dataclasses import dataclass

from scalana.runtime.patching import in_place_of
from scalana.runtime.rl.marks import trajectory
from scalana.runtime.rl.prompts import number_of_prompt
from scalana.runtime.rl.wrap import absent, owner_of, quietly
from scalana.runtime.typed import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    Told = dict[str, Any]

_numbers = itertools.count()


def _argument(arguments: tuple[Any, ...], named: dict[str, Any], at: int, name: str) -> Any:
    return named[name] if name in named else arguments[at] if len(arguments) > at else None


def _areal(arguments: tuple[Any, ...], named: dict[str, Any]) -> Told:
    request = _argument(arguments, named, 1, "req")
    return {"id": request.rid, "group": number_of_prompt(request.input_ids)}


def _areal_end(answer: Any) -> Told:
    return {"tokens": answer.output_len, "prompt_tokens": answer.input_len}


def _verl(arguments: tuple[Any, ...], named: dict[str, Any]) -> Told:
    of = _argument(arguments, named, 2, "trajectory")
    name = f"{of['step']}.{of['sample_index']}.{of['rollout_n']}"
    return {"id": name, "group": f"{of['step']}.{of['sample_index']}"}


def _output(answer: Any) -> Told:
    parts = answer if isinstance(answer, list) else [answer]
    return {"tokens": sum(len(part.response_ids) for part in parts), "prompt_tokens": len(parts[0].prompt_ids)}


def _skyrl(arguments: tuple[Any, ...], named: dict[str, Any]) -> Told:
    of = _argument(arguments, named, 7, "trajectory_id")
    if of is None:
        return {"id": next(_numbers)}
    return {"id": f"{of.instance_id}.{of.repetition_id}", "group": str(of.instance_id)}


def _skyrl_end(answer: Any) -> Told:
    parts = getattr(answer, "step_outputs", None)
    if parts is None:
        return _output(answer)
    return {"tokens": sum(len(part.response_ids) for part in parts)}


def _slime(arguments: tuple[Any, ...], named: dict[str, Any]) -> Told:
    sample = _argument(arguments, named, 1, "sample")
    return {"id": sample.index, "group": sample.group_index}


def _slime_end(sample: Any) -> Told:
    return {"tokens": sample.response_length, "prompt_tokens": len(sample.tokens) - sample.response_length}


def _nemo(arguments: tuple[Any, ...], named: dict[str, Any]) -> Told:
    messages = _argument(arguments, named, 1, "sample_message_log")
    return {"id": next(_numbers), "group": number_of_prompt([message.get("content") for message in messages])}


def _nemo_end(result: Any) -> Told:
    return {"tokens": len(result[1]), "prompt_tokens": int(result[2])}


def _openrlhf(arguments: tuple[Any, ...], named: dict[str, Any]) -> Told:
    return {"id": next(_numbers), "group": number_of_prompt(_argument(arguments, named, 1, "prompt"))}


def _openrlhf_end(result: Any) -> Told:
    made = sum(end - begin for begin, end in result["action_ranges"])
    return {"tokens": made, "prompt_tokens": len(result["observation_tokens"]) - made}


@dataclass(frozen=True, slots=True)
class Answers:
    """A row of the table."""

    home: str
    """Module."""
    kind: str
    """Class, empty for a function."""
    method: str
    """Coroutine that makes an answer; empty where another row has it."""
    begins: Callable[..., Told]
    """What is known of its arguments."""
    ends: Callable[[Any], Told]
    """What is known of an answer."""
    ended_by: str = ""
    """Coroutine that is given the answer first thing when it is complete; empty where ``method`` returns it then."""


_AGENT = "openrlhf.utils.agent"
ANSWERS = (
    # AReaL 1.0.4: a request to the engine
    Answers("areal.infra.remote_inf_engine", "RemoteInfEngine", "agenerate", _areal, _areal_end),
    # verl 0.9.1: an agent loop without what comes after it, in whose midst it is scored; and the same of its v1 trainer
    Answers(
        "verl.experimental.agent_loop.agent_loop",
        "AgentLoopWorker",
        "_run_agent_loop",
        _verl,
        _output,
        "_agent_loop_postprocess",
    ),
    Answers("verl.trainer.ppo.v1.agent_loop_tq", "AgentLoopWorkerTQ", "", _verl, _output, "_agent_loop_postprocess"),
    # SkyRL 0.3.0: an agent loop
    Answers("skyrl.train.generators.skyrl_gym_generator", "SkyRLGymGenerator", "agent_loop", _skyrl, _skyrl_end),
    # slime 0.3.1, commit 624b824: a sample
    Answers("slime.rollout.sglang_rollout", "", "generate", _slime, _slime_end),
    # NeMo-RL, commit 7ea279a: a turn of a sample
    Answers("nemo_rl.experience.rollouts", "", "async_generate_response_for_sample_turn", _nemo, _nemo_end),
    # OpenRLHF 0.11.2: a sample, what scores it in the engine included
    Answers(_AGENT, "SingleTurnAgentExecutor", "execute", _openrlhf, _openrlhf_end),
    Answers(_AGENT, "MultiTurnAgentExecutor", "execute", _openrlhf, _openrlhf_end),
)


class _Lanes:
    """Numbers for what runs side by side: the smallest that is free."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._made = 0

    def take(self) -> int:
        try:
            return heapq.heappop(self._free)
        except IndexError:
            self._made += 1
            return self._made - 1

    def give_back(self, lane: int) -> None:
        heapq.heappush(self._free, lane)


_lanes = _Lanes()


class _Answer:
    """One that is being made."""

    __slots__ = ("_lane", "_mark")

    def __init__(self, told: Told) -> None:
        self._lane: int | None = _lanes.take()
        self._mark = trajectory(told.pop("id"), lane=f"slot {self._lane}", **told).begin()

    def end(self, told: Told) -> None:
        """It is complete, or will never be; said once."""
        lane, self._lane = self._lane, None
        if lane is not None:
            _lanes.give_back(lane)
            self._mark.end(**told)


_running: ContextVar[_Answer | None] = ContextVar("scalana_answer", default=None)


def mark_answers(module: Any) -> None:
    """Let the coroutines of a module mark trajectories."""
    for row in ANSWERS:
        if row.home != module.__name__:
            continue
        owner = owner_of(module, row.kind)
        wanted = [name for name in (row.method, row.ended_by) if name]
        if not all(callable(getattr(owner, name, None)) for name in wanted):
            absent(row.home, row.kind, " and ".join(wanted))
            continue
        if row.method:
            made = _coroutine(getattr(owner, row.method), row.begins, None if row.ended_by else row.ends)
            setattr(owner, row.method, made)
        if row.ended_by:
            setattr(owner, row.ended_by, _completes(getattr(owner, row.ended_by), row.ends))


def _coroutine(
    function: Callable[..., Any], begins: Callable[..., Told], ends: Callable[[Any], Told] | None
) -> Callable[..., Any]:
    @in_place_of(function)
    async def wrapper(*arguments: Any, **named: Any) -> Any:
        answer = quietly(_begin, begins, arguments, named)
        if answer is None:
            return await function(*arguments, **named)
        token = _running.set(answer)
        try:
            result = await function(*arguments, **named)
            if ends is not None:
                quietly(_end, answer, ends, result)
            return result
        finally:
            quietly(answer.end, {})
            _running.reset(token)

    return wrapper


def _begin(begins: Callable[..., Told], arguments: tuple[Any, ...], named: dict[str, Any]) -> _Answer:
    return _Answer(begins(arguments, named))


def _end(answer: _Answer, ends: Callable[[Any], Told], result: Any) -> None:
    answer.end(ends(result))


def _completes(function: Callable[..., Any], ends: Callable[[Any], Told]) -> Callable[..., Any]:
    @in_place_of(function)
    async def wrapper(self: Any, output: Any, *arguments: Any, **named: Any) -> Any:
        answer = _running.get()
        if answer is not None:
            quietly(_end, answer, ends, output)
        return await function(self, output, *arguments, **named)

    return wrapper
