"""Files and folders, broken ones included."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from scalana.frontend.build import build_psg
from scalana.frontend.front_end import Options
from scalana.frontend.python.build import Sources, is_library, library_folders
from scalana.frontend.python.source import parse_python
from scalana.graphs.structure.psg import PSG, VertexKind
from scalana.graphs.structure.source_tree import UNKNOWN, holds, preorder, settle
from tests.frontend.outline import write
from tests.long import also


def names(psg: PSG) -> list[str]:
    return [psg[child].place.name for child in psg[0].children]


def test_nothing_is_executed(tmp_path: Path) -> None:
    write(
        tmp_path, {"main.py": f"open({str(tmp_path / 'ran')!r}, 'w')\nimport side\n", "side.py": "raise SystemExit\n"}
    )
    build_psg([tmp_path / "main.py"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("syntax.py", b"def f(:\n", f"not valid Python {sys.version_info.major}.{sys.version_info.minor} in line 1"),
        ("encoding.py", b"# coding: utf-8\nx = '\xff\xfe'\n", "encoding.py"),
        ("cookie.py", b"# coding: klingon\n", "cookie.py"),
        ("zero.py", b"x = 1\0\n", "zero.py"),
        ("old.py", b"print 'x'\n", "not valid Python"),
    ],
)
def test_a_broken_file_is_a_warning_with_its_name_and_the_rest_comes_out(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    write(tmp_path, {"good.py": "def f():\n    pass\nf()\n"})
    (tmp_path / name).write_bytes(content)
    psg = build_psg([tmp_path])
    assert [w for w in psg.warnings if name in w and reason in w]
    assert names(psg) == ["<module>"]
    assert any(vertex.place.name == "f" for vertex in psg.vertices)


def test_a_broken_import_leaves_the_importer_whole(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": "import bad\nbad.f()\nfor i in x: pass\n", "bad.py": "def f(:\n"})
    psg = build_psg([tmp_path / "main.py"])
    assert any(vertex.kind is VertexKind.LOOP for vertex in psg.vertices)
    assert any("bad.py" in warning for warning in psg.warnings)


def test_a_missing_or_unreadable_file_is_a_warning(tmp_path: Path) -> None:
    psg = build_psg([tmp_path / "nowhere.py"])
    assert len(psg) == 1 and "nowhere.py" in psg.warnings[0]
    (tmp_path / "empty").mkdir()
    assert "no C, C++ or Python files" in build_psg([tmp_path / "empty"]).warnings[0]
    secret = tmp_path / "secret.py"
    secret.write_text("x = 1\n")
    secret.chmod(0)
    if not os.access(secret, os.R_OK):
        assert "secret.py" in build_psg([secret]).warnings[0]


def test_a_path_that_is_none_is_a_warning() -> None:
    # The name of a file that was read while its code object was being freed.
    sources = Sources()
    assert sources.parse("\0half a name.py") is None
    assert "null byte" in sources.warnings[0] or "null character" in sources.warnings[0]


def test_a_declared_encoding_is_obeyed(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes("# coding: latin-1\nfor é in x:\n    pass\n".encode("latin-1"))
    psg = build_psg([tmp_path / "latin.py"])
    assert [v.place.name for v in psg.vertices if v.kind is VertexKind.LOOP] == ["for é in x"]


def test_a_folder_shows_functions_that_nothing_calls_once_under_their_callers(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "def inner(): pass\ndef outer(): inner()\nclass C:\n    def m(self): outer()\n"})
    write(tmp_path, {"sub/b.py": "x = 1\n", ".hidden/c.py": "y = 1\n", "__pycache__/d.py": "z = 1\n"})
    psg = build_psg([tmp_path])
    assert names(psg) == ["<module>", "<module>", "C.m"]
    assert [v.place.name for v in psg.walk() if v.kind is VertexKind.FUNCTION][2:] == ["C.m", "outer", "inner"]


def test_installed_code_is_not_followed_unless_it_is_what_is_asked_for(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "pkg"
    write(installed, {"__init__.py": "def f():\n    g()\ndef g(): pass\n"})
    write(tmp_path, {"main.py": "import pkg\npkg.f()\n"})
    psg = build_psg([tmp_path / "main.py"], Options(search=[tmp_path / "site-packages"]))
    assert not any(vertex.place.name == "f" for vertex in psg.vertices)
    psg = build_psg([installed])
    assert any(vertex.place.name == "f" for vertex in psg.vertices)


def test_the_standard_library_is_library() -> None:
    folders = library_folders()
    assert is_library(os.__file__, folders) and is_library(pytest.__file__, folders)
    assert not is_library(__file__, folders)


def test_each_file_is_parsed_once(tmp_path: Path) -> None:
    write(tmp_path, {"main.py": "x = 1\n"})
    sources = Sources()
    file = str(tmp_path / "main.py")
    assert sources.parse(file) is sources.parse(file) is not None
    assert sources.parse(str(tmp_path / "none.py")) is None is sources.parse(str(tmp_path / "none.py"))
    assert len(sources.warnings) == 1


def _code_objects(code: object) -> list[object]:
    found = [code]
    for constant in code.co_consts:  # type: ignore[attr-defined]
        if hasattr(constant, "co_code"):
            found.extend(_code_objects(constant))
    return found


@pytest.mark.parametrize(
    "module",
    [
        "asyncio.base_events",
        "json.decoder",
        *also("argparse", "ast", "dataclasses", "logging"),
    ],
)
def test_every_executable_line_lies_in_one_innermost_vertex(module: str) -> None:
    """Lines by the compiler's own tables; nodes are nested or apart, and hold the lines of what is inside them."""
    __import__(module)
    file = sys.modules[module].__file__ or ""
    structure = parse_python(file)
    file_lines = Path(file).read_text().splitlines()
    code = compile(Path(file).read_text(), file, "exec")
    uncovered: list[tuple[str, int]] = []
    total = 0
    for each in _code_objects(code):
        name = each.co_name  # type: ignore[attr-defined]
        if name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>") or name.startswith("<generic"):
            continue
        lines = {line for _, _, line in each.co_lines() if line}  # type: ignore[attr-defined]
        function = structure.find(name, each.co_firstlineno, max(lines, default=0))  # type: ignore[attr-defined]
        assert function is not None, (name, each.co_firstlineno)  # type: ignore[attr-defined]
        nodes = settle(function.nodes, lambda node: UNKNOWN).nodes
        for node in preorder(nodes):
            for child in node.children:
                assert node.place.line <= child.place.line <= child.place.end_line <= node.place.end_line
        for line in lines - {each.co_firstlineno}:  # type: ignore[attr-defined]
            total += 1
            assert holds(function.place, line)
            if not any(holds(node.place, line) for node in nodes):
                uncovered.append((name, line))
        stretches = [n.place for n in preorder(nodes) if n.kind is VertexKind.COMP]
        for first, second in zip(stretches, stretches[1:], strict=False):
            if first.file == second.file and first.end_line > second.line:
                # Stretches do not overlap but where one holds an expression with a loop or branch inside.
                assert first.end_line >= second.end_line or first.end_line <= second.line
    # What is left belongs to the function itself: the line of `try:`, of a docstring, of `finally:`.
    strings = {
        line
        for node in ast.walk(ast.parse("\n".join(file_lines)))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    left = [
        (name, line)
        for name, line in uncovered
        if line not in strings
        and not file_lines[line - 1].strip().startswith(("try:", "finally:", "else:", "def ", "class ", "@"))
    ]
    assert total > 100
    assert left == []
