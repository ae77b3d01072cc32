"""Files in which the kernel says what processes do."""

from __future__ import annotations


def text_of(file: str) -> str:
    """What is in one; empty where it is gone, or not for this user."""
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""
