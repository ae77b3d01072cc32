"""The table of offsets into the interpreter's objects: only the column of the Python at hand is ever compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.installed import RUNTIME

VERSIONS = {10: "0x030A00F0", 11: "0x030B00F0", 12: "0x030C00F0", 13: "0x030D00F0", 14: "0x030E00F0"}
STRUCTURES = {
    "interpreter": "PyInterpreterState",
    "thread": "PyThreadState",
    "object": "PyFrameObject",
    "frame": "_PyInterpreterFrame",
    "cframe": "_PyCFrame",
    "code": "PyCodeObject",
}

EXPECTED = """
minor | 10 | 11 | 12 | 13 | 14
interp_head | interpreter.tstate_head | interpreter.threads.head
interp_made | interpreter.tstate_next_unique_id | interpreter.threads.next_unique_id
thread_next | thread.next
thread_interp | thread.interp
thread_native_id | FRAMES_NONE | thread.native_thread_id
thread_pthread | thread.thread_id
thread_frame | thread.frame | thread.cframe | thread.cframe | thread.current_frame
cframe_frame | FRAMES_NONE | cframe.current_frame | cframe.current_frame | FRAMES_NONE
frame_code | object.f_code | frame.f_code | frame.f_code | frame.f_executable
frame_previous | object.f_back | frame.previous
frame_globals | object.f_globals | frame.f_globals
frame_instruction | object.f_lasti | frame.prev_instr | frame.prev_instr | frame.instr_ptr
frame_owner | FRAMES_NONE | frame.owner
frame_state | object.f_state | FRAMES_NONE
frame_size | object.f_state + sizeof(PyFrameState) | frame.localsplus
frame_is_object | 1 | 0
instruction_is_index | 1 | 0
owner_generator | 0xff | owned.GENERATOR
owner_interpreter | 0xff | owned.FRAME_OBJECT + 1 | owned.CSTACK | owned.CSTACK | owned.INTERPRETER
code_tag_mask | 0 | 0 | 0 | 0 | 3
code_consts | code.co_consts
code_names | code.co_names
code_first_line | code.co_firstlineno
code_file | code.co_filename
code_name | code.co_name
code_qualname | code.co_name | code.co_qualname
code_table | code.co_linetable
code_version | FRAMES_NONE | FRAMES_NONE | code.co_version
code_body | FRAMES_NONE | code.co_code_adaptive
code_first_traceable | FRAMES_NONE | code._co_firsttraceable
code_size | code.co_linetable + sizeof(PyObject *) | code.co_code_adaptive
code_has_length | 0 | 1
"""
"""What each version's own headers say, as ``structure.field``: a column a version, the last one for all later ones."""


def expected(version: int) -> dict[str, str]:
    """The column of a version, by field."""
    found = {}
    for line in EXPECTED.strip().splitlines():
        field, *columns = (cell.strip() for cell in line.split("|"))
        found[field] = columns[min(version - min(VERSIONS), len(columns) - 1)]
    return found


def compiled(version: int, folder: Path) -> dict[str, str]:
    """The initialiser that the preprocessor leaves of the table for a version, by field."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = folder / "table.c"
    source.write_text('#include "frames/layout.h"\n')
    flags = ["-std=gnu11", "-E", "-P", f"-DPY_VERSION_HEX={VERSIONS[version]}", f"-I{RUNTIME / '_core'}"]
    text = subprocess.run(
        [compiler, *flags, str(source)], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    body = re.sub(r"\s+", " ", text[text.index("layout = {") + len("layout = {") : text.rindex("};")])
    fields = (entry.split("=", 1) for entry in re.split(r", ?(?=\.\w+ =)", body.strip().rstrip(",")))
    return {name.strip().lstrip("."): shortened(value.strip()) for name, value in fields}


def shortened(value: str) -> str:
    """An expression with its offsets as ``structure.field``."""
    names = {structure: name for name, structure in STRUCTURES.items()}
    value = value.replace("(4294967295U)", "FRAMES_NONE").replace("FRAME_OWNED_BY_", "owned.")
    return re.sub(r"__builtin_offsetof ?\((\w+), ?([\w.]+)\)", lambda m: f"{names[m[1]]}.{m[2]}", value)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_column_is_what_the_headers_of_its_version_say(version: int, tmp_path: Path) -> None:
    assert compiled(version, tmp_path) == expected(version)
