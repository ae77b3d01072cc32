"""A run that is going on, as its folder looks at some moment: the records up to one of their blocks."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from pathlib import Path

from scalana.runtime.record import layout
from tests.scalana.recorded import write_run

_FILE_HEADER, _HEADER = 16, struct.Struct("<IIII")


class Growing:
    """A whole run, a block of each record at a time.

    Args:
        whole: its folder.
        folder: the one that grows.
    """

    def __init__(self, whole: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(whole, folder)
        info = json.loads(Path(layout.info_file(whole)).read_text())
        self._ended = dict(info)
        for of_the_end in ("exit_code", "seconds"):
            info.pop(of_the_end, None)
        layout.write_info(folder, info)
        self._data = {Path(file): Path(file).read_bytes() for file in layout.record_files(folder)}

    def grow(self, blocks: int, torn: int = 0) -> None:
        """Have so many blocks in each record, and some bytes of the next one."""
        for file, data in self._data.items():
            at = _FILE_HEADER
            for _ in range(blocks):
                if at == len(data):
                    break
                at += _HEADER.size + _HEADER.unpack_from(data, at)[1]
            file.write_bytes(data[: at + torn])
            os.utime(file, (time.time() + 3600,) * 2)  # it is just being written to, however slow this machine is

    def end(self) -> None:
        """Have all of it."""
        for file, data in self._data.items():
            file.write_bytes(data)
        layout.write_info(self.folder, self._ended)


class GrowingRun(Growing):
    """The run of :mod:`tests.scalana.recorded`."""

    def __init__(self, folder: Path) -> None:
        write_run(folder / "whole", folder / "job")
        super().__init__(folder / "whole", folder / "run")
