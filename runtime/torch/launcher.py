"""torchrun's agent, which starts the ranks."""

from __future__ import annotations

from scalana.runtime import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def launcher_imported(module: Any) -> None:
    """Only what launches imports ``torch.distributed.launcher.api``."""
    session.become_launcher()
