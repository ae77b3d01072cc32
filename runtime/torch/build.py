"""Compiles the kernels that recorded jobs have asked for (:mod:`scalana.runtime.torch.native`).

``python -m scalana.runtime.torch.build`` compiles what is wanted; ``scalana run`` calls :func:`start`, which does so
in the background, on cores that nobody else needs. It takes some twenty seconds of a core, once for each installation
of torch. Where it cannot be done the kernels in Python go on to do the work, and operators are not counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from scalana.runtime import user_cache
from scalana.runtime.record import layout
from scalana.runtime.torch import native as torch_native
from scalana.runtime.user_cache import FAILED, WANTED

_FLAGS = ("-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_STANDARDS = ("c++20", "c++17")
_SECONDS = 300


def wanted(environ: Mapping[str, str]) -> list[str]:
    """Libraries that recorded jobs have asked for and that nobody has compiled, or compiles just now."""
    return [path for path in user_cache.wanted(user_cache.TORCH, environ) if _is_open(path) and not _is_locked(path)]


def _is_open(path: str) -> bool:
    """Whether a request still holds: not of an earlier scalana, nor of a torch that is gone or has changed."""
    if os.path.exists(path) or os.path.exists(path + FAILED):
        return False
    version = os.path.basename(path).rpartition("-")[0]
    try:
        torch_folder = _torch_folder(path)
        return any(
            torch_native.library_path(os.path.dirname(path), torch_folder, version, abi) == path for abi in (0, 1)
        )
    except OSError:
        return False


def _torch_folder(path: str) -> str:
    with open(path + WANTED, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a request, so that jobs that end together do not all compile the same.

    Raises:
        OSError: the request is gone, or somebody else holds it.
    """
    with open(path + WANTED, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _is_locked(path: str) -> bool:
    try:
        with _locked(path):
            return False
    except OSError:
        return True


def start(environ: Mapping[str, str]) -> bool:
    """Compile what is wanted in a process of its own, which nobody waits for. Says whether there was anything to do."""
    if not wanted(environ) or _compiler(environ) is None:
        return False
    try:
        subprocess.Popen(
            [sys.executable, "-m", "scalana.runtime.torch.build"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={name: value for name, value in environ.items() if name not in ("LD_PRELOAD", layout.RUN_VARIABLE)},
        )
    except OSError:
        return False
    return True


def build(path: str, environ: Mapping[str, str]) -> str:
    """Compile one library that is wanted. Returns what went wrong, empty if nothing did.

    A failure is remembered beside it, so that it is not tried again. What somebody else compiles is left to them."""
    compiler = _compiler(environ)
    if compiler is None:
        return "no C++ compiler (c++, g++ or clang++) in PATH"
    try:
        with _locked(path):
            return _build_held(path, compiler)
    except OSError:
        return ""


def _build_held(path: str, compiler: str) -> str:
    try:
        trouble = _compile(compiler, path, _torch_folder(path))
    except (OSError, subprocess.SubprocessError) as error:
        trouble = str(error)
    if trouble:
        user_cache.keep(path + FAILED, trouble.encode("utf-8", "replace"))
    user_cache.remove(path + WANTED)
    return trouble


def _compile(compiler: str, path: str, torch_folder: str) -> str:
    libraries = os.path.join(torch_folder, "lib")
    sources = [source for source in torch_native.SOURCES if source.endswith(".cpp")]
    include = os.path.join(torch_folder, "include")
    message = ""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as work:
        output = os.path.join(work, "kernels.so")
        for standard in _STANDARDS:
            command = [compiler, *_FLAGS, f"-std={standard}", f"-I{include}", *sources]
            command += ["-o", output, f"-L{libraries}", "-lc10", "-ltorch_cpu"]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            if done.returncode == 0:
                user_cache.seal(output)
                os.replace(output, path)
                return ""
            message = message or done.stderr
    return message or "the compiler failed"


def _compiler(environ: Mapping[str, str]) -> str | None:
    for name in (environ.get("CXX", ""), "c++", "g++", "clang++"):
        found = shutil.which(name, path=environ.get("PATH")) if name else None
        if found:
            return found
    return None


def _step_back() -> None:
    """Run only on cores that nobody else needs."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (OSError, AttributeError):
        os.nice(19)


def main() -> int:
    """Compile all that is wanted; the number of failures."""
    _step_back()
    failures = 0
    for path in user_cache.wanted(user_cache.TORCH, os.environ):
        if not _is_open(path):
            user_cache.remove(path + WANTED)
    for path in wanted(os.environ):
        trouble = build(path, os.environ)
        failures += bool(trouble)
        print(f"{path}: {trouble.splitlines()[0] if trouble else 'compiled'}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
