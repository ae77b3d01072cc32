"""Where machine code of loops is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from scalana.graphs.arrays import compiled_loops as module
from scalana.graphs.arrays.compiled_loops import compiled

OWN = numba.njit(cache=True)


def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module._config, "CACHE_DIR", "")
    module._folder.cache_clear()
    yield tmp_path / "cache"  # type: ignore[misc]
    module._folder.cache_clear()


def folder_of(loop: object) -> Path | None:
    """Where a loop keeps its machine code; None if it does not."""
    kept = getattr(loop._cache, "cache_path", None)  # type: ignore[attr-defined]
    return Path(kept) if kept else None


def test_loops_are_kept_in_the_cache_and_those_of_others_are_not(cache: Path) -> None:
    kept = folder_of(compiled(add))
    assert kept is not None and kept.is_relative_to(cache)
    assert folder_of(OWN(add)) == Path(__file__).parent / "__pycache__"  # as numba does


def test_a_folder_that_the_user_names_is_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._config, "CACHE_DIR", str(tmp_path / "named"))
    kept = folder_of(compiled(add))
    assert kept is not None and kept.is_relative_to(tmp_path / "named") and not cache.exists()


def test_nothing_is_kept_where_others_could_change_it(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    loop = compiled(add)
    assert folder_of(loop) is None and loop(1, 2) == 3


def test_a_loop_works_where_no_folder_can_be_written_to(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a read-only file system: numba finds no place, and says so by an error."""

    def refuse(*_: object) -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", refuse)
    loop = compiled(add)
    assert folder_of(loop) is None and loop(1, 2) == 3


def test_nothing_is_written_beside_sources_where_there_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loops.py").write_text("def add(a, b):\n    return a + b\n")
    program = (
        "from loops import add\nfrom scalana.graphs.arrays.compiled_loops import compiled\n"
        "assert compiled(add)(1, 2) == 3"
    )
    environ = {**os.environ, "SCALANA_CACHE": str(tmp_path / "file" / "x"), "PYTHONDONTWRITEBYTECODE": "1"}
    environ.pop("NUMBA_CACHE_DIR", None)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environ, check=True, timeout=120)
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loops.py"}
