"""The order of the tests."""

from __future__ import annotations

import pytest

LONGEST = ("tests/runtime/test_churn.py", "tests/jobs/", "tests/runtime/test_torch_comm.py", "tests/runtime/mpi/")
"""Come first: with several files at a time, nobody waits for them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(
        key=lambda item: next((n for n, name in enumerate(LONGEST) if item.nodeid.startswith(name)), len(LONGEST))
    )
