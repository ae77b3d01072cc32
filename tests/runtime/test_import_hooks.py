"""Functions that run when a module has been imported."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from scalana.runtime import import_hooks


@pytest.fixture
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("hooked_one", "hooked_two", "hooked_broken"):
        sys.modules.pop(name, None)
        import_hooks._watched.pop(name, None)
    if import_hooks._finder in sys.meta_path:
        sys.meta_path.remove(import_hooks._finder)


def test_the_function_gets_the_finished_module(module_folder: Path) -> None:
    (module_folder / "hooked_one.py").write_text("value = 1\n")
    seen = []
    import_hooks.when_imported("hooked_one", lambda module: seen.append(module.value))
    assert seen == []
    module = importlib.import_module("hooked_one")
    assert seen == [1]
    assert import_hooks._finder not in sys.meta_path
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert "exec_module" not in vars(module.__loader__)
    assert inspect.getsource(module) == "value = 1\n"


def test_a_module_that_is_there_already_is_seen_at_once(module_folder: Path) -> None:
    seen = []
    import_hooks.when_imported("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_a_module_that_watches_another_does_not_disturb(module_folder: Path) -> None:
    (module_folder / "hooked_one.py").write_text("import hooked_two\n")
    (module_folder / "hooked_two.py").write_text("")
    seen = []
    import_hooks.when_imported("hooked_one", lambda module: seen.append(module.__name__))
    import_hooks.when_imported("hooked_two", lambda module: seen.append(module.__name__))
    importlib.import_module("hooked_one")
    assert seen == ["hooked_two", "hooked_one"]


def test_errors_of_the_module_and_of_the_function_stay_apart(module_folder: Path) -> None:
    (module_folder / "hooked_broken.py").write_text("1 / 0\n")
    (module_folder / "hooked_one.py").write_text("")
    import_hooks.when_imported("hooked_broken", lambda module: None)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("hooked_broken")
    import_hooks.when_imported("hooked_one", lambda module: 1 / 0)
    assert importlib.import_module("hooked_one")


def test_a_module_that_does_not_exist_stays_missing(module_folder: Path) -> None:
    import_hooks.when_imported("hooked_two", lambda module: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hooked_two")
