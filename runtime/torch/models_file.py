"""What is written of models beside the record, for the front end to read after the job.

::

    {"models": [{"root": class of the model, "modules": [{"name", "class", "file", "line", "end_line"}]}],
     "frames": [[file, line, function]],
     "graphs": [{"nodes": [{"op", "frames": [row of frames], "modules": [[qualified name, class]], "shape", "dtype"}]}]}

Of a module the file and lines are those of its ``forward``.
"""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.record import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

models: list[dict[str, Any]] = []
graphs: list[dict[str, Any]] = []
_frames: dict[tuple[str, int, str], int] = {}


def frame(file: str, line: int, function: str) -> int:
    """The row of a frame, which is added where it is new."""
    return _frames.setdefault((file, line, function), len(_frames))


def write() -> None:
    """Write all that is known so far, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    import json

    if session.core is not None:
        content = {"models": models, "frames": list(_frames), "graphs": graphs}
        layout.write_text(layout.models_file(session.record_path), json.dumps(content))


def _new_record() -> None:
    """Graphs stay what they are in a new record (they are compiled once); modules are told again when they are met."""
    models.clear()


session.when_started(_new_record)
