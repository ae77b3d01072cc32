"""Where the debug information of a program is: in it, or in a file of its own."""

from __future__ import annotations

import os
from typing import Any

DEBUG_FOLDERS = ("/usr/lib/debug",)


def build_id(path: str) -> str:
    """Build id of a program or library in hexadecimal; empty where it has none or cannot be read."""
    return _look(path)[0]


def debug_file(path: str) -> str:
    """The file with the debug information of a program or library: itself, unless a file of its own is found.

    Such a file is looked for by the build id and by the name that the program gives (``.gnu_debuglink``), as debuggers
    do, and in a ``.build-id`` folder beside the program, too. It counts if its build id is the same.
    """
    identity, own, link = _look(path)
    if own:
        return path
    folder = os.path.dirname(os.path.realpath(path))
    by_identity = os.path.join(".build-id", identity[:2], identity[2:] + ".debug")
    candidates = [os.path.join(base, by_identity) for base in (*DEBUG_FOLDERS, folder)]
    if link:
        candidates += [os.path.join(folder, link), os.path.join(folder, ".debug", link)]
        candidates += [os.path.join(base, folder.lstrip(os.sep), link) for base in DEBUG_FOLDERS]
    for candidate in candidates:
        if candidate != path and os.path.isfile(candidate):
            other, has, _ = _look(candidate)
            if has and other == identity:
                return candidate
    return path


def _look(path: str) -> tuple[str, bool, str]:
    """Build id, whether there is debug information, and the name of the file that has it."""
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return "", False, ""
    identity = link = ""
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            section: Any = elf.get_section_by_name(".note.gnu.build-id")
            for note in section.iter_notes() if section is not None else ():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    identity = str(note["n_desc"])
            section = elf.get_section_by_name(".gnu_debuglink")
            if section is not None:
                link = section.data().partition(b"\0")[0].decode("utf-8", "replace")
            own = elf.get_section_by_name(".debug_info") is not None
    except (OSError, ELFError, KeyError, ValueError, AssertionError):
        return "", False, ""
    return identity, own, link
