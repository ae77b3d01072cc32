"""Phases and trajectories of a reinforcement-learning loop, public as ``scalana.rl``.

They are spans of the kinds ``phase`` and ``trajectory`` (``docs/spans.md``); what they mean is told after the job.
"""

from __future__ import annotations

from scalana.runtime.spans import span
from scalana.runtime.typed import Any, TracebackType

__all__ = ["phase", "trajectory", "weights"]


def phase(name: str, role: str | None = None, **attributes: Any) -> span:
    """A part of a step that all processes know: ``with scalana.rl.phase("rollout"): ...``, or a decorator.

    Args:
        name: What it is: ``rollout``, ``reward``, ``log_prob``, ``update`` ... (``docs/rl-recording.md`` lists
            them; a phase of another name is kept as it is called).
        role: What the process is in it, where one process is several things: ``trainer``, ``rollout``, ``verifier``.
        attributes: ``tokens``: what this process works on in it, where its trajectories do not tell.
    """
    return span(name, kind="phase", role=role, **attributes)


def weights(version: int | None = None, **attributes: Any) -> span:
    """The phase in which new weights come to where trajectories are generated; ``bytes`` may be an attribute."""
    return span("weight_sync", kind="phase", version=version, **attributes)


class trajectory:  # noqa: N801 - it is used like span
    """One answer, from its first token to its last.

    ``with trajectory(17, group=3, prompt_tokens=90) as t: ...; t.know(tokens=812)``, or where no ``with`` can stand
    ``t = trajectory(17).begin()`` and ``t.end(tokens=812)``.
    """

    __slots__ = ("_attributes", "_handle", "_lane")

    def __init__(
        self,
        id: Any,
        *,
        group: Any = None,
        prompt_tokens: int | None = None,
        tokens: int | None = None,
        lane: Any = None,
        **attributes: Any,
    ) -> None:
        """Describe it.

        Args:
            id: Its name in the report.
            group: Its prompt: answers to one prompt are a group.
            prompt_tokens: Length of the prompt.
            tokens: Tokens generated, if known already.
            lane: What such spans follow each other on: a slot of an engine.
            attributes: ``batch``: answers of one batch whose generation ends together, with the longest.
        """
        self._attributes = {"id": id, "group": group, "prompt_tokens": prompt_tokens, "tokens": tokens, **attributes}
        self._lane = lane
        self._handle: Any = None

    def begin(self) -> trajectory:
        """Its generation begins."""
        self._handle = span.begin("trajectory", "trajectory", lane=self._lane, **self._attributes)
        self._attributes = {}
        return self

    def know(self, **attributes: Any) -> None:
        """What is known of it by now: ``tokens``, ``finished`` ..."""
        self._attributes.update(attributes)

    def end(self, **attributes: Any) -> None:
        """Its generation has ended."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.end(**{**self._attributes, **attributes})

    def __enter__(self) -> trajectory:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()
