"""Units on disk and in other processes: nothing is lost on the way, and nothing breaks it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from scalana.frontend.build import build_psg
from scalana.frontend.cpp.build import Cpp
from scalana.frontend.cpp.cache import Cache, key_of
from scalana.frontend.cpp.source import pool, worker
from scalana.frontend.cpp.source.flags import Compilation, command_line
from scalana.frontend.cpp.unit import decode, encode
from scalana.frontend.front_end import Options
from scalana.graphs.structure.psg import PSG
from tests.frontend.cpp.programs import build, needs_libclang
from tests.frontend.outline import outline, write

SOURCES = {
    "main.cpp": '#include "h.h"\nint main() { f(); g([](int) { while (1) { } }); }\n',
    "h.h": "inline void f() { for (;;) { } }\ntemplate <class F> void g(F f) { f(1); }\n",
    "other.cpp": "void h() { do { } while (1); }\n",
}


def read(folder: Path, cache: Cache, *, workers: int = 0) -> tuple[PSG, list[str]]:
    """The graph of the sources in a folder, and what was reported on the way."""
    told: list[str] = []
    progress = lambda done, total, file: told.append(f"{done}/{total}")  # noqa: E731
    cpp = Cpp(Options(flags=[]), cache=cache, workers=workers, progress=progress)
    return build_psg([folder], using=[cpp]), told


@needs_libclang
def test_units_survive_json(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    file = str(tmp_path / "main.cpp")
    compilation = Compilation(file, str(tmp_path), ())
    unit = worker.parse(file, command_line(compilation), str(tmp_path), False)
    data = encode(unit)
    assert len(unit.functions) == 5
    assert encode(decode(json.loads(json.dumps(data)))) == data


@pytest.mark.parametrize("damage", [{"format": -1}, {"files": []}, {"functions": [[1]]}, {"taken": None}])
def test_damaged_units_are_refused(damage: dict[str, object]) -> None:
    unit = worker.Unit("/a.cpp")
    with pytest.raises(ValueError, match="format|damaged"):
        decode({**encode(unit), "functions": [["f", [0, 1, 1, 0, "f", -1], "", [], [], False, True]], **damage})


@needs_libclang
def test_workers_find_the_same(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    here, _ = read(tmp_path, Cache("/dev/null/x"))
    there, told = read(tmp_path, Cache("/dev/null/x"), workers=2)
    assert outline(here, 0) == outline(there, 0)
    assert told == ["1/2", "2/2"]


@needs_libclang
def test_what_is_kept_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SOURCES)
    cache = tmp_path / "cache"
    first, _ = read(tmp_path, Cache(str(cache)))
    monkeypatch.setattr(worker, "parse", None)  # cannot be called
    again, told = read(tmp_path, Cache(str(cache)))
    assert outline(first, 0) == outline(again, 0)
    assert (again.warnings, told) == ([], ["1/2", "2/2"])


@needs_libclang
@pytest.mark.parametrize("changed", ["main.cpp", "h.h"])
def test_a_change_of_a_source_or_of_a_header_counts(tmp_path: Path, changed: str) -> None:
    write(tmp_path, SOURCES)
    cache = str(tmp_path / "cache")
    read(tmp_path, Cache(cache))
    write(tmp_path, {changed: SOURCES[changed] + "inline void added() { while (2) { } }\n"})
    psg, _ = read(tmp_path, Cache(cache))
    assert "loop while (2)" in outline(psg, 0)


@needs_libclang
def test_other_flags_are_another_result(tmp_path: Path) -> None:
    write(tmp_path, {"a.cpp": "int main() {\n#ifdef A\nfor (;;) { }\n#endif\n}\n"})
    cache = Cache(str(tmp_path / "cache"))
    plain = build([tmp_path / "a.cpp"], [], cache=cache)
    defined = build([tmp_path / "a.cpp"], ["-DA"], cache=cache)
    assert (outline(plain), outline(defined)) == ("", "loop for (;;)")


@needs_libclang
def test_what_could_not_be_read_whole_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, {"a.cpp": '#include "late.h"\nint main() { f(); }\n'})
    cache = str(tmp_path / "cache")
    before, _ = read(tmp_path, Cache(cache))
    assert before.warnings
    write(tmp_path, {"late.h": "void f() { for (;;) { } }\n"})
    after, _ = read(tmp_path, Cache(cache))
    assert (after.warnings, outline(after)) == ([], "function f\n  loop for (;;)")


def test_damaged_entries_are_not_there(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    key = key_of(["a"])
    assert cache.put(key, {"x": 1}, [])
    assert cache.get(key) == {"x": 1}
    (entry,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    entry.write_bytes(entry.read_bytes()[:-5])
    assert Cache(str(tmp_path)).get(key) is None


def test_headers_are_checked_each_in_its_way(tmp_path: Path) -> None:
    own, system = tmp_path / "own.h", tmp_path / "system.h"
    own.write_text("a")
    system.write_text("a")
    key = key_of(["a"])
    Cache(str(tmp_path / "c")).put(key, {}, [(str(own), False), (str(system), True)])
    os.utime(own, (1, 1))  # only touched
    assert Cache(str(tmp_path / "c")).get(key) == {}
    os.utime(system, (1, 1))
    assert Cache(str(tmp_path / "c")).get(key) is None


def test_keys_tell_parts_apart() -> None:
    assert key_of(["ab", "c"]) != key_of(["a", "bc"])


def test_a_cache_that_cannot_be_written_is_an_empty_one(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    cache = Cache(str(blocked / "below"))
    assert not cache.put(key_of(["a"]), {}, [])
    assert cache.get(key_of(["a"])) is None


def test_where_results_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCALANA_CACHE", str(tmp_path / "own"))
    assert Cache().folder == str(tmp_path / "own" / "cpp")
    monkeypatch.delenv("SCALANA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache().folder == str(tmp_path / "scalana" / "cpp")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Cache().folder == str(tmp_path / "home" / ".cache" / "scalana" / "cpp")


def test_a_source_on_which_the_worker_dies_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    dying = """
import json, os, sys
for line in sys.stdin:
    job = json.loads(line)
    if job["file"] == "/bad.cpp": os.abort()
    print(json.dumps({"file": job["file"]}), flush=True)
"""
    monkeypatch.setattr(pool, "_PROGRAM", dying)
    found: dict[int, dict[str, object]] = {}
    pool.run([{"file": f} for f in ("/a.cpp", "/bad.cpp", "/b.cpp")], found.__setitem__, workers=1)
    assert sorted(found) == [0, 1, 2]
    assert (found[0], found[2]) == ({"file": "/a.cpp"}, {"file": "/b.cpp"})
    assert "/bad.cpp: libclang crashed on this file" in str(found[1]["warnings"])


def test_without_libclang_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clang", None)
    write(tmp_path, SOURCES)
    cpp = Cpp(Options(flags=[]))
    (warning,) = build_psg([tmp_path], using=[cpp]).warnings
    assert "pip install libclang" in warning and cpp.lacking == [warning]
