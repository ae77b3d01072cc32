"""Runs compilers, and ends them where nobody waits for them any more."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence

from scalana.runtime.mpi.kept import BuildError

_SECONDS = 120


class Compilers:
    """Compilers that run side by side; :meth:`stop` ends all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, command: Sequence[str], work: str) -> str:
        """What a compiler prints. What it needs for itself it writes into the folder ``work``.

        Raises:
            BuildError: it cannot be started, fails, takes too long or was stopped.
        """
        clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        try:
            with self._lock:
                if self._stopped:
                    raise BuildError(f"{command[0]}: interrupted")
                # A group of its own: an mpicc starts a gcc, that starts others, and all of them have to go together.
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**clean, "TMPDIR": work},
                    start_new_session=True,
                )
                self._running.add(process)
            try:
                output, errors = process.communicate(timeout=_SECONDS)
            finally:
                with self._lock:
                    self._running.discard(process)
                    _end(process)
        except (OSError, subprocess.SubprocessError) as error:
            raise BuildError(f"{command[0]}: {error}") from error
        if process.returncode:
            said = [line.strip() for line in errors.splitlines() if re.search(r"\w", line)]
            lines = [line for line in said if "error" in line] or said
            raise BuildError(f"{os.path.basename(command[0])}: {lines[0] if lines else 'failed'}")
        return output

    def stop(self) -> None:
        """End those that run, and start no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a compiler and all that it has started, if it still runs."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
