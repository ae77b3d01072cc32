"""Which code is of the program, and which of a library or of the interpreter."""

from __future__ import annotations

import numpy as np

from scalana.graphs.arrays.types import BoolArray
from scalana.graphs.readers.columns.gather import Gathered


def library_codes(data: Gathered) -> BoolArray:
    """Which codes are of no program: of a library, or of the interpreter itself ``[codes]``."""
    records = data.records
    folders = tuple({folder for record in records for folder in record.meta.get("lib_dirs", "").split(":") if folder})
    files = [file.replace("\\", "/") for _, file in data.tree.codes]
    return np.array([file.startswith(("<", *folders)) for file in files], np.bool_)
