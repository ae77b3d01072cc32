"""Waiting for data of torch's loaders is recorded as spans, and loaders are none the wiser."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.graphs.readers.folder.run_folder import RunFolder
from tests.needs import torch_or_skip

from . import jobs
from .test_spans import told

torch_or_skip()
pytestmark = pytest.mark.slow

PROGRAM = """
import torch.utils.data
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if index == 3:
            raise KeyError("no such number")
        return index

loader = DataLoader(Numbers(), batch_size=None)
got = []
try:
    for number in loader:
        got.append(int(number))
except KeyError as error:
    got.append(error.args[0])
got += [batch.tolist() for batch in DataLoader(range(4), batch_size=2, num_workers=1)]
print(got, type(iter(loader)).__next__.__name__)
"""


def test_each_batch_that_is_waited_for_is_a_span(tmp_path: Path) -> None:
    plain = jobs.with_torch("-c", PROGRAM)
    done = jobs.with_torch("-c", PROGRAM, record=tmp_path)
    assert plain.returncode == done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout and "no such number" in done.stdout
    record = min(jobs.records(tmp_path), key=lambda one: int(one.meta["start_ns"]))
    loading = [(kind, name, attributes) for kind, name, _, attributes in told(record) if kind == "data"]
    alone, helped = (
        {"dataset": "Numbers", "workers": 0, "ahead": 0},
        {"dataset": "range", "workers": 1, "ahead": 2, "each_epoch": 1},
    )
    # The fourth number raises; of the second loader, the third call says that there is no more.
    wanted = [alone | {"batch": 0}, alone | {"batch": 1}, alone | {"batch": 2}, alone]
    wanted += [helped | {"batch": 0}, helped | {"batch": 1}, helped]
    assert loading == [("data", "DataLoader", attributes) for attributes in wanted]
    assert not any("torch.utils.data" in note for note in record.notes)
    spans = zip(record.spans.path, told(record), strict=True)  # the collector of a busy machine leaves some, too
    lines = {record.frames(path)[-1].line for path, (kind, *_) in spans if kind == "data"}
    assert lines == {16, 20}, "the loops over the loaders"


def test_a_loader_that_is_built_otherwise_is_a_note(tmp_path: Path) -> None:
    program = """
import sys, types
from scalana.runtime.torch.loaders import record_loading
record_loading(types.SimpleNamespace())

class Other:
    def __next__(self):
        return 5

record_loading(types.SimpleNamespace(_BaseDataLoaderIter=Other))
assert next(Other()) == 5
"""
    done = jobs.python(program, tmp_path, extra={"PYTHONPATH": str(jobs.ROOT)})
    assert done.returncode == 0, done.stderr
    (record,) = RunFolder(tmp_path).processes()
    assert [note for note in record.notes if "waits for data" in note and " not found: " in note]
    assert [(kind, name, attributes) for kind, name, _, attributes in told(record)] == [("data", "DataLoader", {})]
