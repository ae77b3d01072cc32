"""The one cache of the user: where it lies, how files get into it, and what happens where they cannot."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalana.runtime import user_cache
from scalana.runtime.mpi.kept import Kept
from scalana.runtime.torch import native


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


@pytest.mark.parametrize("changed", ["", "x", "x/1", "x/1/library.so"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_nothing_is_loaded_from_where_others_can_write(tmp_path: Path, changed: str, mode: int) -> None:
    cache = {"SCALANA_CACHE": str(tmp_path / "cache")}
    file = tmp_path / "cache" / "x" / "1" / "library.so"
    assert user_cache.keep(str(file), b"code")
    assert user_cache.distrust(str(file), cache) == ""
    (tmp_path / "cache" / changed).chmod(mode)
    assert str(tmp_path / "cache" / changed) in user_cache.distrust(str(file), cache)


def test_nothing_is_loaded_that_belongs_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x" / "library.so"
    assert user_cache.keep(str(file), b"code")
    owner = os.stat(file).st_uid or 1000
    os.chown(file, owner, -1) if os.geteuid() == 0 else None
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert "belongs to another user" in user_cache.distrust(str(file), {"SCALANA_CACHE": str(tmp_path)})


def test_a_link_out_of_the_cache_is_judged_by_what_it_leads_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside.so"
    outside.write_bytes(b"code")
    outside.chmod(0o666)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "library.so").symlink_to(outside)
    cache = {"SCALANA_CACHE": str(tmp_path / "cache")}
    assert str(outside) in user_cache.distrust(str(tmp_path / "cache" / "library.so"), cache)


def test_what_is_kept_is_safe_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = str(tmp_path / "cache" / "x" / "y" / "library.so")
        assert user_cache.keep(path, b"code")
        user_cache.want(path, "torch")
        made = tmp_path / "cache" / "x" / "made.so"
        made.touch()
        user_cache.seal(str(made))
    finally:
        os.umask(before)
    for file in (path, path + user_cache.WANTED, str(made)):
        assert user_cache.distrust(file, {"SCALANA_CACHE": str(tmp_path / "cache")}) == ""


def test_a_folder_that_others_can_write_to_is_replaced_by_one_in_the_run(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x").chmod(0o777)
    cache, job = {"SCALANA_CACHE": str(tmp_path)}, {"SCALANA_RUN_DIR": str(tmp_path / "run")}
    assert user_cache.folder_for("x", cache | job, "1") == str(tmp_path / "run" / "x")
    with pytest.raises(PermissionError, match="not safe to load from"):
        user_cache.folder_for("x", cache, "1")


def test_a_request_of_somebody_else_is_not_compiled(tmp_path: Path) -> None:
    cache = {"SCALANA_CACHE": str(tmp_path)}
    user_cache.want(str(tmp_path / "x" / "a.so"), "torch")
    user_cache.want(str(tmp_path / "x" / "b.so"), "torch")
    (tmp_path / "x" / "a.so.wanted").chmod(0o666)
    assert user_cache.wanted("x", cache) == [str(tmp_path / "x" / "b.so")]
    (tmp_path / "x").chmod(0o777)
    assert user_cache.wanted("x", cache) == []


def test_a_recorder_for_mpi_that_others_can_change_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path))
    (tmp_path / "libmpi.so").touch()
    kept = Kept("mpicc", [str(tmp_path / "libmpi.so")], str(tmp_path / "mpi" / "1"))
    files = [*kept.wrappers, kept.preloaded]
    for file in files:
        assert user_cache.keep(file, b"code")
    assert kept.missing == []
    os.chmod(files[0], 0o666)
    assert kept.missing == files[:1]


def test_kernels_for_torch_that_others_can_change_are_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path))
    notes: list[str] = []
    monkeypatch.setattr(native.session, "note", notes.append)
    path = str(tmp_path / "torch" / "kernels.so")
    monkeypatch.setattr(native, "library_path", lambda *_: path)
    torch = SimpleNamespace(
        __file__=str(tmp_path / "lib.py"), __version__="2", _C=SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
    )
    assert native.wanted_library(torch) == ""
    assert user_cache.keep(path, b"code")
    assert native.wanted_library(torch) == path and not notes
    os.chmod(path, 0o666)
    assert native.wanted_library(torch) == ""
    assert len(notes) == 1 and path in notes[0]
