"""Frames that are remembered, and line tables."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from scalana.frontend.cpp.binary import frames
from scalana.frontend.cpp.binary.elf import Binary, BinaryError
from scalana.frontend.cpp.binary.frames import frames_at
from scalana.frontend.cpp.binary.line_table import sequences
from scalana.frontend.cpp.binary.symbols import Symbols
from scalana.frontend.cpp.cache import Cache
from tests.frontend.cpp.test_symbols import COMPILER, SOURCE, addresses, compiled

pytest.importorskip("elftools", reason="pyelftools is not installed")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no compiler")


class Counting(Symbols):
    """Counts what is looked up in debug information."""

    asked: list[int]

    def frames(self, address: int) -> Any:
        """The frames at an address."""
        self.asked.append(address)
        return super().frames(address)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The addresses that were looked up."""
    monkeypatch.setattr(frames, "Symbols", Counting)
    Counting.asked = []
    return Counting.asked


@needs_compiler
@pytest.mark.parametrize("identity", ["-Wl,--build-id=sha1", "-Wl,--build-id=none"])
def test_an_address_is_looked_up_once(tmp_path: Path, asked: list[int], identity: str) -> None:
    path, cache = compiled(tmp_path, SOURCE, "-g", identity), Cache(str(tmp_path / "kept"))
    wanted = list(addresses(path, "work"))
    with Symbols(path) as symbols:
        expected = {address: symbols.frames(address) for address in wanted}
    assert frames_at(path, wanted[:4], cache=cache) == {address: expected[address] for address in wanted[:4]}
    assert frames_at(path, wanted, cache=cache) == expected
    assert frames_at(path, wanted[2:], cache=cache) == {address: expected[address] for address in wanted[2:]}
    assert asked == wanted


@needs_compiler
def test_a_program_that_was_built_again_is_another_one(tmp_path: Path, asked: list[int]) -> None:
    cache = Cache(str(tmp_path / "kept"))
    path = compiled(tmp_path, SOURCE, "-g", "-Wl,--build-id=0x1234")
    first = min(addresses(path, "work"))
    assert frames_at(path, [first], cache=cache)[first][0].first_line == 15
    path = compiled(tmp_path, "\n" + SOURCE, "-g", "-Wl,--build-id=0x1234")
    first = min(addresses(path, "work"))
    assert frames_at(path, [first], cache=cache)[first][0].first_line == 16
    assert len(asked) == 2


@needs_compiler
def test_what_was_kept_may_be_damaged_or_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = compiled(tmp_path, SOURCE, "-g"), Cache(str(tmp_path / "kept"))
    wanted = list(addresses(path, "work"))
    expected = frames_at(path, wanted[:3], cache=cache)
    (entry,) = [file for file in (tmp_path / "kept").rglob("*") if file.is_file()]
    monkeypatch.setattr(frames, "MOST_ADDRESSES", 4)
    assert frames_at(path, wanted[1:5], cache=cache) | expected == frames_at(path, wanted[:5], cache=cache)
    entry.write_bytes(entry.read_bytes()[:40])
    assert frames_at(path, wanted[:3], cache=cache) == expected
    with pytest.raises(BinaryError):
        frames_at(str(tmp_path / "gone"), [1], cache=cache)


def program(*codes: int) -> list[list[tuple[int, int, int, int]]]:
    """The rows of a line program with the header that GCC writes."""
    header = {
        "line_base": -10,
        "line_range": 242,
        "minimum_instruction_length": 1,
        "opcode_base": 10,
        "standard_opcode_lengths": [0, 1, 1, 1, 1, 0, 0, 0, 1],
    }
    data = bytes((7, 7, *codes, 7))
    return sequences(data, 2, len(data) - 1, header, little_endian=True)


def test_line_programs() -> None:
    start = (0, 9, 2, 0, 16, 0, 0, 0, 0, 0, 0)  # at 0x1000
    end = (0, 1, 1)
    assert program(*start, 5, 3, 3, 4, 1, 2, 0x85, 1, 4, 2, 3, 0x7E, 1, 6, 22, *end) == [
        [(0x1000, 1, 5, 3), (0x1085, 2, 3, 3), (0x1085, 2, 5, 3), (0x1085, 0, 0, 0)]
    ]
    assert program(*start, 8, 9, 5, 1, 0, 2, 4, 3, 1, *end, *start, 1, *end) == [
        [(0x1106, 1, 1, 0), (0x1106, 0, 0, 0)],
        [(0x1000, 1, 1, 0), (0x1000, 0, 0, 0)],
    ]
    assert program(*start, 3, 0x7F, 1, 3, 1, 1, *end) == [[(0x1000, 1, 1, 0), (0x1000, 0, 0, 0)]]  # line 0 is none


@needs_compiler
def test_code_that_the_linker_left_out_has_lines_and_no_addresses(tmp_path: Path) -> None:
    source = (
        "static void gone() {}\nvoid (*unused)() = gone;\nint sink;\nvoid dead() {\n    sink = 1;\n}\nint main() {}\n"
    )
    flags = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-g")
    try:
        path = compiled(tmp_path, source, *flags)
    except subprocess.CalledProcessError:
        pytest.skip("the linker leaves nothing out")
    with Binary(path) as binary:
        (unit,) = binary.units
        assert 5 in unit.lines()[unit.file] and 7 in unit.lines()[unit.file]
        assert 5 not in {line for _, _, line, _ in unit.addresses} >= {7}
