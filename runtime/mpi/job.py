"""What a command is: whether it starts MPI programs, and of which MPI."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from scalana.runtime.mpi.answers import answer, output_of

# Patterns, compiled when they are first needed: a job waits for all that is done before it.
_LAUNCHERS = r"(mpi(run|exec)(\.\w+)?|orterun|prterun|srun|aprun|jsrun|ibrun)$"
_OF_MPI = r"(mpi(run|exec)(\.\w+)?|orterun|prterun)$"
_SYSTEM = frozenset(("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"))
_MENTIONS = rb"\b((?i:mpirun|mpiexec)|orterun|prterun|srun|mpi4py)\b|libmpi(ch)?[._]"
_ABSOLUTE = rb"(?<![\w./-])/[\w./+-]+/(?:mpirun|mpiexec|orterun|prterun|srun)\b"
LIBRARY = r"lib(mpi|mpich|mpi_abi|mpi_cray)\.so(\.\d+)*$"
"""A pattern of the file names of MPI libraries."""
_LARGEST_SCRIPT = 1 << 16
_NAMED = rb"[\w./+-]+"
_SCRIPTS = rb"\.(sh|bash|py|mk|job|sbatch|slurm)$|^\.\.?/"
_MOST_SCRIPTS = 64
"""Files that are looked into for what a command starts."""
_TOOLS = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "ninja": ("build.ninja",),
    "ctest": ("CTestTestfile.cmake",),
    "just": ("justfile", "Justfile"),
    "snakemake": ("Snakefile", "workflow/Snakefile"),
}
"""Programs that start others, with the files in the folder they work in that say which."""
_OF_DISTRIBUTIONS = tuple(
    base + of_mpi
    for base in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")
    for of_mpi in ("", "/openmpi/lib", "/mpich/lib")
)
"""Folders in which Linux distributions install MPI libraries."""
_PT_INTERP = 3


def programs(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The words of a command, those of commands within them (``bash -c "mpirun ..."``), the scripts and makefiles that
    these run, and the launchers that scripts name by their whole paths."""
    found: dict[str, None] = {}
    for word in command:
        found[word] = None
        if any(character.isspace() for character in word) and not os.path.exists(word):
            found |= dict.fromkeys(_shell_words(word))
    found |= dict.fromkeys(_files_of_tools(list(found)))
    words = list(found)
    for word in words:  # which grows meanwhile
        script = _script(_path(word, environ))
        if not script:
            continue
        more = dict.fromkeys(os.fsdecode(path) for path in re.findall(_ABSOLUTE, script))
        if len(words) < _MOST_SCRIPTS:
            more |= dict.fromkeys(_named_scripts(word, script))
        words += [name for name in more if name not in found]
        found |= more
    return words


def texts(words: Sequence[str], environ: Mapping[str, str]) -> list[bytes]:
    """The beginnings of the scripts among :func:`programs`, and commands of a shell that are one word."""
    shell = [os.fsencode(word) for word in words if any(map(str.isspace, word)) and not os.path.exists(word)]
    return [*shell, *filter(None, (_script(_path(word, environ)) for word in words))]


def _files_of_tools(words: Sequence[str]) -> list[str]:
    """What ``make`` and the like read, in this folder and in those that the words name."""
    names = [name for word in words for name in _TOOLS.get(os.path.basename(word), ())]
    folders = ["", *(word for word in words if os.path.isdir(word))] if names else []
    paths = [os.path.join(folder, name) for folder in folders for name in names]
    return [path for path in paths if os.path.isfile(path)]


def _named_scripts(word: str, script: bytes) -> list[str]:
    """Further scripts that a script names, from this folder or from its own."""
    folders = ("", os.path.dirname(word))
    names = [os.fsdecode(name) for name in dict.fromkeys(re.findall(_NAMED, script)) if re.search(_SCRIPTS, name)]
    found = [next((p for f in folders if os.path.isfile(p := os.path.join(f, name))), "") for name in names]
    return [path for path in found if path][:_MOST_SCRIPTS]


def _shell_words(text: str) -> list[str]:
    import shlex

    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    try:
        return list(words)
    except ValueError:  # quotes that do not match
        return text.split()


def _path(word: str, environ: Mapping[str, str]) -> str:
    """The file that a word names, here or in PATH; empty if it names none."""
    return word if os.path.isfile(word) else in_path(word, environ)


