"""``scalana psg`` with C and C++."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.frontend.cpp.programs import needs_libclang
from tests.frontend.outline import write

ROOT = Path(__file__).resolve().parents[3]
SOURCES = {
    "a.cpp": "#include <mpi.h>\nvoid work();\nint main() {\n#ifdef LOOP\n  for (;;) work();\n#endif\n}\n",
    "b.cpp": "#include <mpi.h>\nvoid work() { MPI_Barrier(MPI_COMM_WORLD); }\n",
}


def psg(cwd: Path, *arguments: str, without_clang: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``scalana psg`` in ``cwd`` with a cache of its own."""
    hide = "sys.modules['clang'] = None; " if without_clang else ""
    code = f"import sys; {hide}sys.path.insert(0, {str(ROOT)!r}); from scalana.cli import main; sys.exit(main())"
    environment = {**os.environ, "SCALANA_CACHE": str(cwd / "cache")}
    return subprocess.run(
        [sys.executable, "-c", code, "psg", *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@needs_libclang
def test_sources_with_flags(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    result = psg(tmp_path, "a.cpp", "b.cpp", "--", "-DLOOP")
    assert result.returncode == 0
    assert "loop  for (;;)" in result.stdout and "comm barrier" in result.stdout
    assert (tmp_path / "cache" / "cpp").is_dir()


@needs_libclang
def test_a_folder_of_sources(tmp_path: Path) -> None:
    write(tmp_path, {f"src/{name}": text for name, text in SOURCES.items()})
    result = psg(tmp_path, "src", "--full")
    assert result.returncode == 0
    assert "loop" not in result.stdout and "comm barrier" in result.stdout


def test_without_libclang_the_command_says_what_to_install(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    result = psg(tmp_path, "a.cpp", without_clang=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert "pip install libclang" in result.stderr


def test_a_source_that_is_missing(tmp_path: Path) -> None:
    result = psg(tmp_path, "gone.cpp")
    assert result.returncode == 1
    assert f"{tmp_path}/gone.cpp: cannot be read" in result.stderr


def test_flags_for_python_alone_are_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "pass\n"})
    result = psg(tmp_path, "train.py", "--", "-DX")
    assert result.returncode == 2 and "compiler flags" in result.stderr


@needs_libclang
def test_languages_share_a_graph(tmp_path: Path) -> None:
    write(tmp_path, {**SOURCES, "train.py": "for epoch in range(3):\n    print(epoch)\n"})
    result = psg(tmp_path, "train.py", "a.cpp", "b.cpp", "--full", "--", "-DLOOP")
    assert result.returncode == 0
    python, cpp, comm = (result.stdout.index(part) for part in ("for epoch in", "loop  for (;;)", "comm barrier"))
    assert python < cpp < comm


def test_python_is_shown_where_there_is_no_libclang(tmp_path: Path) -> None:
    write(tmp_path, {**SOURCES, "train.py": "for epoch in range(3):\n    print(epoch)\n"})
    result = psg(tmp_path, ".", "--full", without_clang=True)
    assert result.returncode == 0 and "for epoch in" in result.stdout
    assert "pip install libclang" in result.stderr
