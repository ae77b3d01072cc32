"""Record what ``torch.compile`` compiles while the program runs, as spans of the kind ``compile``."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.record.span_kinds import COMPILE
from scalana.runtime.spans import span
from scalana.runtime.typed import Any

NAME = "torch.compile"


def record_compilation(module: Any) -> None:
    """See when a compilation begins and ends; ``module`` is ``torch._dynamo.callback``.

    What is compiled inside of another compilation belongs to that one. The attribute ``id`` is torch's: the number of
    the frame, and after a slash how often that was compiled before; an older torch tells nothing.
    """
    open_spans: list[Any] = []

    def begins(told: Any = None) -> None:
        if session.core is None:
            return
        try:
            compilation, trigger = getattr(told, "compile_id", None), getattr(told, "callback_trigger", None)
            open_spans.append(
                span.begin(NAME, COMPILE, id=_text(compilation), trigger=_text(getattr(trigger, "name", None)))
            )
        except Exception as failure:
            session.note(f"torch: a compilation is not recorded: {type(failure).__name__}: {failure}")

    def ends(_: Any = None) -> None:
        try:
            while open_spans:
                open_spans.pop().end()
        except Exception as failure:
            session.note(f"torch: a compilation is not recorded: {type(failure).__name__}: {failure}")

    module.on_compile_start(begins)
    module.on_compile_end(ends)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
