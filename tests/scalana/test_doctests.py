"""The examples in docstrings of the reports are true."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from scalana.graphs.readers.processes import process_names
from scalana.report import names
from scalana.report.html import drawing, markup
from scalana.report.text import paint
from scalana.report.topics import over_time, ranks


@pytest.mark.parametrize(
    "module", [names, paint, process_names, markup, drawing, over_time, ranks], ids=lambda module: module.__name__
)
def test_examples(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
