"""Compiles the kernels for torch that a recorded job asks for, into the cache that ``SCALANA_CACHE`` names.

Run: ``python tests/tools/torch_kernels.py``. Done once before the tests, they need not be compiled by several of them.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scalana.runtime import user_cache  # noqa: E402
from scalana.runtime.torch import build as torch_build  # noqa: E402
from scalana.runtime.torch import native  # noqa: E402
from tests.runtime import jobs  # noqa: E402

ASK = """
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
"""


def are_in(cache: Path) -> bool:
    """Whether a cache has kernels for this torch. Does not import it."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        return False
    torch = Path(found.origin).parent
    version = str(runpy.run_path(str(torch / "version.py"))["__version__"])
    folder = user_cache.folder_of(user_cache.TORCH, {"SCALANA_CACHE": str(cache)})
    return any(os.path.exists(native.library_path(folder, str(torch), version, abi)) for abi in (0, 1))


def shared() -> Path | None:
    """The cache of all tests, where there is one that has kernels."""
    named = os.environ.get("SCALANA_CACHE")
    return Path(named) if named and are_in(Path(named)) else None


def provide(cache: Path) -> str:
    """Let a job that finds no kernels in a cache ask for them, and put them there. Returns what went wrong, or "".

    They are compiled, or copied from the cache of all tests if they are there.
    """
    environment = {"SCALANA_CACHE": str(cache)}
    with tempfile.TemporaryDirectory() as run:
        done = jobs.python(ASK, Path(run), extra=environment)
    assert done.returncode == 0, done.stderr
    (path,) = torch_build.wanted(environment)
    known = Path(user_cache.folder_of(user_cache.TORCH, os.environ), Path(path).name)
    if not known.is_file():
        return torch_build.build(path, os.environ)
    shutil.copy(known, path)
    return ""


def main() -> int:
    cache = Path(os.environ["SCALANA_CACHE"])
    with tempfile.TemporaryDirectory() as work:
        trouble = provide(Path(work))
        if not trouble:
            shutil.copytree(work, cache, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.wanted"))
    print(trouble, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
