"""Record writing and reading of checkpoints with torch as spans of the kind ``checkpoint``.

A span has the file, and the number of its inode: a program that writes a checkpoint under another name, and renames it,
reads the same inode later.
"""

from __future__ import annotations

import os

from scalana.runtime.patching import Patches
from scalana.runtime.spans import span
from scalana.runtime.typed import Any

KIND = "checkpoint"
SAVE, LOAD = "save", "load"
_patches = Patches("torch.serialization")


def record_files(module: Any) -> None:
    """See what ``torch.save`` and ``torch.load`` write to files and read from them; ``module`` is torch's
    ``serialization``."""
    _record(module, SAVE, SAVE)
    _record(module, LOAD, LOAD)


def record_saving(module: Any) -> None:
    """See what is saved in parts; ``module`` is ``torch.distributed.checkpoint.state_dict_saver``."""
    _record(module, "save", SAVE)
    _record(module, "async_save", SAVE)


def record_loading(module: Any) -> None:
    """See what is loaded in parts; ``module`` is ``torch.distributed.checkpoint.state_dict_loader``."""
    _record(module, "load", LOAD)


def _record(module: Any, function: str, name: str) -> None:
    def enter(arguments: tuple[Any, ...]) -> tuple[span, str] | None:
        file = _file_of(arguments)
        return (span.begin(name, KIND, None, file=os.path.abspath(file)), file) if file else None

    def leave(state: tuple[span, str] | None, arguments: Any, result: Any, failure: type[BaseException] | None) -> None:
        if state is not None:
            mark, file = state
            mark.end(inode=_inode(file), failed=int(failure is not None))

    _patches.surround(module, function, enter, leave, "checkpoints")


def _file_of(arguments: tuple[Any, ...]) -> str:
    """The file, or the folder, among the arguments of a call; empty where it writes into memory."""
    for one in arguments:
        name = one if isinstance(one, (str, os.PathLike)) else getattr(one, "name", None)
        if isinstance(name, (str, os.PathLike)):
            return os.fsdecode(os.fspath(name))
    return ""


def _inode(file: str) -> int:
    try:
        return os.stat(file).st_ino
    except OSError:
        return 0
