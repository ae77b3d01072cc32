"""How a record is read here: by the C extension, or by numpy where there is none."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from scalana.graphs.readers.folder.awaits import place_rests
from scalana.graphs.readers.folder.moved_sources import NOT_MOVED, Moved
from scalana.runtime.record.format import Decoder, ProcessRecord, Shared, compiled_decoder


@lru_cache(maxsize=1)
def decoder() -> Decoder:
    """What reads a file into columns."""
    compiled = compiled_decoder()
    if compiled is None:
        from scalana.graphs.readers.portable.portable_reader import read

        return read
    return compiled


def read_record(file: Path | str, shared: Shared, moved: Moved = NOT_MOVED) -> ProcessRecord:
    """One record, as an analysis reads it; ``moved`` says where its sources are.

    Raises:
        RecordError: it cannot be read, or is no record.
    """
    return place_rests(moved.record(ProcessRecord.read(file, shared, moved.decoder(decoder()))))
