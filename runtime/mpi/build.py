"""Compiles the native recorder for the MPI at hand, once, and keeps the result.

What is kept depends on the sources here (a folder per version) and, for the wrappers, on the file of the MPI library
they were compiled for: its path, size and time are in their name, so that another library gets its own.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache

from scalana.runtime.mpi import generate, slots

_HERE = os.path.dirname(os.path.abspath(__file__))
_CORE = os.path.join(os.path.dirname(_HERE), "_core")
_SHARED = (
    "checksum",
    "intern",
    "memory",
    "record_writer",
    "recorder",
    "recorder_calls",
    "recorder_definitions",
    "recorder_thinning",
    "sampler",
    "sampler_look",
    "sampler_moments",
    "sampler_passes",
    "thread_state",
)
_AGENT = (
    "agent",
    "call_rate",
    "frame_rules",
    "layers",
    "modules",
    "native_paths",
    "native_samples",
    "no_python",
    "signal_samples",
    "thread_clocks",
    "thread_totals",
    "threads",
    "unwind",
)
_WRAPPERS = (
    "channels",
    "communicators",
    "datatypes",
    "mpi_beginning",
    "mpi_calls",
    "mpi_completion",
    "mpi_counting",
    "mpi_prepared",
    "mpi_windows",
    "mpi_writing",
    "requests",
)
_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE=1", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread")
_LAUNCHERS = re.compile(r"(mpi(run|exec)(\.\w+)?|orterun|prterun|srun|aprun|jsrun|ibrun)$")
_MENTIONS = re.compile(rb"\b(mpirun|mpiexec|orterun|prterun|srun|mpi4py)\b|libmpi(ch)?[._]")
_ABSOLUTE = re.compile(rb"(?<![\w./-])/[\w./+-]+/(?:mpirun|mpiexec|orterun|prterun|srun)\b")
_LIBRARY = re.compile(r"lib(mpi|mpich|mpi_abi|mpi_cray)\.so(\.\d+)*$")
_LARGEST_SCRIPT = 1 << 16
_SECONDS = 120


class BuildError(Exception):
    """The recorder for an MPI cannot be made; says why."""


@dataclass
class Prepared:
    """What a job needs in its environment to be recorded."""

    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What will not be recorded, and why."""


def prepare(command: Sequence[str], environ: Mapping[str, str]) -> Prepared:
    """The variables that preload the recorder into an MPI job; none for other jobs. Compiles what is missing."""
    prepared = Prepared()
    command = programs(command, environ)
    if not uses_mpi(command, environ):
        return prepared
    inside = [
        f"{program} has an MPI inside of it (linked statically), whose calls cannot be recorded: link a shared one"
        for program in _with_static_mpi(command)
    ]
    compilers = mpi_compilers(command, environ)
    if not compilers:
        prepared.notes += ["MPI calls are not recorded: no mpicc beside the launcher or in PATH", *inside]
        return prepared
    agent = folder = ""
    for compiler in compilers:
        try:
            folder = cache_folder(environ)
            wrappers = build_wrappers(folder, compiler)
            agent = agent or build_agent(wrappers[0], compiler)
        except (BuildError, OSError) as error:
            prepared.notes.append(f"MPI calls of {compiler} are not recorded: {error}")
    if agent:
        before = environ.get("LD_PRELOAD")
        prepared.environment = {
            "LD_PRELOAD": f"{agent}:{before}" if before else agent,
            "SCALANA_MPI_WRAPPERS": folder,
        }
        prepared.notes.clear()
        if any(word.startswith("LD_PRELOAD=") for word in command):
            prepared.notes.append(
                "the command sets LD_PRELOAD anew, without the recorder of MPI: set it before scalana run instead"
            )
    prepared.notes += inside
    return prepared


# ---- what the job is ----


