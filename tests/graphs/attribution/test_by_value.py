"""Code without a file is found by its name and its first line, and only where one file has such a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalana.frontend.front_end import Options
from scalana.frontend.python.build import Python
from scalana.graphs.attribution.by_value import UNPICKLED, files_by_value
from scalana.graphs.attribution.called import name_of_call
from scalana.runtime.record.format import Code

ENVS = "class Env:\n    def step(self):\n        return 1\n\n    def reset(self):\n        return 0\n"
OTHER = "\n\ndef main():\n    pass\n"


def code(name: str, first_line: int, file: str = UNPICKLED) -> tuple[Code, str]:
    return Code(file, name, first_line, 11, b""), file


def found(folder: Path, *codes: tuple[Code, str], **files: str) -> dict[tuple[str, int], str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    paths = [str(folder / f"{name}.py") for name in files]
    return files_by_value(codes, paths, Python(Options()).parse)


def test_a_method_is_found_in_the_file_that_has_it(tmp_path: Path) -> None:
    known = found(tmp_path, code("Env.step", 2), code("Env.reset", 5), envs=ENVS, other=OTHER)
    assert known == {("Env.step", 2): str(tmp_path / "envs.py"), ("Env.reset", 5): str(tmp_path / "envs.py")}


@pytest.mark.parametrize(("name", "line"), [("Env.step", 3), ("Pool.step", 2), ("step", 9)])
def test_another_name_or_line_is_another_function(tmp_path: Path, name: str, line: int) -> None:
    assert found(tmp_path, code(name, line), envs=ENVS, other=OTHER) == {}


def test_where_two_files_have_it_none_is_taken(tmp_path: Path) -> None:
    assert found(tmp_path, code("Env.step", 2), envs=ENVS, copy=ENVS) == {}


def test_code_with_a_file_is_not_looked_for(tmp_path: Path) -> None:
    assert found(tmp_path, code("Env.step", 2, "/elsewhere/envs.py"), envs=ENVS) == {}


@pytest.mark.parametrize(
    ("text", "column", "qualname", "expected"),
    [
        ("    optimizer.step()", 4, "Optimizer.profile_hook_step.<locals>.wrapper", "optimizer.step"),
        ("y = self.model(x)", 4, "Module._wrapped_call_impl", "self.model"),
        ("frame.fillna(0)", 0, "deprecate_kwarg.<locals>._decorate.<locals>.wrapper", "frame.fillna"),
        ("take(model)(x)", 0, "contract.<locals>.inner.<locals>.wrapper", "take"),
        ("loss.backward()", 0, "Tensor.backward", "Tensor.backward"),
        ("größe = net(x)", 10, "Module._wrapped_call_impl", "net"),
        ("(a + b)(x)", 0, "Module._wrapped_call_impl", "Module._wrapped_call_impl"),
        ("optimizer.step()", -1, "Optimizer.profile_hook_step.<locals>.wrapper", "Optimizer.profile_hook_step"),
    ],
)
def test_a_wrapper_has_the_name_by_which_it_is_called(
    tmp_path: Path, text: str, column: int, qualname: str, expected: str
) -> None:
    (tmp_path / "a.py").write_text(f"\n{text}\n")
    assert name_of_call(str(tmp_path / "a.py"), 2, column, qualname) == expected
