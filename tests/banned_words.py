"""Old-fashioned English that documents, reports, help and errors do without."""

from __future__ import annotations

import re

BANNED = re.compile(
    r"\b(?:told|tells? of|mend(?:s|ed|ing)?|beside|anew|whom|so many)\b|\bwho:|\bof it(?=\s*(?:[.,;:!?)|]|$))",
    re.IGNORECASE | re.MULTILINE,
)
"""Old-fashioned English. "of it" is banned where it ends a clause."""
LEADING_WHO = re.compile(r"(?:^|[.:;(|] +|\b(?:for|of|by|and|to) )who ", re.MULTILINE)
"""``who`` without a noun that it stands for, as in "who waits is late"."""
