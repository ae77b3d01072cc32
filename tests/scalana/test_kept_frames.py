"""Native code of a run is known where its binaries are gone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scalana.frontend.cpp.binary.debug_files import build_id
from scalana.graphs.readers.folder.moved_sources import NOT_MOVED, Moved
from scalana.kept_frames import KeptFrames, symbols


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with debug information, and a build id."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    work = tmp_path_factory.mktemp("program")
    (work / "solve.c").write_text("int relax(int n)\n{\n    return n * 3;\n}\nint main(void) { return relax(0); }\n")
    words = [compiler, "-g", "-O0", "-Wl,--build-id", "-o", work / "solve", work / "solve.c"]
    subprocess.run([str(word) for word in words], check=True, timeout=60)
    return work / "solve"


def address_of(program: Path, name: str) -> int:
    from elftools.elf.elffile import ELFFile

    with program.open("rb") as file:
        (symbol,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(name)
        return int(symbol["st_value"])


def test_frames_outlive_their_binary(program: Path, tmp_path: Path) -> None:
    path, identity, at = str(program), build_id(str(program)), address_of(program, "relax")
    kept, changed = KeptFrames(str(tmp_path)), list[str]()
    ((here,),) = symbols(changed, kept, NOT_MOVED, path, identity, [at]).values()
    assert (here.name, here.first_line, changed) == ("relax", 1, [])
    kept.write()
    program.rename(program.with_name("gone"))
    try:
        ((there,),) = symbols(changed, KeptFrames(str(tmp_path)), NOT_MOVED, path, identity, [at]).values()
        assert there == here and changed == []
        moved = Moved(((str(program.parent), "/elsewhere"),))
        ((there,),) = symbols(changed, KeptFrames(str(tmp_path)), moved, path, identity, [at]).values()
        assert there.file == "/elsewhere/solve.c"
        nothing = KeptFrames(str(tmp_path / "another"))
        assert symbols(changed, nothing, NOT_MOVED, path, identity, [at]) == {} and changed == [path]
    finally:
        program.with_name("gone").rename(program)


@pytest.mark.parametrize("content", ["", "{}", '{"modules": [["a", "b", {"1": [[1]]}]]}', '{"modules": [1]}'])
def test_what_cannot_be_read_is_not_kept(content: str, tmp_path: Path) -> None:
    (tmp_path / "native-frames.json").write_text(content)
    assert KeptFrames(str(tmp_path)).frames(("a", "b"), [1, 2]) == {}