def in_path(word: str, environ: Mapping[str, str]) -> str:
    """The program that a word without a folder names, empty if there is none: :func:`shutil.which`, whose module takes
    longer to load than all that a job waits for here."""
    if not word or os.sep in word:
        return ""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    paths = (os.path.join(folder, word) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def _script(path: str) -> bytes:
    """The beginning of a file; of programs nothing."""
    try:
        with open(path, "rb") as file:
            start = file.read(_LARGEST_SCRIPT)
    except (OSError, ValueError):
        return b""
    return b"" if start.startswith(b"\x7fELF") else start


def uses_mpi(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether a command starts MPI programs: by a launcher, or what its files mention."""
    return any(re.match(_LAUNCHERS, os.path.basename(word)) or _mentions_mpi(word, environ) for word in command)


def _mentions_mpi(word: str, environ: Mapping[str, str]) -> bool:
    path = _path(word, environ)
    return bool(_mpi_libraries(path, environ) if path and _is_elf(path) else re.search(_MENTIONS, _script(path)))


def _mpi_libraries(program: str, environ: Mapping[str, str]) -> list[str]:
    """Libraries of an MPI that the loader would load for a program; of one without a loader, none."""
    program = os.path.abspath(program)
    searched = environ.get("LD_LIBRARY_PATH", "")

    def ask() -> tuple[str, list[str]]:
        loader = _loader(program)
        # What ldd does in the end, without its shell.
        output = output_of([loader, "--list", program], 10) if loader else ""
        libraries = [line.split("=>")[-1].split("(")[0].strip() for line in output.splitlines()]
        found = [library for library in libraries if re.match(LIBRARY, os.path.basename(library))]
        folders = [folder for folder in searched.split(os.pathsep) if folder]
        return "\n".join(found), [program, "/etc/ld.so.cache", *folders, *(x for x in libraries if os.path.isabs(x))]

    question = f"libraries of {program} with {searched} and {environ.get('LD_PRELOAD', '')}"
    try:
        return answer(question, environ, ask).splitlines()
    except (OSError, OverflowError, ValueError):
        return []


def _loader(program: str) -> str:
    """The loader that an ELF file for 64 bits names in its program headers; empty if it names none.

    Raises:
        OSError: it cannot be read.
        OverflowError, ValueError: it names places that no file has.
    """
    with open(program, "rb") as file:
        header = file.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            return ""
        table, size, count = _number(header, 32, 8), _number(header, 54, 2), _number(header, 56, 2)
        for row in range(count):
            file.seek(table + row * size)
            entry = file.read(40)
            if _number(entry, 0, 4) == _PT_INTERP:
                file.seek(_number(entry, 8, 8))
                return os.fsdecode(file.read(_number(entry, 32, 8)).rstrip(b"\0"))
    return ""


def _number(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")


def is_static(path: str) -> bool:
    """Whether a file is a program that no loader of programs starts, so that nothing can be preloaded into it."""
    try:
        return _is_elf(path) and not _loader(path)
    except (OSError, OverflowError, ValueError):
        return False


def with_static_mpi(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Programs of a command that define MPI's functions themselves, by the names in their symbol tables."""
    found = []
    for word in command:
        if re.match(_LAUNCHERS, os.path.basename(word)) or not _is_elf(word):
            continue
        if _mpi_libraries(word, environ):
            continue
        import mmap  # here: a job waits for all that is loaded before it

        with open(word, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
            if program.find(b"\0PMPI_Init\0") >= 0 or program.find(b"\0PMPI_Init_thread\0") >= 0:
                found.append(word)
    return found


def mpi_compilers(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The ``mpicc`` of each MPI that a command may use: its launcher's, its programs', and the first in PATH.

    What lies where every program of the system does (``sh``, ``srun``) says least about the MPI, and comes last.
    """
    folders: list[str] = []
    least: list[str] = []
    for word, path in _files(command, environ):
        own = [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))]
        says_little = _SYSTEM.issuperset(own) and not re.match(_OF_MPI, os.path.basename(word))
        (least if says_little else folders).extend(own)
        for library in _mpi_libraries(path, environ) if _is_elf(path) else ():
            above = os.path.dirname(os.path.dirname(os.path.abspath(library)))
            folders += [os.path.join(above, "bin"), os.path.join(os.path.dirname(above), "bin")]
    found = [os.path.join(folder, "mpicc") for folder in folders]
    found.append(in_path("mpicc", environ))
    found += [os.path.join(folder, "mpicc") for folder in least]
    return list(dict.fromkeys(path for path in found if path and os.access(path, os.X_OK)))


def _files(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The words of a command that name programs or other files, and these."""
    for word in command:
        path = word if os.sep in word else in_path(word, environ)
        if path and os.path.isfile(path):
            yield word, path


def library_folders(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Where the MPI library of a command may lie, where no ``mpicc`` says it: with its programs and launcher, in
    ``LD_LIBRARY_PATH``, and where distributions install one. What comes first is more likely."""
    folders: list[str] = []
    for word, path in _files(command, environ):
        folders += map(os.path.dirname, _mpi_libraries(path, environ) if _is_elf(path) else ())
        if re.match(_LAUNCHERS, os.path.basename(word)):
            above = [os.path.dirname(os.path.dirname(one)) for one in (os.path.abspath(path), os.path.realpath(path))]
            folders += [os.path.join(folder, name) for folder in above for name in ("lib", "lib64")]
    folders += filter(None, environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    return list(dict.fromkeys([*folders, *_OF_DISTRIBUTIONS]))


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
