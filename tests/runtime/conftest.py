"""What several modules of tests share."""

from __future__ import annotations

import pytest

from scalana.runtime.torch import build as torch_build
from tests.tools import torch_kernels


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment of a job that finds kernels in C++: in the cache of all tests, or where a job has asked for them."""
    cache = torch_kernels.shared()
    if cache is None:
        cache = tmp_path_factory.mktemp("kernels")
        trouble = torch_kernels.provide(cache)
        if trouble.startswith("no C++ compiler"):
            pytest.skip(trouble)
        assert trouble == "" and torch_build.wanted({"SCALANA_CACHE": str(cache)}) == []
    return {"SCALANA_CACHE": str(cache)}
