"""Phases from the timers that trainers set in their own code: one row each, and a begin and an end that are wrapped.

Rows are those whose source was read in the release that is named; a class or method that is not there (any more)
becomes a note in the record. What a phase means is told by its name, after the job.
"""

from __future__ import annotations

from scalana.runtime.rl.wrap import absent, around, owner_of
from scalana.runtime.spans import span
from scalana.runtime.typed import Any

TIMERS = (
    # TRL 1.16.0
    ("trl.extras.profiling", "ProfilingContext", "__enter__", "__exit__", "self.name", "trl"),
    # what verl 0.9.1 times by (marked_timer, simple_timer), as do ROLL (commit 8eb27cc2) and others
    ("codetiming", "Timer", "start", "stop", "self.name", ""),
    # SkyRL 0.3.0
    ("skyrl.train.utils.utils", "Timer", "__enter__", "__exit__", "self.message", "skyrl"),
    # NeMo-RL, commit 7ea279a; its time() is these two
    ("nemo_rl.utils.timer", "Timer", "start", "stop", "label", "nemo-rl"),
    # slime 0.3.1, commit 624b824, and the place before
    ("slime.observability.timer", "Timer", "start", "end", "name", "slime"),
    ("slime.utils.timer", "Timer", "start", "end", "name", "slime"),
    # RLinf 0.3.0; its ScopedTimer is made of these
    ("rlinf.utils.timers", "NamedTimer", "start", "stop", "name", "rlinf"),
)
"""Module; class; methods that begin and end a phase; where its name is: an attribute of the object, or the argument of
both, which is their first; framework, if it is of one alone."""


_MARKED = "scalana_marks"


def mark_timers(module: Any) -> None:
    """Let the timers of a module mark phases."""
    for home, name, begin, end, key, framework in TIMERS:
        if home != module.__name__:
            continue
        kind = owner_of(module, name)
        if not all(callable(getattr(kind, method, None)) for method in (begin, end)):
            absent(home, name, f"{begin} and {end}")
            continue
        wrap_timer(kind, begin, end, key, framework)


def wrap_timer(kind: type, begin: str, end: str, key: str, framework: str) -> None:
    """Record a phase from each call of a method of a class to the next one of another, on the same object, and with
    the same name where that is an argument."""
    if hasattr(getattr(kind, begin), _MARKED):  # one class under two names
        return
    running: dict[tuple[int, str], list[Any]] = {}
    _, of_object, attribute = key.partition("self.")
    marks = {"framework": framework} if framework else {}

    def name_of(arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
        if of_object:
            return str(getattr(arguments[0], attribute, "") or "")
        return str(arguments[1] if len(arguments) > 1 else named.get(key, ""))

    def begins(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if name := name_of(arguments, named):
            timer = id(arguments[0]), "" if of_object else name
            running.setdefault(timer, []).append(span.begin(name, "phase", **marks))

    def ends(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        timer = id(arguments[0]), "" if of_object else name_of(arguments, named)
        if open_ones := running.get(timer):
            open_ones.pop().end()
            if not open_ones:
                del running[timer]

    setattr(kind, begin, around(getattr(kind, begin), after=begins))
    setattr(getattr(kind, begin), _MARKED, True)
    setattr(kind, end, around(getattr(kind, end), before=ends))
