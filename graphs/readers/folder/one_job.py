"""Whether run folders hold parts of one job: its ranks met, or one ``scalana run`` started them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalana.runtime.record import layout
from scalana.runtime.record.format import RecordError


def require_one_job(folders: Sequence[Path]) -> None:
    """Make sure that several folders hold parts of one job.

    Raises:
        RecordError: one has nothing in common with the others; the message names it.
    """
    left = [(folder, _identities(folder)) for folder in folders]
    _, known = left.pop(0)
    while left:
        joined = next((number for number, (_, own) in enumerate(left) if own & known), None)
        if joined is None:
            break
        known |= left.pop(joined)[1]
    if not left:
        return
    others = ", ".join(str(folder) for folder in folders if folder not in {folder for folder, _ in left})
    folder, own = left[0]
    if own and known:
        raise RecordError(
            f"{folder}: another job than {others}: their ranks never met; report each by itself, or leave {folder} out"
        )
    raise RecordError(
        f"{folder}: nothing shows that it belongs to the job of {others}: its ranks made no process group, or an older "
        "scalana recorded them; copy the records of all folders into one folder if you are sure"
    )


def _identities(folder: Path) -> set[str]:
    """What a folder has in common with others of its job alone."""
    came = [Path(layout.start_folder(folder, name)) for name in layout.start_names(folder)]
    found = {world for one in [folder, *came] for world in layout.worlds(one)}
    token = _token(layout.job_file(folder))
    return found | ({token} if token else set())


def _token(file: str) -> str:
    try:
        said: Any = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(said.get("token", "")) if isinstance(said, dict) else ""
