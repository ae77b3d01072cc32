"""Copies of another thread's frames: nothing is looked up outside of them, wherever a broken chain leads."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.installed import RUNTIME

SOURCE = """#include "base/memory.h"
bool holds(uintptr_t low, uintptr_t high, uintptr_t from, size_t size) { return memory_holds(low, high, from, size); }
"""
LOW, HIGH, SIZE = 0x563E1C909000, 0x563E1C90B048, 0x48


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder: Path = tmp_path_factory.mktemp("holds")
    (folder / "holds.c").write_text(SOURCE)
    flags = ["-std=c11", "-shared", "-fPIC", f"-I{RUNTIME / '_core'}", "-o", str(folder / "holds.so")]
    subprocess.run([compiler, *flags, str(folder / "holds.c")], check=True, timeout=60)
    loaded = ctypes.CDLL(str(folder / "holds.so"))
    loaded.holds.argtypes, loaded.holds.restype = [ctypes.c_size_t] * 4, ctypes.c_bool
    return loaded


@pytest.mark.parametrize(
    ("at", "inside"), [(LOW, True), (HIGH - SIZE, True), (LOW - 8, False), (HIGH - SIZE + 8, False)]
)
def test_a_frame_lies_in_a_window_as_a_whole(window: ctypes.CDLL, at: int, inside: bool) -> None:
    assert window.holds(LOW, HIGH, at, SIZE) is inside


@pytest.mark.parametrize("before_the_end", range(8, SIZE + 16, 8))
def test_the_last_addresses_lie_in_no_window(window: ctypes.CDLL, before_the_end: int) -> None:
    last = 2**64 - before_the_end
    assert not window.holds(LOW, HIGH, last, SIZE)
    assert not window.holds(0, 0, last, SIZE)
