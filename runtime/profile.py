"""The recording itself, begun and ended by a program: ``scalana.profile``."""

from __future__ import annotations

from scalana.runtime import recorder, session
from scalana.runtime.record import layout
from scalana.runtime.spans import region
from scalana.runtime.typed import Any, TracebackType


class profile:
    """Record this process into ``run_folder`` while the context is active.

    Where ``scalana run`` records the process already, the context is a region of that recording. Raises ``OSError``
    if the run folder cannot be made; any other failure is told in the run folder, and the program goes on.

    :param run_folder: folder of the run, the same for all ranks; made if it is missing.
    :param rate_hz: samples per second and thread.
    :param budget_bytes: largest size of this process' record.
    """

    def __init__(
        self,
        run_folder: Any,
        *,
        rate_hz: float = layout.DEFAULT_RATE_HZ,
        budget_bytes: int = layout.DEFAULT_BUDGET_BYTES,
    ) -> None:
        import os

        self.run_folder = os.path.abspath(os.fspath(run_folder))
        self.rate_hz = rate_hz
        self.budget_bytes = budget_bytes
        self._own = False
        self._region = region("profile")

    def __enter__(self) -> profile:

        if not session.active():
            layout.make_records(self.run_folder)
            self._own = recorder.start(self.run_folder, self.rate_hz, self.budget_bytes)
        if session.core is not None:
            session.core.begin_steps()
        self._region.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._region.__exit__(kind, value, traceback)
        if self._own:
            self._own = False
            recorder.stop(0 if kind is None else 1)
