"""A number for a prompt, the same in all processes: answers to it are a group."""

from __future__ import annotations

import zlib

from scalana.runtime.typed import Any


def number_of_prompt(prompt: Any) -> int:
    """Of a text, of tokens, or of what else a prompt is made of.

    >>> number_of_prompt([5, 6]) == number_of_prompt((5, 6)), number_of_prompt("a") == number_of_prompt("b")
    (True, False)
    """
    if isinstance(prompt, list | tuple) and prompt and type(prompt[0]) is int:
        return hash(tuple(prompt)) & 0x7FFFFFFF  # of whole numbers it is the same everywhere, and takes 1 ns each
    text = prompt if isinstance(prompt, str) else repr(prompt)
    return zlib.crc32(text.encode("utf-8", "replace"))
