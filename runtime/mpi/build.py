"""Compiles the native recorder for the MPI at hand.

``python -m scalana.runtime.mpi.build FOLDER MPICC MPICC`` compiles what a wheel brings instead, by the ``mpicc`` of an
Open MPI and that of an MPICH.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scalana.runtime import user_cache
from scalana.runtime.mpi import generate, prebuilt, slots
from scalana.runtime.mpi.kept import CORE, HERE, BuildError, Kept, version

_SHARED = (
    "base/checksum",
    "base/intern",
    "base/memory",
    "record/block",
    "record/spans",
    "record/writer",
    "recorder/calls",
    "recorder/definitions",
    "recorder/lock",
    "recorder/recorder",
    "recorder/sockets",
    "recorder/spans",
    "recorder/state",
    "recorder/thinning",
    "sampler/look",
    "sampler/moments",
    "sampler/passes",
    "sampler/sampler",
    "sampler/state",
    "threads/state",
)
_AGENT = (
    "agent/agent",
    "agent/hosts",
    "agent/layers",
    "agent/no_python",
    "callers/clocks",
    "callers/rate",
    "callers/threads",
    "callers/totals",
    "sampling/core_turns",
    "sampling/kernel",
    "sampling/samples",
    "sampling/timers",
    "unwind/frame_rules",
    "unwind/modules",
    "unwind/paths",
    "unwind/unwind",
)
_WRAPPERS = (
    "calls/beginning",
    "calls/calls",
    "calls/completion",
    "calls/counting",
    "calls/prepared",
    "calls/scratch",
    "calls/windows",
    "calls/wrappers",
    "calls/writing",
    "handles/channels",
    "handles/communicators",
    "handles/datatypes",
    "handles/lanes",
    "handles/library",
    "handles/requests",
    "handles/world",
)
_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE=1", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread")


@dataclass(frozen=True)
class Tools:
    """What makes a shared library."""

    compiler: str
    """Compiles the sources."""
    linker: str
    """Links them: a compiler, too."""
    last: tuple[str, ...] = ()
    """What the linker is given behind the objects."""


def build(kept: Kept) -> None:
    """Compiles what is missing of the recorder for an MPI. What interrupts that ends the compilers as well.

    The preloaded library defines the names that this MPI has and no others: programs look whether a name is there to
    know what they can call.

    Raises:
        BuildError: there is no compiler, it refuses, or the MPI's header is not found.
        OSError: the files cannot be written.
    """
    if os.uname().machine != "x86_64":
        raise BuildError(f"the native recorder does not support the processor {os.uname().machine}")
    compilers = Compilers()
    # In a thread: what a signal raises here interrupts nothing there, where processes and files are kept track of.
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(_build, kept, compilers)
        try:
            made.result()
        except BaseException:
            compilers.stop()
            raise


def _build(kept: Kept, compilers: Compilers) -> None:
    absent = kept.missing
    missing = [target for target in kept.wrappers if target in absent]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(kept.preloaded)) as work:
        header = _header(kept.compiler, work, compilers)
        if missing:
            sources = [*_sources(HERE, _WRAPPERS), *_sources(CORE, ["base/checksum"])]
            generated = _written(work, "wrappers.c", generate.wrappers(header))
            _compile(Tools(kept.compiler, kept.compiler), [*sources, generated], missing[0], work, compilers)
        for target in missing[1:]:
            _copy(missing[0], target)
        if kept.preloaded in absent:
            sources = [*_sources(HERE, _AGENT), *_sources(CORE, _SHARED)]
            generated = _written(work, "slots.S", slots.slots(header))
            _compile(Tools(_compiler(), _compiler()), [*sources, generated], kept.preloaded, work, compilers)


def prebuild(compilers_of_mpi: Sequence[str], folder: str) -> None:
    """Compile what a wheel brings (:mod:`~scalana.runtime.mpi.prebuilt`) into a folder.

    Args:
        compilers_of_mpi: the ``mpicc`` of a new Open MPI and that of a new MPICH.
        folder: made if need be.

    Raises:
        BuildError: there is no compiler, or it refuses.
        OSError: the files cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    compilers, compiler, headers = Compilers(), _compiler(), []
    for mpicc in compilers_of_mpi:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            headers.append(_header(mpicc, work, compilers))
            name = prebuilt.OPEN_MPI if prebuilt.OF_OPEN_MPI in headers[-1] else prebuilt.MPICH
            stand_in = os.path.join(work, prebuilt.STAND_IN)
            empty = _written(work, "empty.c", "")
            compilers.run([compiler, "-shared", f"-Wl,-soname,{prebuilt.STAND_IN}", "-o", stand_in, empty], work)
            sources = [*_sources(HERE, _WRAPPERS), *_sources(CORE, ["base/checksum"])]
            sources.append(_written(work, "wrappers.c", generate.wrappers(headers[-1])))
            tools = Tools(mpicc, compiler, ("-s", "-Wl,--no-as-needed", stand_in))
            _compile(tools, sources, os.path.join(folder, name), work, compilers)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        sources = [*_sources(HERE, _AGENT), *_sources(CORE, _SHARED)]
        sources.append(_written(work, "slots.S", slots.slots("".join(headers))))
        _compile(Tools(compiler, compiler, ("-s",)), sources, os.path.join(folder, prebuilt.PRELOAD), work, compilers)
    with open(os.path.join(folder, prebuilt.SOURCES), "w", encoding="utf-8") as file:
        file.write(version({}))


def _written(work: str, name: str, text: str) -> str:
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _copy(source: str, target: str) -> None:
    temporary = f"{target}.{os.getpid()}"
    shutil.copyfile(source, temporary)
    user_cache.seal(temporary)
    os.replace(temporary, target)


def _sources(base: str, names: Iterable[str]) -> list[str]:
    return [os.path.join(base, f"{name}.c") for name in names]


def _compiler() -> str:
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise BuildError("no C compiler (cc, gcc or clang) in PATH")


def _header(compiler: str, work: str, compilers: Compilers) -> str:
    return compilers.run([compiler, "-E", "-P", _written(work, "probe.c", "#include <mpi.h>\n")], work)


def _compile(tools: Tools, sources: Sequence[str], target: str, work: str, compilers: Compilers) -> None:
    try:
        _compile_each(tools, sources, target, work, compilers, together=True)
    except BuildError:  # not every compiler and linker can optimise the sources together
        _compile_each(tools, sources, target, work, compilers, together=False)


def _compile_each(
    tools: Tools, sources: Sequence[str], target: str, work: str, compilers: Compilers, together: bool
) -> None:
    """Compiles every source by itself, as many at a time as there are cores, and links them.

    ``together`` has the linker optimise all of them together.
    """
    jobs = len(os.sched_getaffinity(0))
    compiling, linking = (["-flto"], [f"-flto={jobs}"]) if together else ([], [])

    def compile_one(source: str) -> str:
        made = os.path.join(work, f"{sources.index(source)}.o")
        compilers.run([tools.compiler, *compiling, *_FLAGS, f"-I{HERE}", f"-I{CORE}", "-c", source, "-o", made], work)
        return made

    with ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(compile_one, sources))
    output = os.path.join(work, "library.so")
    compilers.run([tools.linker, *linking, *_FLAGS, "-shared", "-o", output, *objects, *tools.last, "-ldl"], work)
    user_cache.seal(output)
    os.replace(output, target)


if __name__ == "__main__":
    prebuild(sys.argv[2:], sys.argv[1])


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