def programs(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The words of a command, those of commands within them (``bash -c "mpirun ..."``), and the launchers that scripts
    name by their whole paths."""
    found: dict[str, None] = {}
    for word in command:
        found[word] = None
        if any(character.isspace() for character in word) and not os.path.exists(word):
            found |= dict.fromkeys(_shell_words(word))
    for word in list(found):
        found |= dict.fromkeys(os.fsdecode(path) for path in _ABSOLUTE.findall(_script(word, environ)))
    return list(found)


def _shell_words(text: str) -> list[str]:
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    try:
        return list(words)
    except ValueError:  # quotes that do not match
        return text.split()


def _script(word: str, environ: Mapping[str, str]) -> bytes:
    """The beginning of a file that a word names; of programs nothing."""
    path = word if os.path.isfile(word) else shutil.which(word, path=environ.get("PATH")) or ""
    try:
        with open(path, "rb") as file:
            start = file.read(_LARGEST_SCRIPT)
    except (OSError, ValueError):
        return b""
    return b"" if start.startswith(b"\x7fELF") else start


def uses_mpi(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a command starts MPI programs: by a launcher, or what its files mention."""
    return any(_LAUNCHERS.match(os.path.basename(word)) or _mentions_mpi(word, environ) for word in command)


def _mentions_mpi(word: str, environ: Mapping[str, str]) -> bool:
    path = word if os.path.isfile(word) else shutil.which(word, path=environ.get("PATH")) or ""
    if path and _is_elf(path):
        return any(_LIBRARY.match(os.path.basename(library)) for library in _needed(path))
    return bool(_MENTIONS.search(_script(word, environ)))


@cache
def _needed(program: str) -> tuple[str, ...]:
    """Libraries that the loader would load for a program."""
    try:
        output = subprocess.run(
            ["ldd", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.split("=>")[-1].split("(")[0].strip() for line in output.splitlines())


def _with_static_mpi(command: Sequence[str]) -> list[str]:
    """Programs of a command that define MPI's functions themselves, by the names in their symbol tables."""
    found = []
    for word in command:
        if _LAUNCHERS.match(os.path.basename(word)) or not _is_elf(word):
            continue
        if any(_LIBRARY.match(os.path.basename(library)) for library in _needed(word)):
            continue
        with open(word, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
            if program.find(b"\0PMPI_Init\0") >= 0 or program.find(b"\0PMPI_Init_thread\0") >= 0:
                found.append(word)
    return found


def mpi_compilers(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The ``mpicc`` of each MPI that a command may use: its launcher's, its programs', and the first in PATH."""
    folders: list[str] = []
    for word in command:
        path = word if os.sep in word else shutil.which(word, path=environ.get("PATH")) or ""
        if not path or not os.path.isfile(path):
            continue
        folders += [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))]
        for library in _needed(path) if _is_elf(path) else ():
            if _LIBRARY.match(os.path.basename(library)):
                above = os.path.dirname(os.path.dirname(os.path.abspath(library)))
                folders += [os.path.join(above, "bin"), os.path.join(os.path.dirname(above), "bin")]
    found = [os.path.join(folder, "mpicc") for folder in folders]
    found.append(shutil.which("mpicc", path=environ.get("PATH")) or "")
    return list(dict.fromkeys(path for path in found if path and os.access(path, os.X_OK)))


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


# ---- what is kept ----


def cache_folder(environ: Mapping[str, str]) -> str:
    """The folder for what is compiled from these sources, made if need be: the user's, or else in the run's."""
    base = environ.get("SCALANA_CACHE") or os.path.join(
        environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "scalana"
    )
    folder = os.path.join(base, "mpi", _version())
    try:
        os.makedirs(folder, exist_ok=True)
        if os.access(folder, os.W_OK) or os.listdir(folder) or "SCALANA_RUN_DIR" not in environ:
            return folder
    except OSError:
        if "SCALANA_RUN_DIR" not in environ:
            raise
    folder = os.path.join(environ["SCALANA_RUN_DIR"], "mpi")
    os.makedirs(folder, exist_ok=True)
    return folder


@cache
def _version() -> str:
    digest = hashlib.sha256()
    for base in (_HERE, _CORE):
        for name in sorted(os.listdir(base)):
            if name.endswith((".c", ".h", ".py")):
                with open(os.path.join(base, name), "rb") as file:
                    digest.update(name.encode() + b"\0" + file.read())
    with open(os.path.join(os.path.dirname(_HERE), "operations.py"), "rb") as file:
        digest.update(file.read())
    return digest.hexdigest()[:16]


def wrappers_name(library: str) -> str:
    """File name of the wrappers for an MPI library; the preloaded library looks for the same."""
    whole = os.path.realpath(library)
    status = os.stat(whole)
    value = 0xCBF29CE484222325
    for byte in os.fsencode(whole):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}-{status.st_size:x}-{status.st_mtime_ns:x}.so"


def mpi_libraries(compiler: str) -> list[str]:
    """The files of the MPI library that programs compiled by an ``mpicc`` load."""
    folders = [word[2:] for word in _show(compiler) if word.startswith("-L")]
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(compiler))), "lib"))
    folders.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(compiler))), "lib"))
    found: dict[str, None] = {}
    for folder in folders:
        if os.path.isdir(folder):
            for name in sorted(os.listdir(folder)):
                if _LIBRARY.match(name) and not name.startswith("libmpi_abi"):
                    found[os.path.realpath(os.path.join(folder, name))] = None
    return list(found)


@cache
def _show(compiler: str) -> tuple[str, ...]:
    try:
        output = subprocess.run(
            [compiler, "-show"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(shlex.split(output))


# ---- compiling ----


def build_agent(wrappers: str, compiler: str) -> str:
    """The preloaded library for the MPI of an ``mpicc``, compiled if it is not there yet beside its wrappers.

    It defines the names that this MPI has and no others: programs look whether a name is there to know what they can
    call.

    Raises:
        BuildError: there is no compiler, or it refuses.
    """
    target = wrappers.removesuffix(".so") + "-preload.so"
    if not os.path.exists(target):
        if os.uname().machine != "x86_64":
            raise BuildError(f"the native recorder does not know the processor {os.uname().machine}")
        with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as work:
            assembly = os.path.join(work, "slots.S")
            with open(assembly, "w", encoding="utf-8") as file:
                file.write(slots.slots(_header(compiler, work)))
            sources = [*_sources(_HERE, _AGENT), *_sources(_CORE, _SHARED), assembly]
            _compile(_compiler(), sources, target, work)
    return target


def build_wrappers(folder: str, compiler: str) -> list[str]:
    """The wrappers for the MPI of an ``mpicc``, compiled if they are not there yet.

    Raises:
        BuildError: the MPI's library or header is not found, or the compiler refuses.
    """
    libraries = mpi_libraries(compiler)
    if not libraries:
        raise BuildError(f"{compiler} does not say where its library is")
    targets = [os.path.join(folder, wrappers_name(library)) for library in libraries]
    missing = [target for target in targets if not os.path.exists(target)]
    if missing:
        with tempfile.TemporaryDirectory(dir=folder) as work:
            source = os.path.join(work, "wrappers.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(generate.wrappers(_header(compiler, work)))
            sources = [*_sources(_HERE, _WRAPPERS), os.path.join(_CORE, "checksum.c"), source]
            _compile(compiler, sources, missing[0], work)
        for target in missing[1:]:
            _copy(missing[0], target)
    return targets


def _copy(source: str, target: str) -> None:
    temporary = f"{target}.{os.getpid()}"
    shutil.copyfile(source, temporary)
    os.replace(temporary, target)


def _sources(base: str, names: Iterable[str]) -> list[str]:
    return [os.path.join(base, f"{name}.c") for name in names]


def _compiler() -> str:
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise BuildError("no C compiler (cc, gcc or clang) in PATH")


def _header(compiler: str, work: str) -> str:
    probe = os.path.join(work, "probe.c")
    with open(probe, "w", encoding="utf-8") as file:
        file.write("#include <mpi.h>\n")
    return _run([compiler, "-E", "-P", probe])


def _compile(compiler: str, sources: Sequence[str], target: str, work: str) -> None:
    jobs = len(os.sched_getaffinity(0))
    try:
        _compile_each(compiler, sources, target, work, jobs, ["-flto"], [f"-flto={jobs}"])
    except BuildError:  # not every compiler and linker can optimise the sources together
        _compile_each(compiler, sources, target, work, jobs)


def _compile_each(
    compiler: str,
    sources: Sequence[str],
    target: str,
    work: str,
    jobs: int,
    compiling: Sequence[str] = (),
    linking: Sequence[str] = (),
) -> None:
    """Compiles every source by itself, as many at a time as there are cores, and links them."""

    def compile_one(source: str) -> str:
        made = os.path.join(work, f"{os.path.basename(source)}.o")
        _run([compiler, *compiling, *_FLAGS, f"-I{_HERE}", f"-I{_CORE}", "-c", source, "-o", made])
        return made

    with ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(compile_one, sources))
    output = os.path.join(work, "library.so")
    _run([compiler, *linking, *_FLAGS, "-shared", "-o", output, *objects, "-ldl"])
    os.replace(output, target)


def _run(command: Sequence[str]) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, env=clean
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{command[0]}: {error}") from error
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if re.search(r"\w", line)]
        lines = [line for line in said if "error" in line] or said
        raise BuildError(f"{os.path.basename(command[0])}: {lines[0] if lines else 'failed'}")
    return done.stdout
