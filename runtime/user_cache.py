"""The one cache of the user: what was compiled or learnt for this machine, for whoever comes next.

Jobs keep here what they compile (kernels for torch, recorders for MPI) and what programs answered; the command, what it
read in sources and binaries. All of it follows the same rules:

- It lies in ``$SCALANA_CACHE``, or in ``scalana`` below ``$XDG_CACHE_HOME`` or ``~/.cache``; a folder for each kind.
- A file is written beside its place and moved into it: readers see all of it or nothing, and any number of processes
  may write at once.
- A folder that cannot be written to, or a full disk, is as good as an empty cache: nothing is kept, and nobody fails.
  What a job cannot do without is made in its run folder instead (:func:`folder_for`, :func:`roomy_folder`).
- Nothing is loaded from it into a program that somebody else could have put there: files and folders belong to the user
  or to root, and nobody else may write to them (:func:`distrust`).

The front ends share this module with the job's side, so it loads nothing but ``os`` and names of the run folder.
"""

from __future__ import annotations

import os

from scalana.runtime.record import layout
from scalana.runtime.typed import Mapping

TORCH, MPI = "torch", "mpi"
"""What is compiled: kernels for torch, recorders for MPI."""
INDUCTOR = "inductor"
"""What kernels of compiled graphs are made of."""
SOURCES, FRAMES = "cpp", "frames"
"""What was read: translation units of C++, and frames at addresses of binaries."""
LOOPS = "loops"
"""Machine code of the analysis."""
REPORT = "report"
"""The environment of the analysis, where ``scalana setup-report`` made one."""
WANTED, FAILED = ".wanted", ".failed"
"""Behind the name of a file: a note that asks for it, and one that says why it could not be made."""


def folder_of(kind: str, environ: Mapping[str, str]) -> str:
    """The user's folder for one kind of what is kept. It need not exist."""
    base = environ.get("SCALANA_CACHE", "")
    if not base:
        base = environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # as its specification says
            base = os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(base, "scalana")
    return os.path.join(base, kind)


def distrust(path: str, environ: Mapping[str, str]) -> str:
    """Why nothing may be loaded from a file or folder: it or a folder above it, up to the user's cache, could have been
    changed by somebody else. Empty where it may, and where there is nothing yet."""
    if not hasattr(os, "geteuid"):  # Windows: rights of files say nothing of other users
        return ""
    top = os.path.realpath(os.path.dirname(folder_of("x", environ)))
    path = os.path.realpath(path)
    while True:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            status = None
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        if status is not None and status.st_uid not in (0, os.geteuid()):
            return f"{path} belongs to another user"
        if status is not None and status.st_mode & 0o022:
            return f"{path} can be changed by other users (chmod go-w)"
        if path in (top, os.path.dirname(path)) or not path.startswith(top + os.sep):
            return ""
        path = os.path.dirname(path)


def make_folder(path: str) -> None:
    """Make a folder of the cache and those above it, to which nobody else can write, whatever the umask allows.

    Raises:
        OSError: it cannot be made.
    """
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and above != path:
        make_folder(above)
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def seal(path: str) -> None:
    """Take from all others the right to change a file that was made for the cache.

    Raises:
        OSError: that cannot be done.
    """
    os.chmod(path, os.stat(path).st_mode & ~0o022)


def folder_for(kind: str, environ: Mapping[str, str], below: str) -> str:
    """A folder to keep something in that a job needs, made if need be: the user's, or else one in the run's.

    A folder that has something in it will do even if it cannot be written to: somebody provides it.

    Args:
        kind: of what is kept.
        environ: of the job.
        below: a folder in the user's.

    Raises:
        OSError: neither can be made.
    """
    folder = os.path.join(folder_of(kind, environ), below)
    try:
        make_folder(folder)
        trouble = distrust(folder, environ)
        if trouble and layout.RUN_VARIABLE not in environ:
            raise PermissionError(f"the cache is not safe to load from: {trouble}")
        usable = os.access(folder, os.W_OK) or os.listdir(folder) or layout.RUN_VARIABLE not in environ
        if usable and not trouble:
            return folder
    except OSError:
        if layout.RUN_VARIABLE not in environ:
            raise
    return _in_run(kind, environ)


def roomy_folder(folder: str, kind: str, environ: Mapping[str, str], room: int) -> str:
    """The folder, or one in the run's where so many bytes don't fit: its disk is full, or it cannot be written to."""
    if layout.RUN_VARIABLE not in environ:
        return folder
    import tempfile  # here: a job waits for all that is loaded before it

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(room))  # quotas are told by nothing else
    except OSError:
        try:
            return _in_run(kind, environ)
        except OSError:
            pass
    return folder


def _in_run(kind: str, environ: Mapping[str, str]) -> str:
    folder = layout.made_folder(environ[layout.RUN_VARIABLE], kind)
    os.makedirs(folder, exist_ok=True)
    return folder


def _sealed(path: str, flags: int) -> int:
    """Open a file that nobody else can write to, whatever the umask allows."""
    return os.open(path, flags, 0o644)


def keep(path: str, data: bytes) -> bool:
    """Write a file of the cache as a whole, its folder too if need be. Says whether that worked."""
    temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        make_folder(os.path.dirname(path))
        with open(temporary, "xb", opener=_sealed) as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:  # a full disk takes an empty file
        remove(temporary)
        return False
    return True


def kept(path: str) -> bytes | None:
    """What a file of the cache holds; None where there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def remove(path: str) -> None:
    """Remove a file of the cache, if that can be done."""
    try:
        os.unlink(path)
    except OSError:
        pass


def want(path: str, content: str) -> None:
    """Leave a note, beside where a file would be, for whoever compiles it. No more than a try."""
    try:
        if os.path.exists(path + FAILED):
            return
        make_folder(os.path.dirname(path))
        with open(path + WANTED, "x", encoding="utf-8", errors="surrogateescape", opener=_sealed) as file:
            file.write(content)
    except OSError:
        pass


def wanted(kind: str, environ: Mapping[str, str]) -> list[str]:
    """The files that there are notes for; none if somebody else may have written the notes."""
    folder = folder_of(kind, environ)
    if distrust(folder, environ):
        return []
    try:
        notes = sorted(name for name in os.listdir(folder) if name.endswith(WANTED))
    except OSError:
        return []
    own = [name for name in notes if not distrust(os.path.join(folder, name), environ)]
    return [os.path.join(folder, name[: -len(WANTED)]) for name in own]
