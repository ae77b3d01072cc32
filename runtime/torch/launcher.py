"""torchrun's agent, which starts the ranks."""

from __future__ import annotations

from scalana.runtime import session
from scalana.runtime.typed import Any


def launcher_imported(module: Any) -> None:
    """Only what launches imports ``torch.distributed.launcher.api``."""
    session.become_launcher()
