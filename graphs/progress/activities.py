"""What functions and spans do by their names, as far as it is no training: checkpoints and evaluation."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from scalana.runtime.record.format import Code, ProcessRecord

NOTHING, CHECKPOINT, EVALUATION = range(3)
_SAVING = re.compile(
    r"_*(async_)?(save|write|dump|persist)_?(\w+_)?(checkpoint|ckpt|snapshot|state_dict)\w*"
    r"|_*save_(pretrained|model|state)|_*(checkpoint|ckpt|snapshot)_?(save|write|dump)\w*",
    re.IGNORECASE,
)
_EVALUATING = re.compile(
    r"_*(run_|do_)?(eval|evaluate|evaluation|validate|validation)(_(loop|step|epoch|model|round|and_\w+))?"
    r"|_*estimate_loss|_*(test|valid|val)_(epoch|loop|model)",
    re.IGNORECASE,
)
_SAVING_SPAN = re.compile(r"\b(checkpoint(ing)?|ckpt|snapshot|save)\b", re.IGNORECASE)
_EVALUATING_SPAN = re.compile(r"\b(eval|evaluat\w*|validat\w*|val)\b", re.IGNORECASE)
_SERIALIZATION = os.path.join("torch", "serialization.py")
_TRAINERS = re.compile(r"trainer|lightning|accelerate|deepspeed|megatron|torchtitan", re.IGNORECASE)
"""Libraries whose functions evaluate models, by their paths: in others such names mean other things."""


def of_function(name: str, file: str, is_library: bool) -> int:
    """What a function does.

    >>> of_function("Trainer._save_checkpoint", "train.py", False), of_function("save_for_backward", "train.py", False)
    (1, 0)
    >>> of_function("evaluate", "train.py", False), of_function("evaluate", "numexpr/necompiler.py", True)
    (2, 0)
    """
    bare = name.rpartition(".")[2]
    if _SAVING.fullmatch(bare) or (bare in ("save", "_save") and file.endswith(_SERIALIZATION)):
        return CHECKPOINT
    if _EVALUATING.fullmatch(bare) and (not is_library or _TRAINERS.search(file)):
        return EVALUATION
    return NOTHING


def of_span(name: str) -> int:
    """What a region or phase of a name is.

    >>> of_span("save_checkpoint"), of_span("eval loop"), of_span("forward")
    (1, 2, 0)
    """
    words = name.replace("_", " ")
    if _SAVING_SPAN.search(words):
        return CHECKPOINT
    return EVALUATION if _EVALUATING_SPAN.search(words) else NOTHING


def of_paths(record: ProcessRecord, known: Sequence[int] = ()) -> list[int]:
    """What each call path of a record does, by its outermost frame that does any of it ``[paths]``; ``known`` is what
    was found of its first paths."""
    libraries = tuple(folder for folder in record.meta.get("lib_dirs", "").split(os.pathsep) if folder)
    parents, codes = record.paths.parent, record.paths.code
    of_code: dict[int, int] = {}
    found = list(known) or [NOTHING]
    for path in range(len(found), len(record.paths)):
        above = parents[path]
        doing = found[above] if 0 <= above < path else NOTHING
        if doing == NOTHING:
            number = codes[path]
            if number not in of_code:
                of_code[number] = _of_code(record.codes.get(number), libraries)
            doing = of_code[number]
        found.append(doing)
    return found


def _of_code(code: Code | None, libraries: tuple[str, ...]) -> int:
    if code is None:
        return NOTHING
    return of_function(code.name, code.filename, code.filename.startswith(("<", *libraries)))
