"""Files of checkpoints are recorded as spans, and torch's functions are none the wiser."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.progress.rank_times import HostClocks, rank_times
from tests.needs import torch_or_skip

from . import jobs

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = """
import io, os, sys
import torch
folder = sys.argv[1]
file = os.path.join(folder, "a.pt")
torch.save({"x": torch.arange(3)}, file + ".tmp")
os.replace(file + ".tmp", file)
print(torch.load(file)["x"].tolist(), torch.save.__name__, torch.load.__module__)
memory = io.BytesIO()
torch.save(torch.ones(2), memory)  # in no file
memory.seek(0)
print(torch.load(memory).tolist())
with open(file, "rb") as opened:
    print(torch.load(opened, weights_only=True)["x"].tolist())
try:
    torch.load(os.path.join(folder, "missing.pt"))
except FileNotFoundError as error:
    print(type(error).__name__)
"""


def test_files_that_are_written_and_read_are_known_again(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("plain", "recorded")]
    for folder in folders:
        folder.mkdir()
    plain = jobs.with_torch("-c", PROGRAM, folders[0])
    done = jobs.with_torch("-c", PROGRAM, folders[1], record=tmp_path / "run")
    assert plain.returncode == done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout and "FileNotFoundError" in done.stdout
    (record,) = jobs.records(tmp_path / "run")
    files = rank_times(record, HostClocks().offset_ns(record)).files
    written = folders[1] / "a.pt"
    assert [(file.is_load, file.file) for file in files] == [
        (False, f"{written}.tmp"),
        (True, str(written)),
        (True, str(written)),
    ]
    assert {file.inode for file in files} == {written.stat().st_ino}
