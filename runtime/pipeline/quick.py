"""Functions of a library that C records (``_core/module/staged_call.c``) in runs in which nothing else has to be done.

It takes half of the time that a wrapper in Python does. That one stays for the rest: layers that are timed, marks on
devices, overlapped pairs, evaluations, arguments that came by their names.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.chosen_steps import is_chosen
from scalana.runtime.device import marks
from scalana.runtime.typed import Any, Callable, Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scalana.runtime.pipeline.runs import Run

    Maker = Callable[[Function], Function]

ACTIONS = ("F", "B", "W")


class Quick:
    """All such functions of one library."""

    def __init__(self) -> None:
        self._calls: list[tuple[str, Any]] = []
        """With the kind of action or message that each is; "" for any message."""

    def action(self, name: str, make: Maker, **options: Any) -> Maker:
        """Of methods of a stage that are told the microbatch."""
        return self._maker("action", name, make, options)

    def operations(self, name: str, make: Maker, failed: Callable[[BaseException], None]) -> Maker:
        """Of methods of a stage that make messages of a kind."""
        return self._maker("operations", name, make, {"name": name, "failed": failed})

    def batch(self, make: Maker, works: type) -> Maker:
        """Of a function that posts messages."""
        return self._maker("batch", "", make, {"works": works})

    def wait(self, make: Maker, works: type) -> Maker:
        """Of a function that waits for what was posted."""
        return self._maker("wait", "", make, {"works": works})

    def _maker(self, way: str, name: str, make: Maker, options: dict[str, Any]) -> Maker:
        def made(original: Function) -> Function:
            slow = make(original)
            try:
                from scalana.runtime._core import StagedCall
            except ImportError:  # then nothing is recorded
                return slow
            call = StagedCall(way, original, slow, **options)
            self._calls.append((name, call))
            return call

        return made

    def begin(self, run: Run) -> None:
        """Let C record a run, as far as that is all."""
        held = tuple(run.marks.chunk)
        slow = run.timed is not None
        slow = slow or (marks.pool() is not None and is_chosen(session.core.current_step()))
        for name, call in self._calls:
            call.spans = call.others = None
            if not name:
                call.spans = {}
            elif name not in ACTIONS:
                call.spans = {stage: (run.posts[name, stage], run.marks[name, stage]) for stage in held}
            elif not slow and (run.trains or name == "F") and not (run.pairs and name == "F"):
                call.spans = {stage: run.marks[name, stage] for stage in held}
                call.others = {stage: run.marks["I", stage] for stage in held}

    def end(self) -> None:
        """The run is over. One that it was within is recorded in Python."""
        for _, call in self._calls:
            call.spans = call.others = None
