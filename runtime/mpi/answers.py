"""What other programs answered, kept with what the answer depends on: a job waits for all that is started before it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from scalana.runtime import user_cache


def answer(question: str, environ: Mapping[str, str], ask: Callable[[], tuple[str, Iterable[str]]]) -> str:
    """The answer to a question: the kept one, if no file that it depends on has changed, or else asked for.

    Args:
        question: all that the answer depends on beside files.
        environ: says where answers are kept; where that cannot be written, they are asked for each time.
        ask: gives the answer, and the files and folders that it depends on. What it raises is raised here.
    """
    folder = os.path.join(user_cache.folder_of(user_cache.MPI, environ), "answers")
    name = os.path.join(folder, f"{zlib.crc32(os.fsencode(question)):08x}-{len(question):x}")
    kept = _kept(name, question)
    if kept is not None:
        return kept
    said, files = ask()
    words = [question, said, *(word for file in dict.fromkeys(files) for word in (file, _state(file)))]
    user_cache.keep(name, os.fsencode("\0".join(words)))
    return said


def output_of(words: Sequence[str], seconds: float) -> str:
    """What a program prints.

    Raises:
        OSError: it cannot be started, fails, or takes longer than some seconds.
    """
    import subprocess  # here: a job waits for all that is loaded before it

    try:
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=True
        ).stdout
    except (ValueError, subprocess.SubprocessError) as error:
        raise OSError(str(error)) from error


def _kept(name: str, question: str) -> str | None:
    """The answer in a file, if it is one to this question and still holds."""
    content = user_cache.kept(name)
    words = os.fsdecode(content or b"").split("\0")
    if len(words) < 2 or len(words) % 2 or words[0] != question:
        return None
    holds = all(_state(file) == state for file, state in zip(words[2::2], words[3::2], strict=True))
    return words[1] if holds else None


def _state(file: str) -> str:
    """What of a file changes with its contents; of a folder, with the names in it."""
    try:
        status = os.stat(file)
    except OSError:
        return ""
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"
