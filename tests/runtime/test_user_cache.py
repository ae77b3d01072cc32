"""The one cache of the user: where it lies, how files get into it, and what happens where they cannot."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

from scalana.runtime import user_cache


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    below_home = str(tmp_path / ".cache" / "scalana" / "x")
    assert user_cache.folder_of("x", {}) == below_home
    assert user_cache.folder_of("x", {"XDG_CACHE_HOME": "relative"}) == below_home
    assert user_cache.folder_of("x", {"XDG_CACHE_HOME": "/xdg"}) == "/xdg/scalana/x"
    assert user_cache.folder_of("x", {"XDG_CACHE_HOME": "/xdg", "SCALANA_CACHE": "/own"}) == "/own/x"


def test_what_is_kept_is_there(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    assert user_cache.kept(path) is None
    assert user_cache.keep(path, b"one") and user_cache.keep(path, b"two")
    assert user_cache.kept(path) == b"two"
    assert os.listdir(tmp_path / "a") == ["b"]
    user_cache.remove(path)
    user_cache.remove(path)
    assert user_cache.kept(path) is None


def test_readers_see_all_of_a_file_or_none(tmp_path: Path) -> None:
    path, sizes, over = str(tmp_path / "file"), set(), threading.Event()
    writers = [
        threading.Thread(target=lambda n=n: [user_cache.keep(path, bytes(n)) for _ in range(50)]) for n in (9, 1 << 20)
    ]

    def read() -> None:
        while not over.is_set():
            sizes.add(len(user_cache.kept(path) or bytes(9)))

    reader = threading.Thread(target=read)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    assert sizes <= {9, 1 << 20}


def test_on_a_full_disk_nothing_is_kept_and_nothing_left(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))  # Python ignores the signal
    try:
        assert not user_cache.keep(str(tmp_path / "large"), bytes(1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_where_there_is_no_folder_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not user_cache.keep(str(tmp_path / "file" / "below"), b"x")
    assert user_cache.wanted("x", {"SCALANA_CACHE": str(tmp_path / "file")}) == []


def test_what_a_job_needs_has_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    alone, job = {"SCALANA_CACHE": str(tmp_path / "file")}, {"SCALANA_RUN_DIR": str(tmp_path / "run")}
    assert user_cache.folder_for("x", {"SCALANA_CACHE": str(tmp_path)} | job, "1") == str(tmp_path / "x" / "1")
    assert user_cache.folder_for("x", alone | job, "1") == str(tmp_path / "run" / "x")
    assert (tmp_path / "run" / "x").is_dir()
    with pytest.raises(OSError):
        user_cache.folder_for("x", alone, "1")
