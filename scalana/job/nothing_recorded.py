"""Why a job left no record: what to tell a user whose run folder is empty."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from scalana.runtime.mpi.job import programs, texts
from scalana.runtime.record import launchers

_PYTHON = re.compile(r"(python|pypy)[\d.]*[tw]?$")
_PROBE = "import sys, sysconfig; print(sys.version.split()[0], sysconfig.get_config_var('EXT_SUFFIX'))"


def explain(command: Sequence[str], notes: Sequence[str] = (), mpi: bool = False) -> str:
    """The reason why ``command`` was not recorded, as far as it can be told.

    Args:
        command: The job.
        notes: What the recorders themselves left behind, one sentence each.
        mpi: Whether its processes were to be recorded as those of MPI.
    """
    python, arguments = _python_of(command)
    isolated = _isolated(arguments)
    if python is not None and isolated:
        return f"Python was started with {isolated}, which disables the recorder: remove this option"
    other = _other_python(python) if python is not None else ""
    if other:
        return other
    if notes:
        return notes[0] if len(notes) == 1 else f"{notes[0]} (and {len(notes) - 1} more)"
    shell = _remote_shell(command)
    if python is None and shell:
        return (
            f"{shell} passes on no environment to other hosts: put `scalana run --` before the command that it starts "
            "there (docs/hosts.md)"
        )
    if os.path.basename(command[0]) == "sbatch" and not {"-W", "--wait"}.intersection(command):
        return (
            "sbatch returns before its job starts: put `scalana run --` before the launcher in the batch script "
            "(docs/batch-systems.md)"
        )
    exported = _exported(command)
    if python is None and exported:
        return f"srun passes on no variables but {exported}: add ALL to --export or SLURM_EXPORT_ENV (docs/hosts.md)"
    if python is None and mpi:
        return (
            f"{command[0]} started no Python program and no program that called MPI, or passed no environment on to "
            "them (docs/hosts.md)"
        )
    if python is None:
        return (
            f"{command[0]} started no Python program, or cleared its environment; for MPI programs, use: scalana run "
            "--mpi"
        )
    return f"{os.path.basename(python)} ended before the recorder could start, or its records were removed"


def _remote_shell(command: Sequence[str]) -> str:
    """A program that a command calls to start others on other hosts, empty if there is none."""
    words = programs(command, os.environ)
    scripts = b"\n".join(texts(words, os.environ))
    named = {os.path.basename(word) for word in words} | {os.fsdecode(word) for word in re.findall(rb"[\w-]+", scripts)}
    return next((shell for shell in launchers.REMOTE_SHELLS if shell in named), "")


def _exported(command: Sequence[str]) -> str:
    """What alone ``srun`` hands on of its environment, by its options or variables; empty if that is all."""
    words = programs(command, os.environ)
    said = " ".join([*words, *(os.fsdecode(text) for text in texts(words, os.environ))])
    set_before = os.environ.get("SRUN_EXPORT_ENV") or os.environ.get("SLURM_EXPORT_ENV", "")
    lists = re.findall(r"\bsrun\b.*?\s--export[= ](\S+)", said) or [set_before] * bool(re.search(r"\bsrun\b", said))
    return next((one for one in lists if one and "ALL" not in one.split(",")), "")


def _python_of(command: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The interpreter behind a command and its arguments: named itself, or in the first line of a script."""
    program = shutil.which(command[0]) or command[0]
    if _PYTHON.match(os.path.basename(program)):
        return program, command[1:]
    try:
        with open(program, "rb") as file:
            first = file.readline(512)
    except OSError:
        return None, ()
    if not first.startswith(b"#!"):
        return None, ()
    words = first[2:].decode("utf-8", "replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    if words and _PYTHON.match(os.path.basename(words[0])):
        return shutil.which(words[0]), words[1:]
    return None, ()


def _isolated(arguments: Sequence[str]) -> str:
    """The option of Python that keeps ``sitecustomize`` or ``PYTHONPATH`` out, empty if there is none."""
    for word in arguments:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            return ""
        letters = re.match(r"-([A-Za-z]*)", word)
        for letter in letters.group(1) if letters else "":
            if letter in "IES":
                return f"-{letter}"
            if letter in "cmWX":  # the rest of the word, or the next one, is its argument
                if letter in "cm":
                    return ""
                break
    return ""


def _other_python(python: str) -> str:
    """What is wrong with an interpreter that has no extension of ours, empty if it has one."""
    try:
        output = subprocess.run(
            [python, "-I", "-S", "-c", _PROBE], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10
        ).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return f"{python} cannot be started"
    if len(output) != 2:
        return f"{python} does not report its version"
    import scalana.runtime as runtime

    version, suffix = output
    folder = os.path.dirname(os.path.abspath(runtime.__file__))
    if os.path.exists(os.path.join(folder, "_core" + suffix)):
        return ""
    return f"{python} is Python {version}, and this scalana has no recorder for it: install scalana there"
